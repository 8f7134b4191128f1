"""Independent values: the semi-analytic law of precision and recall, inversions, and their exponential bound."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from sphereflow.claims import Check, Run, basis
from sphereflow.estimates import mean
from sphereflow.llm.heads.envelopes import equal_weights_recall, expected_inversions, expected_recall_precision
from sphereflow.llm.heads.geometry import Separation, separation
from sphereflow.llm.heads.synthetic import geometric, power_law, random_directions
from sphereflow.normalisation import expected_inversions as expected_inversions_on_sphere
from sphereflow.normalisation import inversion_bound, inversions
from sphereflow.papers.attention_geometry import PAPER, reference

LENGTH = 300
PROFILES = {"1/i": power_law(LENGTH), ".9^i": geometric(LENGTH)}
DIMENSIONS, SIZES = (16, 64, 128), (2, 4, 8, 16, 32)
_DRAWS = 500
_MODEL = "independent values with uniform directions, and normal projections"


def label(profile: str, d: int, n: int) -> str:
    weights = "1/i" if profile == "1/i" else "0.9^i"
    return f"$\\alpha_i\\propto {weights}$, $d={d}$, $N={n}$"


def simulated(profile: str, d: int, sizes: tuple[int, ...], draws: int, seed: int) -> Separation:
    """Metrics of heads with these weights and independent uniform directions."""
    rng = np.random.default_rng([seed, d, len(profile), draws])
    values = random_directions(rng, draws, LENGTH, d)
    return separation(np.tile(PROFILES[profile], (draws, 1)), values, sizes)


@lru_cache(maxsize=8)
def cells(quick: bool, seed: int) -> dict[tuple[str, int], tuple[tuple[int, ...], Separation]]:
    """The simulated cells of a preset: sizes and metrics by profile and dimension."""
    wanted: dict[tuple[str, int], tuple[int, ...]]
    if quick:
        wanted = {("1/i", 64): (4, 8), (".9^i", 16): (2, 8)}
    else:
        wanted = {(profile, d): SIZES for profile in PROFILES for d in DIMENSIONS}
    return {key: (sizes, simulated(*key, sizes, _DRAWS, seed)) for key, sizes in wanted.items()}


@PAPER.claim(
    "semi-analytic-values",
    says="The library's integrals for the semi-analytic recall and precision are those of adaptive quadrature and of "
    "a Stieltjes sum.",
    basis=basis.Derived(_MODEL),
    formula=r"R_N\approx\frac1N\sum_{i\in S}E\prod_{j\notin S}\Pr(z_j>z_i),\quad "
    r"P_N\approx E\Big[\frac{N}{N+\sum_{j\notin S}\Pr(z_j\le M)}\Big]",
)
def semi_analytic_values(run: Run) -> Check:
    check = Check()
    hermite, self_term, half = {}, {}, {}
    for profile, d, sizes in (("1/i", 128, (2, 4)), (".9^i", 16, (2, 4))):
        weights = PROFILES[profile]
        recalls, precisions = expected_recall_precision(weights, sizes, d)
        for n, r, p in zip(sizes, recalls, precisions, strict=True):
            name = f"R, {label(profile, d, n)}"
            right = reference.recall(weights, n, d)
            check.row(name, predicted=right, measured=r, tolerance=2e-6, because="adaptive quadrature")
            hermite[name] = reference.recall_by_hermite(weights, n, d)
            half[name] = reference.recall(weights, n, d / 2)
            name = f"P, {label(profile, d, n)}"
            right = reference.precision(weights, n, d)
            check.row(name, predicted=right, measured=p, tolerance=2e-5, because="second-order Stieltjes sum")
            self_term[name] = reference.precision(weights, n, d, self_term=True)
    check.rival("200 Gauss-Hermite nodes", hermite)
    check.rival("the variance of a selected token counts itself", self_term)
    check.rival("half of the dimension", half)
    return check


@PAPER.claim(
    "semi-analytic-law",
    says="With independent values, simulated recall and precision follow the semi-analytic law: to 0.02 and 0.05 for "
    "$N\\ge4$ and $d\\ge64$, to 0.06 and 0.10 in the coarser cells.",
    basis=basis.Derived(_MODEL),
)
def semi_analytic_law(run: Run) -> Check:
    check = Check(parameters={"draws": _DRAWS, "L": LENGTH})
    pairs, inverted = {}, {}
    for (profile, d), (sizes, found) in cells(run.quick, run.seed).items():
        weights = PROFILES[profile]
        recalls, precisions = expected_recall_precision(weights, sizes, d)
        for k, n in enumerate(sizes):
            coarse = n == 2 or d == 16
            for letter, right, got, width in (
                ("R", recalls[k], mean(found.recall[:, k]), 0.06 if coarse else 0.02),
                ("P", precisions[k], mean(found.precision[:, k]), 0.10 if coarse else 0.05),
            ):
                check.row(
                    f"{letter}, {label(profile, d, n)}",
                    predicted=right,
                    measured=got.value,
                    error=got.error,
                    repeats=_DRAWS,
                    tolerance=width,
                    because="the stated accuracy of the normal approximation, and the standard error",
                )
            pairs[f"R, {label(profile, d, n)}"] = reference.recall_of_pairs(weights, n, d)
            inverted[f"P, {label(profile, d, n)}"] = n / (n + expected_inversions(weights, n, d))
    check.rival("all pairs independent", pairs)
    check.rival("P from the mean number of inversions", inverted)
    return check


@PAPER.claim(
    "inversions",
    says="The mean number of inversions of independent values is an integral over the length of a sum and one cosine; "
    "simulations agree from $N=2$ on, where normal projections do not.",
    basis=basis.Derived("given the selected sum, unselected directions are independent"),
    formula=r"E\,GInv=\sum_{i\in S}E_{\rho,\tau}\sum_{j\notin S}\Pr\Big(\langle\hat s,u_j\rangle\ge"
    r"\frac{\alpha_j^2+\alpha_i^2+2\rho\alpha_i\tau}{2\alpha_j|s|}\Big)",
)
def mean_inversions(run: Run) -> Check:
    check = Check()
    normal, self_term = {}, {}
    for name, weights, d, n, draws in (
        ("equal weights", np.ones(30), 12, 2, 20_000),
        ("$0.9^i$", geometric(30), 16, 4, 4000),
        ("$1/i$", power_law(30), 32, 8, 4000),
    ):
        draws = draws if run.quick else 10 * draws
        found = inversions(weights, d, [n], repeats=draws, seed=run.seed + 6)
        row = f"{name}, $d={d}$, $N={n}$"
        check.row(
            row,
            predicted=found.expected[0],
            measured=found.simulated.value[0],
            error=found.simulated.error[0],
            repeats=draws,
            because="standard error of the draws",
        )
        normal[row] = reference.inversions(weights, n, d)
        self_term[row] = reference.inversions(weights, n, d, self_term=True)
    weights = geometric(12)
    row = "integral, $0.9^i$, $d=6$, $N=2$"
    check.row(
        row,
        predicted=reference.inversions_of_two(weights, 6),
        measured=expected_inversions_on_sphere(weights, 6, [2])[0],
        relative=1e-3,
        because="steps over angles",
    )
    normal[row] = reference.inversions(weights, 2, 6)
    check.rival("normal projections", normal)
    check.rival("normal, and the projection of a selected token counts itself", self_term)
    return check


@PAPER.claim(
    "inversion-bound",
    says="The mean number of inversions obeys an exponential bound in dimension and margin; the constant 8 in it "
    "cannot be replaced by 4, nor by 6 where inversions are rare.",
    basis=basis.Derived("moment bounds of uniform directions; the bounds of the paper itself were not available"),
    formula=r"E\,GInv\le\sum_{ij}\exp\Big(-\frac{d(\alpha_i^2+\alpha_j^2)}{8B_i}+"
    r"\frac{d\alpha_i^2\alpha_j^2}{32B_i^2}\Big),\quad B_i=\sum_{k\in S,k\ne i}\alpha_k^2",
)
def inversion_bound_obeyed(run: Run) -> Check:
    draws, other = 20_000 if run.quick else 200_000, 0.05
    check = Check(parameters={"draws": draws, "unselected weight": other})
    closer, six = {}, {}

    def exponential(n: int, d: int, constant: float) -> float:
        """n equal selected weights and one small one, with another constant in place of 8."""
        b, c = n - 1, constant
        return n * float(np.exp(-d * (1 + other**2) / (c * b) + 2 * d * other**2 / (c * b) ** 2))

    for d, n in ((24, 2), (44, 3), (64, 4)):
        found = inversions(np.append(np.ones(n), other), d, [n], repeats=draws, seed=run.seed + 8)
        name = f"simulated, $d={d}$, $N={n}$"
        check.at_most(
            name,
            bound=found.bound[0],
            measured=found.simulated.value[0],
            error=found.simulated.error[0],
            repeats=draws,
            because="standard error",
        )
        closer[name] = exponential(n, d, 4)
    for d, n in ((2048, 16), (4096, 16)):
        weights, name = np.append(np.ones(n), other), f"exact, $d={d}$, $N={n}$, over the bound"
        bound = inversion_bound(weights, d, [n])[0]
        exact = expected_inversions_on_sphere(weights, d, [n])[0]
        check.at_most(name, bound=1.0, measured=exact / bound, tolerance=1e-3, because="steps over angles")
        six[name] = exponential(n, d, 6) / bound
    check.rival("4 instead of 8", closer)
    check.rival("6 instead of 8", six)
    empty = total = 0
    for weights in PROFILES.values():
        for d in DIMENSIONS:
            bounds = inversion_bound(weights, d, SIZES)
            empty, total = empty + int(np.sum(bounds >= np.array(SIZES))), total + len(SIZES)
    check.note = (
        f"With $L=300$, $d$ of 16 to 128 and $N$ of 2 to 32 the bound is at least $N$, and so says nothing about "
        f"recall, in {empty} of {total} cases."
    )
    return check


@PAPER.claim(
    "equal-weights",
    says=r"$N$ tokens of equal weight among negligible others: recall is $\Phi(\sqrt{d/4(N-1)})$ to 0.01, precision "
    r"its $N$-th power to 0.03 where that is above one half, and the floor $N/L$ where it is negligible.",
    basis=basis.Derived(_MODEL),
    formula=r"R_N\approx\varphi_N=\Phi\Big(\sqrt{\tfrac{d}{4(N-1)}}\Big),\quad P_N\approx\varphi_N^N",
)
def equal_weights(run: Run) -> Check:
    draws, length = 1500 if run.quick else 15_000, 60
    rng = np.random.default_rng(run.seed + 7)
    check = Check(parameters={"draws": draws, "L": length})
    tokens, product = {}, {}
    for d, n in ((16, 2), (32, 4), (32, 8), (16, 24)):
        weights = np.full(length, 1e-9)
        weights[:n] = 1 / n
        found = separation(np.tile(weights, (draws, 1)), random_directions(rng, draws, length, d), (n,))
        phi = float(equal_weights_recall(n, d))
        name, got = f"R, $d={d}$, $N={n}$", mean(found.recall[:, 0])
        check.row(
            name,
            predicted=phi,
            measured=got.value,
            error=got.error,
            repeats=draws,
            tolerance=0.01,
            because="normal approximation of projections in dimension d, and the standard error",
        )
        tokens[name] = float(equal_weights_recall(n + 1, d))
        got, name = mean(found.precision[:, 0]), f"P, $d={d}$, $N={n}$"
        if n >= 4 and (phi**n > 0.5 or phi**n < 0.01):
            check.row(
                name,
                predicted=max(phi**n, n / length),
                measured=got.value,
                error=got.error,
                repeats=draws,
                tolerance=0.03,
                because="normal approximation (0.03), and the standard error",
            )
            product[name] = phi
    check.rival("$N$ instead of $N-1$", tokens)
    check.rival("precision equal to recall", product)
    return check
