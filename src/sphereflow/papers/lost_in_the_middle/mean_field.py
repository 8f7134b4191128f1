r"""The mean-field limit: layers, waves on the uniform state, and the fluctuations of finitely many tokens.

$$f_0(\sigma,\cdot)=f_0\ \Longrightarrow\ f(t,\sigma,\cdot)=f(t),\qquad
  \dot\theta=(w_\beta'*f)(\theta),\quad\text{whatever }\lambda.$$
"""

from __future__ import annotations

import numpy as np
from scipy import integrate, interpolate

from sphereflow.claims import Check, Run, basis
from sphereflow.estimates import mean
from sphereflow.papers.lost_in_the_middle import PAPER, reference
from sphereflow.papers.lost_in_the_middle.sources import LEAN
from sphereflow.papers.lost_in_the_middle.volterra import MODES, layers
from sphereflow.retrieval.circle import CausalCircle
from sphereflow.retrieval.influence import circle_advance

LAYERED = basis.Equation("the layered mean-field equation", via=LEAN)


@PAPER.claim(
    "layers-alike",
    says="If the law of tokens does not depend on position at the start, it never does: at slope 1 the first, the "
    "middle and the last layer all follow the flow in which every token sees the whole law.",
    basis=LAYERED,
    formula=r"\partial_tf=-\partial_\theta\big(f\,(w_\beta'*f)\big)",
)
def layers_alike(run: Run) -> Check:
    flow = layers(lambda sigma, theta: 1 + 0.5 * np.cos(theta) + 0 * sigma)
    check = Check(parameters={"beta": 1, "slope": 1, "t": 1})
    predicted = reference.common_flow(lambda theta: 1 + 0.5 * np.cos(theta), 1.0, 1.0, (1, 2))
    places = {"first": 0, "middle": len(flow.sigma) // 2, "last": -1}
    for n, exact in zip((1, 2), predicted, strict=True):
        for name, place in places.items():
            because = "time steps to 1e-10"
            found = flow.wave(n)[place]
            check.row(f"cos {n}, {name} layer", predicted=exact, measured=found, tolerance=2e-9, because=because)
    grown = 0.25 * np.exp(reference.rates(1.0)[0])
    check.rival("linear growth of the first wave", {f"cos 1, {name} layer": grown for name in places})
    slow = reference.common_flow(lambda theta: 1 + 0.5 * np.cos(theta), 1.0, 1 - np.exp(-1), (1, 2))
    check.rival("weights that are not normalised", {"cos 1, last layer": slow[0], "cos 2, last layer": slow[1]})
    return check


@PAPER.claim(
    "wave-growth",
    says=r"A small wave of $n$ crests on the uniform state grows exponentially at the rate $n^2I_n(\beta)$, for waves "
    "1, 2 and 3 at inverse temperature 1.5.",
    basis=LAYERED,
    formula=r"\hat f_n(t)=\hat f_n(0)\,e^{a_nt},\qquad a_n=\frac{n^2}{2\pi}\int_0^{2\pi}e^{\beta\cos\theta}\cos "
    r"n\theta\,d\theta",
)
def wave_growth(run: Run) -> Check:
    size, beta = 1e-5, 1.5
    check = Check(parameters={"beta": beta, "t": 0.5})
    single = {}
    for n in (1, 2, 3):
        flow = layers(lambda sigma, theta, n=n: 1 + size * np.cos(n * theta) + 0 * sigma, beta=beta, t=0.5)  # type: ignore[misc]
        name = f"wave {n}"
        check.row(
            name,
            predicted=reference.rates(beta)[n - 1],
            measured=np.log(flow.wave(n)[-1] / (size / 2)) / 0.5,
            relative=1e-9,
            because="terms of second order in the amplitude 1e-5, that is 1e-10, and time steps to 1e-10",
        )
        single[name] = reference.rates(beta)[n - 1] / n
    check.rival(r"a force without its factor $\beta$", check.times(1 / beta))
    check.rival("$nI_n$ in place of $n^2I_n$", single)
    check.rival(r"Fourier coefficients without the factor $1/2\pi$", check.times(2 * np.pi))
    return check


@PAPER.claim(
    "fluctuations",
    says=r"Without slope, the average of $e^{i\theta}$ over $N$ independent uniform tokens is of order $N^{-1/2}$, "
    "and its covariances with itself at time $t$ and with its start are those of the linear theory, the first "
    "larger than for tokens that see the whole prompt.",
    basis=basis.Theorem("quantitative mean-field limit for independent data", via=LEAN),
    formula=r"N\,E|Z(t)|^2\approx\frac1N|U^\top\mathbf1|^2,\qquad "
    r"N\,\mathrm{Re}\,E\,Z(t)\bar Z(0)\approx\frac1N\mathbf1^\top U\mathbf1,\qquad Z=\frac1N\sum_je^{i\theta_j}",
)
def fluctuations(run: Run) -> Check:
    samples, growth = 1024 if run.quick else 4000, float(reference.rates(1.0)[0])
    check = Check(parameters={"samples": samples, "beta": 1, "slope": 0, "t": 1})
    alike, frozen, swapped = {}, {}, {}
    sizes = (63, 360) if run.quick else (63, 360, 1440)
    for i, n in enumerate(sizes):
        start = np.random.default_rng([run.seed, n]).uniform(0, 2 * np.pi, (samples, n))
        model = CausalCircle(1.0, 0.0, length=n, modes=MODES)
        final = circle_advance(model, 1.0, padded_length=n)(start)
        before, after = (np.exp(1j * angles).mean(axis=1) for angles in (start, final))
        u = reference.propagator(n, 0.0, growth)
        exact = {"equal times": np.sum(u.sum(axis=0) ** 2) / n, "two times": u.sum() / n}
        # N |Z(0)|^2 has mean one exactly: what the linear theory makes of its chance deviation is taken out.
        chance = n * np.abs(before) ** 2 - 1
        found = {
            "equal times": mean(n * np.abs(after) ** 2 - exact["two times"] ** 2 * chance),
            "two times": mean(n * (after * before.conj()).real - exact["two times"] * chance),
        }
        for kind, predicted in exact.items():
            name = f"{kind}, $N={n}$"
            check.row(
                name,
                predicted=predicted,
                measured=found[kind].value,
                error=found[kind].error,
                repeats=samples,
                relative=8 / n,
                because="standard error, and the next order in 1/N",
            )
            alike[name] = np.exp(2 * growth if kind == "equal times" else growth)
            frozen[name] = 1.0
            swapped[name] = exact["two times" if kind == "equal times" else "equal times"]
        run.notify((i + 1) / len(sizes), f"{n} tokens")
    check.rival("tokens that all see the whole prompt", alike)
    check.rival("tokens that rest", frozen)
    check.rival("the other kind of covariance", swapped)
    slower = {
        row.name: row.predicted * (sizes[-1] / sizes[0]) ** (1 / 3)
        for row in check.rows
        if row.name.endswith(f"{sizes[-1]}$")
    }
    check.rival("an average of order $N^{-1/3}$, fixed at the smallest size", slower)
    return check


@PAPER.claim(
    "prompt-that-turns",
    says="Tokens whose law turns with position (von Mises of concentration 1 about $\\pi\\sigma$) have, in the last "
    "quarter of the prompt, the averages of the layered equation.",
    basis=LAYERED,
    formula=r"V(t,\sigma,\theta)=\int_0^\sigma k_\lambda(\sigma,\sigma')(w_\beta'*f)(t,\sigma',\theta)\,d\sigma'",
)
def prompt_that_turns(run: Run) -> Check:
    n, batches, strata = (120, 16, 16) if run.quick else (800, 40, 50)
    flow = layers(lambda sigma, theta: np.exp(np.cos(theta - np.pi * sigma)))
    rng = np.random.default_rng(run.seed + 5)
    sigma = (np.arange(n) + 0.5) / n
    # In a batch every token takes each of so many quantiles of its law once: what is additive in the starts drops out.
    places = rng.permuted(np.tile(np.arange(strata)[:, None], (batches, 1, n)), axis=1)
    grid = np.linspace(-np.pi, np.pi, 4001)
    below = integrate.cumulative_trapezoid(np.exp(np.cos(grid)), grid, initial=0)
    start = np.interp((places + rng.uniform(size=places.shape)) / strata, below / below[-1], grid) + np.pi * sigma
    model = CausalCircle(1.0, 1.0, length=n, modes=MODES)
    final = circle_advance(model, 1.0, padded_length=n)(start.reshape(-1, n)).reshape(start.shape)
    late = slice(3 * n // 4, n)
    ends = np.exp(1j * final[:, :, late]).mean(axis=(1, 2))
    waves = np.sum(flow.masses * np.exp(1j * flow.angles), axis=1)
    # The last eight layers are the nodes of one panel, whose polynomial is exact to 1e-7; a chord is off by 0.002.
    predicted = np.mean(interpolate.BarycentricInterpolator(flow.sigma[-8:], waves[-8:])(sigma[late]))
    names = ("average cosine", "average sine")
    check = Check(parameters={"N": n, "batches": batches, "samples in a batch": strata})
    for name, part, sample in zip(names, (predicted.real, predicted.imag), (ends.real, ends.imag), strict=True):
        found = mean(sample)
        check.row(
            name,
            predicted=part,
            measured=found.value,
            error=found.error,
            repeats=batches,
            tolerance=1 / n,
            because="standard error, and the next order in 1/N, whose constant is taken as one",
        )
    # The same tokens in 24 blocks of the prompt, each seen by the blocks that a rival says.
    blocks = np.arange(24)
    others = {
        "tokens that see the whole prompt": np.ones((24, 24)),
        "all earlier tokens seen alike, without slope": np.tri(24),
        "a slope of 2": np.tri(24) * np.exp(2 * (blocks - blocks[:, None]) / 24),
    }
    for name, seen in others.items():
        average = reference.block_flow(seen, 1.0, 1.0)[18:].mean()
        check.rival(name, dict(zip(names, (average.real, average.imag), strict=True)))
    return check
