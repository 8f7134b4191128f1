r"""Identifiability as an experiment: a law recovered from a noisy field, laws that hide, the law of guidance."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from sphereflow.claims import Check, Run, basis
from sphereflow.drifting import GuidedField, PopulationField, field_margin, hidden_law, recover_law
from sphereflow.estimates import mean
from sphereflow.papers.drifting_with_friction import PAPER
from sphereflow.papers.drifting_with_friction.reference import margin
from sphereflow.papers.drifting_with_friction.sources import LARGE

NODES = np.linspace(-1, 1, 9)
LAW = np.array([0.05, 0.2, 0.1, 0.05, 0.05, 0.05, 0.1, 0.3, 0.1])
PLACES = np.linspace(-0.3, 0.3, 61)
KERNEL = np.exp(-2 * (PLACES[:, None] - NODES) ** 2)  # width 1/2
UNIFORM = np.full(9, 1 / 9)


def kernel_mean(law: np.ndarray) -> np.ndarray:
    return np.asarray((KERNEL * law) @ NODES / (KERNEL @ law))


def recovered(noise: float, repeats: int, seed: int) -> np.ndarray:
    """Weights (repeats, 9) from independent draws of the noise."""
    rng = np.random.default_rng([seed, int(1e15 * noise)])
    exact = kernel_mean(UNIFORM) - kernel_mean(LAW)
    fields = exact + noise * rng.normal(size=(repeats, len(exact)))
    found = [recover_law("gaussian", PLACES, v, NODES, NODES, width=0.5, noise=noise).weights for v in fields]
    return np.stack(found)


def w1(law: np.ndarray) -> np.ndarray:
    return np.asarray(0.25 * np.abs(np.cumsum(law - LAW, axis=-1)).sum(axis=-1))


def propagated(noise: float, weighted: bool = True) -> float:
    r"""$E|\hat q-q|^2$ to first order in the noise, by the singular values of the equations on laws of mass one.

    An error $e$ of V changes the i-th equation by $e\sum_jq_jk_{ij}/\sum_jk_{ij}$; the penalty adds its bias.
    """
    equations = KERNEL * (NODES - kernel_mean(LAW)[:, None]) / KERNEL.sum(axis=1, keepdims=True)
    basis_of_changes = np.linalg.svd(np.ones((1, 9)))[2][1:].T
    left, s, right = np.linalg.svd(equations @ basis_of_changes, full_matrices=False)
    errors = noise * (KERNEL @ LAW / KERNEL.sum(axis=1) if weighted else np.ones(len(PLACES)))
    spread = np.sum((errors[:, None] * left * s / (s**2 + noise**2)) ** 2)
    bias = np.sum((noise**2 / (s**2 + noise**2) * (right @ basis_of_changes.T @ (LAW - UNIFORM))) ** 2)
    return float(spread + bias)


@PAPER.claim(
    "recovery-against-noise",
    says="From the Gaussian-kernel field on $[-0.3,0.3]$ a law on nine nodes of $[-1,1]$ is recovered; the squared "
    "error grows with the noise in the field as first-order propagation says, to $4\\cdot10^{-6}$ at noise "
    "$10^{-9}$, and at noise $10^{-4}$ a fifth of the distance to the uniform law or more is left.",
    basis=basis.Extension("the theorem as an experiment, with the noise stated"),
    formula=r"\min_{q\ge0}|Aq|^2+\mathrm{noise}^2|q-\tfrac1J|^2",
)
def recovery_against_noise(run: Run) -> Check:
    repeats = 200 if run.quick else 2000
    check = Check(parameters={"nodes": 9, "width": 0.5, "places": len(PLACES)})
    exact = float(w1(recovered(0.0, 1, run.seed)[0]))
    check.row("W1, exact field", predicted=0.0, measured=exact, tolerance=5e-6, because="rounding over the margin")
    names = {noise: f"mean $|\\hat q-q|^2$, noise {noise:g}" for noise in (1e-11, 1e-10, 1e-9)}
    for noise, name in names.items():
        found = mean(np.sum((recovered(noise, repeats, run.seed) - LAW) ** 2, axis=1))
        check.row(
            name,
            predicted=propagated(noise),
            measured=found.value,
            error=found.error,
            repeats=repeats,
            relative=0.02,
            because="standard error over draws; the second order in noise over margin",
        )
    strong = "mean W1, noise 0.0001"
    left = mean(w1(recovered(1e-4, repeats // 4, run.seed)))
    uniform = float(w1(UNIFORM))
    check.at_least(
        strong,
        bound=uniform / 5,
        measured=left.value,
        error=left.error,
        repeats=repeats // 4,
        because="four singular values of eight are below the noise: what they carry is not seen",
    )
    check.rival("recovery independent of the noise", {name: propagated(1e-9) for name in names.values()})
    check.rival("every equation has the error of V", {name: propagated(e, False) for e, name in names.items()})
    gap = float(np.sum((LAW - UNIFORM) ** 2))
    check.rival("the uniform law", {"W1, exact field": uniform, **dict.fromkeys(names.values(), gap)})
    check.null("no noise in the field", {strong: exact})
    return check


@PAPER.claim(
    "hidden-laws",
    says="Among laws on 3, 5 or 8 nodes, an adversary who may move five per cent of the mass cannot make the "
    "Gaussian-kernel field smaller than a positive floor on an interval, and the floor falls fast with the number of "
    "nodes; with the Laplace kernel, on an interval without atoms beside them, the field vanishes.",
    basis=basis.Extension("the theorem as a search: a proved floor, and the best law found"),
    formula=r"\Big(\tfrac1N\sum_i|V(x_i)|^2\Big)^{1/2}\ge\sigma|q-p|_2,\qquad|q-p|_2\ge\tfrac{2\delta}{\sqrt J}",
)
def hidden_laws(run: Run) -> Check:
    moved = 0.05
    sizes = (3, 5, 8) if run.quick else (3, 5, 8, 10)
    check = Check(parameters={"width": 0.5, "mass moved": moved})
    first: dict[str, float] = {}
    flat: dict[str, float] = {}
    unseen: dict[str, float] = {}
    nulls: dict[str, float] = {}
    for where, low, high in (("among", "-0.3", "0.3"), ("beside", "-2", "-1.2")):
        for count in sizes:
            nodes, x = np.linspace(-1, 1, count), np.linspace(float(low), float(high), 2 * count + 1)
            right = margin("gaussian", low, high, count)
            name = f"margin, {count} nodes, {where}"
            found = field_margin("gaussian", x, nodes, width=0.5)
            error = max(1e-7 * right, 1e-14)
            check.row(name, predicted=right, measured=found, tolerance=error, because="rounding of 16 digits")
            flat[name] = first.setdefault(where, right)
            law = hidden_law("gaussian", x, nodes, width=0.5, distance=moved, starts=64, seed=run.seed)
            lowest, best = f"seen, {count} nodes, {where}", f"seen, {count} nodes, {where}, against a known law"
            floor = 2 * moved * right / np.sqrt(count)
            because = "the margin times the least |q - p|; rounding of 16 digits"
            check.at_least(lowest, bound=floor, measured=law.rms, tolerance=1e-14, because=because)
            known = seen_of_singular_law(x, nodes, moved)
            check.at_most(
                best, bound=known, measured=law.rms, relative=1e-4, because="a search must not lose to a known law"
            )
            unseen[best] = floor
            if where == "beside":
                other = hidden_law("laplace", x, nodes, width=0.5, distance=moved, starts=64, seed=run.seed)
                nulls |= {lowest: other.rms}
                row = f"Laplace, largest |V|, {count} nodes, beside"
                check.row(row, predicted=0.0, measured=other.largest, tolerance=1e-14, because="rounding")
    check.rival("a floor that does not fall with the number of nodes", flat)
    check.rival("the floor itself is reached", unseen)
    check.null("the Laplace kernel beside the nodes", nulls)
    gaussian = {f"Laplace, largest |V|, {n} nodes, beside": margin("gaussian", "-2", "-1.2", n) for n in sizes}
    check.rival("a floor for the Laplace kernel as well", gaussian)
    return check


def seen_of_singular_law(x: np.ndarray, nodes: np.ndarray, moved: float) -> float:
    """The root mean square of the field of p + c u, u the direction of the margin, c so that `moved` mass differs."""
    k = np.exp(-2 * (x[:, None] - nodes) ** 2)
    p = np.full(len(nodes), 1 / len(nodes))
    at = (k * p) @ nodes / (k @ p)
    u = np.linalg.svd(k * (nodes - at[:, None]) / k.sum(axis=1, keepdims=True))[2][-2]
    u = u - u.mean()
    sides = [p + sign * 2 * moved / np.abs(u).sum() * u for sign in (1, -1)]
    return min(float(np.sqrt(np.mean(((k * q) @ nodes / (k @ q) - at) ** 2))) for q in sides)


@PAPER.claim(
    "guidance",
    says="With unconditional samples as further negatives, of $a-1$ times the mass of the samples, the field of the "
    "generated samples vanishes for the data extrapolated away from them, not for the data, if a sample counts among "
    "its own negatives. Where it does not, as published, the weights are those of one sample fewer.",
    basis=LARGE,
    formula=r"w=\tfrac{(a-1)n}{N}\ \Rightarrow\ V=0\iff q=a\,p-(a-1)\,p_u;\qquad "
    r"w=\tfrac{(a-1)(n-1)}{N}\ \text{without itself}",
)
def guidance(run: Run) -> Check:
    nodes, a = np.array([[-1.0], [0.2], [1.5]]), 1.5
    p, unconditional = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.3, 0.5])

    def largest(law: np.ndarray, scale: float = a) -> float:
        """|V| of samples: 20 with the law, 20 of the data, 10 negatives."""
        data, samples, others = (
            np.repeat(nodes, np.rint(n * w).astype(int), axis=0) for n, w in ((20, p), (20, law), (10, unconditional))
        )
        field = GuidedField(PopulationField("gaussian", 0.8, itself="include"), others, scale=scale)
        return float(jnp.max(jnp.abs(field(jnp.asarray(data), jnp.asarray(samples)).value)))

    extrapolated = a * p - (a - 1) * unconditional
    check = Check(parameters={"scale": a})
    name = "largest field at the extrapolated law"
    check.row(name, predicted=0.0, measured=largest(extrapolated), tolerance=1e-13, because="rounding")
    check.null("samples like the data", {name: largest(p)})
    check.null("no guidance", {name: largest(extrapolated, 1.0)})
    check.null("$a$ as the share of the negatives: $a/(1+a)$", {name: largest(extrapolated, 1 + a)})
    k = np.exp(-((0.2 - nodes[:, 0]) ** 2) / (2 * 0.8**2))
    pushed = p / a + (a - 1) / a * unconditional
    tilted = [float((k * law) @ nodes[:, 0] / (k @ law)) for law in (p, pushed)]
    there = "field at the middle node, samples like the data"
    data = np.repeat(nodes, [10, 6, 4], axis=0)
    field = GuidedField(
        PopulationField("gaussian", 0.8, itself="include"), np.repeat(nodes, [2, 3, 5], axis=0), scale=a
    )
    found = field(jnp.asarray(data), jnp.asarray(data)).value[10, 0]
    check.row(there, predicted=tilted[0] - tilted[1], measured=found, tolerance=1e-13, because="rounding")
    swapped = p * (a - 1) / a + unconditional / a
    other = float((k * swapped) @ nodes[:, 0] / (k @ swapped))
    check.rival("the shares of samples and negatives exchanged", {there: tilted[0] - other})
    alone = "the same without itself, as published"
    others = 20 * p - np.array([0.0, 1.0, 0.0])

    def without_itself(n: int) -> float:
        """The field if the negatives have (a-1) n times the weight of a sample."""
        law = others + (a - 1) * n * unconditional
        return tilted[0] - float((k * law) @ nodes[:, 0] / (k @ law))

    field = GuidedField(PopulationField("gaussian", 0.8, itself="mask"), np.repeat(nodes, [2, 3, 5], axis=0), scale=a)
    found = field(jnp.asarray(data), jnp.asarray(data)).value[10, 0]
    check.row(alone, predicted=without_itself(19), measured=found, tolerance=1e-13, because="rounding")
    check.rival("weights that count the sample itself", {alone: without_itself(20)})
    return check
