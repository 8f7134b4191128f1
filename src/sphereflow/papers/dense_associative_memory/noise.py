r"""The noise of the other patterns: its mean, its typical value, and the weight a pattern keeps for itself.

$$E\,S_{nr}=M\,\Gamma(\tfrac N2)\big(\tfrac2{\beta N}\big)^{N/2-1}e^{-\beta N}I_{N/2-1}(\beta N),\qquad
  \phi_{noise}=\tfrac1{\beta N}E\ln\sum_\mu e^{\beta N\phi^\mu}.$$
"""

from __future__ import annotations

import numpy as np
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import gammaln, logsumexp

from sphereflow.claims import Check, Run, basis
from sphereflow.estimates import mean
from sphereflow.memory import overlaps, spherical
from sphereflow.memory.noise import log_mean_noise, log_mean_noise_leading, one_step_weight, sample_log_noise
from sphereflow.papers.dense_associative_memory import PAPER
from sphereflow.papers.dense_associative_memory.sources import NOISE_SUM


def log_kernel_integral(n: int, beta: float, exponent: float) -> float:
    """ln of the mean of exp(-beta N (1 - phi)) under the density (1 - phi^2)^exponent, with scipy's quadrature."""
    top, bottom = (
        quad(lambda p, k=k: (1 - p * p) ** exponent * np.exp(-k * (1 - p)), -1, 1, epsabs=0, epsrel=1e-12, limit=400)[0]
        for k in (beta * n, 0.0)
    )
    return float(np.log(top / bottom))


@PAPER.claim(
    "mean-noise",
    says="The mean of the noise sum over drawn overlaps is the Bessel form, which the overlap law of the sphere gives.",
    basis=NOISE_SUM,
    formula=r"E\,S_{nr}=M\,\Gamma(\tfrac N2)(\tfrac{2}{\beta N})^{N/2-1}e^{-\beta N}I_{N/2-1}(\beta N)",
)
def mean_noise(run: Run) -> Check:
    draws, beta = 4000 if run.quick else 40_000, 1.0
    rng = np.random.default_rng(run.seed)
    check = Check(parameters={"beta": beta, "load": 0.3, "draws": draws})
    gauss, exponent, logarithm = {}, {}, {}
    for n in (10, 20):
        others = round(np.exp(0.3 * n)) - 1
        logs = logsumexp(-beta * n * (1 - overlaps.sample(rng, n, (draws, others))), axis=1)
        sums = mean(np.exp(logs))
        name = f"$N={n}$, {others} others"
        load = np.log(others) / n
        check.row(
            name,
            predicted=log_mean_noise(n, load, beta),
            measured=np.log(sums.value),
            error=sums.error / sums.value,
            repeats=draws,
            tolerance=1e-12,
            because="standard error of the mean, carried to its logarithm",
        )
        check.row(
            f"quadrature, {name}",
            predicted=log_mean_noise(n, load, beta),
            measured=np.log(others) + log_kernel_integral(n, beta, (n - 3) / 2),
            tolerance=1e-10,
            because="relative accuracy 1e-12 of the quadrature",
        )
        gauss[name] = np.log(others) - beta * n + beta**2 * n / 2
        exponent[name] = np.log(others) + log_kernel_integral(n, beta, (n - 1) / 2)
        logarithm[name] = float(logs.mean())
    check.rival("Gaussian overlaps of variance 1/N", gauss)
    check.rival("the exponent (N-1)/2 in the overlap law", exponent)
    check.null("the mean of the logarithm in place of the logarithm of the mean", logarithm)
    return check


@PAPER.claim(
    "mean-noise-leading",
    says=r"At $\beta=1/2$ and 1 the leading terms of the mean noise, with their prefactor, miss quadrature by less "
    r"than $0.02/N$ in the logarithm; at $\beta=4$ by more.",
    basis=NOISE_SUM,
    formula=r"E\,S_{nr}\simeq e^{N(\alpha+g_{max}-\beta)}/\sqrt{1-\phi^{*4}}",
)
def mean_noise_leading(run: Run) -> Check:
    check = Check(parameters={"load": 0.3})
    bare, square, gauss = {}, {}, {}
    for beta in (0.5, 1.0):
        phi = float(spherical.saddle(beta))
        for n in (10, 50, 200):
            name = rf"$\beta={beta:g}$, $N={n}$"
            check.row(
                name,
                predicted=log_mean_noise_leading(n, 0.3, beta),
                measured=0.3 * n + log_kernel_integral(n, beta, (n - 3) / 2),
                tolerance=0.02 / n,
                because="the next term of the expansion, of order 1/N",
            )
            leading = n * (0.3 - float(spherical.capacity(beta)))
            bare[name] = leading
            square[name] = leading - np.log1p(-(phi**2)) / 2
            gauss[name] = n * (0.3 + beta**2 / 2 - beta)
    warm = {}
    for n in (10, 50, 200):
        name = rf"miss times $N$, $\beta=4$, $N={n}$"
        cold, mild = (
            n * abs(log_mean_noise_leading(n, 0.3, b) - 0.3 * n - log_kernel_integral(n, b, (n - 3) / 2))
            for b in (4.0, 1.0)
        )
        because = "the constant of the other two does not do; N times the error of the quadrature"
        check.at_least(name, bound=0.02, measured=cold, tolerance=1e-8 * n, because=because)
        warm[name] = float(mild)
    check.null(r"$\beta=1$", warm)
    check.rival("without the prefactor", bare)
    check.rival(r"the prefactor $(1-\phi^{*2})^{-1/2}$", square)
    check.rival(r"Gaussian overlaps, $g_{max}=\beta^2/2$", gauss)
    return check


def frozen_noise(n: int, alpha: float, beta: float) -> tuple[float, float]:
    r"""(typical noise, that of the nearest pattern alone) below $\alpha^*$, from extreme values.

    The nearest patterns are a Poisson process whose density falls like $e^{-Nm\beta(\phi-\phi_1)}$ where one pattern
    is expected beyond $\phi_1$; their sum is a stable variable of index m, with the mean logarithm
    $\ln\Gamma(1-m)/m+\gamma(1/m-1)$.
    """
    first = brentq(lambda p: alpha * n + float(overlaps.log_tail(p, n)), 1e-6, 1 - 1e-9)
    m = first / (1 - first**2) * (n - 3) / n / beta
    stable = gammaln(1 - m) / m + np.euler_gamma * (1 / m - 1)
    return first + stable / (beta * n), first + np.euler_gamma / m / (beta * n)


@PAPER.claim(
    "typical-noise",
    says=r"Below the load $\alpha^*$ the typical noise is that of the few nearest patterns, above it that of the mean: "
    "draws for $N=300$ to 3000 follow the extreme-value law on one side and the mean on the other.",
    basis=basis.Derived("extreme values of independent overlaps; the papers use the mean at all loads"),
    formula=r"\phi_{noise}(N)=\phi_1+\frac{\ln\Gamma(1-m)/m+\gamma(1/m-1)}{\beta N},\quad M\Pr(\phi>\phi_1)=1,\quad "
    r"m=\frac{|s'(\phi_1)|}\beta",
)
def typical_noise(run: Run) -> Check:
    beta, draws = 1.0, 600 if run.quick else 6000
    check = Check(parameters={"beta": beta, "draws": draws, "alpha*": spherical.load_switch(beta)})
    limit, annealed, nearest = {}, {}, {}
    prefactor = -np.log1p(-(float(spherical.saddle(beta)) ** 4)) / 2
    for alpha in (0.05, 0.15, 0.4):
        for n in (300, 1000, 3000):
            drawn = mean(1 + sample_log_noise(n, alpha, beta, draws, run.seed) / (beta * n))
            name = f"load {alpha:g}, $N={n}$"
            mean_branch = (alpha + float(spherical.g_max(beta)) + prefactor / n) / beta
            frozen = alpha < spherical.load_switch(beta)
            check.row(
                name,
                predicted=frozen_noise(n, alpha, beta)[0] if frozen else mean_branch,
                measured=drawn.value,
                error=drawn.error,
                repeats=draws,
                tolerance=0.2 / n if frozen else 2 / n**2,
                because="standard error; what the straight slope of the density leaves out is of higher order in 1/N",
            )
            if frozen:
                annealed[name] = mean_branch
                nearest[name] = frozen_noise(n, alpha, beta)[1]
            limit[name] = float(spherical.noise_overlap(alpha, beta))
    check.rival("the mean noise at all loads", annealed)
    check.rival("the nearest pattern alone", nearest)
    check.rival("the limit of infinite N", limit)
    return check


@PAPER.claim(
    "one-step-weight",
    says=r"The median softmax weight of a stored pattern for itself falls across the capacity as predicted, at "
    r"$\beta=1$ and loads 0.5 to 0.7, more steeply for larger $N$.",
    basis=basis.Derived("one attention step from a stored pattern against the mean noise"),
    formula=r"w_1\approx[1+e^{N(\alpha-\alpha_c)}/\sqrt{1-\phi^{*4}}]^{-1}",
)
def weight(run: Run) -> Check:
    draws, beta = 300 if run.quick else 4000, 1.0
    check = Check(parameters={"beta": beta, "draws": draws})
    gauss, smaller, bound = {}, {}, {}
    for n in (10, 16):
        for load in (0.5, 0.6, 0.7):
            weights = one_step_weight(sample_log_noise(n, load, beta, draws, run.seed))
            name = f"$N={n}$, load {load:g}"
            check.row(
                name,
                predicted=one_step_weight(log_mean_noise_leading(n, load, beta)),
                measured=np.median(weights),
                error=1.2533 * weights.std(ddof=1) / np.sqrt(draws),
                repeats=draws,
                tolerance=0.15 / n,
                because="standard error of a median, and the distance of order 1/N of the median from the mean",
            )
            gauss[name] = 1 / (1 + np.exp(n * (load - 0.5)))
            bound[name] = 1 / (1 + np.exp(n * (load - spherical.separation_bound(beta))))
            smaller[name] = float(one_step_weight(log_mean_noise_leading(26 - n, load, beta)))
    check.rival("the capacity 0.5 of Gaussian overlaps", gauss)
    check.rival("the load up to which separated patterns guarantee retrieval", bound)
    check.rival("the two sizes exchanged", smaller)
    return check
