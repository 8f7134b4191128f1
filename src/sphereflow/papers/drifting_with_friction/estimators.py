r"""Three normalisations of one field, which repel, contract and threaten to diverge; product form, masks, gradients."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from sphereflow.claims import Measurement, Run, agreement, at_least, at_most
from sphereflow.drifting import MultiRadiusField, PopulationField, TwoSidedField, UnnormalisedField
from sphereflow.drifting.training import drift_loss
from sphereflow.papers.drifting_with_friction import PAPER
from sphereflow.papers.drifting_with_friction.surrogate import pair


@PAPER.claim(
    "three-normalisations",
    statement="For two particles at 0.5 from the target the unnormalised field repels by 0.065, the normalised one "
    "that includes the particle itself contracts by 0.231, the masked one repels by 0.5.",
    source="Which normalisation repels",
    formula=r"V=-a\tanh(a/\tau)\ \text{(self included)},\quad V=+a\ \text{(self masked)}",
    falsifier="signs, or masks exchanged",
)
def three_normalisations(run: Run) -> Measurement:
    y, x, u = pair(2, 0.5)
    fields = (
        UnnormalisedField("laplace", 1.0),
        PopulationField("laplace", 1.0, itself="include"),
        PopulationField("gaussian", 1.0, itself="include"),
        PopulationField("laplace", 1.0, itself="mask"),
    )
    measured = [float(np.asarray(f(jnp.asarray(y), jnp.asarray(x)).value)[0] @ u) for f in fields]
    return agreement(
        [0.0646141, -0.2310586, -0.1224593, 0.5],
        measured,
        absolute=1e-6,
        because="six decimals of the reference",
        labels=("unnormalised", "self included", "self included, Gaussian", "self masked"),
        parameters={"a": 0.5},
    )


@PAPER.claim(
    "product-form",
    statement="The difference of two kernel means is a mean over pairs of one data point and one sample.",
    source="Product form of the field",
    formula=r"V=\frac{1}{Z_pZ_q}E[k(x,y^+)k(x,y^-)(y^+-y^-)]",
    falsifier="a missing cross mass",
)
def product_form(run: Run) -> Measurement:
    rng = np.random.default_rng(run.seed)
    y, z = rng.normal(size=(30, 3)), rng.normal(0.5, 1.2, size=(20, 3))
    wy, wz = rng.dirichlet(np.ones(30)), rng.dirichlet(np.ones(20))
    k_plus = wy * np.exp(-np.linalg.norm(z[:, None] - y[None], axis=-1) / 0.6)
    k_minus = wz * np.exp(-np.linalg.norm(z[:, None] - z[None], axis=-1) / 0.6)
    pairs = np.einsum("ia,ib,abd->id", k_plus, k_minus, y[:, None] - z[None])
    literal = pairs / (k_plus.sum(1) * k_minus.sum(1))[:, None]
    field = PopulationField("laplace", 0.6, itself="include")
    measured = field(*(jnp.asarray(a) for a in (y, z, wy, wz))).value
    return at_most(
        0.0,
        np.max(np.abs(np.asarray(measured) - literal)),
        slack=1e-12,
        because="rounding",
        parameters={"data": 30, "generated": 20},
    )


@PAPER.claim(
    "antisymmetry",
    statement="Exchanging data and samples changes the sign of the field; for equal laws it vanishes.",
    source="Proposition 3.1 of the base paper",
    formula=r"V_{p,q}=-V_{q,p},\quad V_{p,p}=0",
    falsifier="a drift between equal laws",
)
def antisymmetry(run: Run) -> Measurement:
    rng = np.random.default_rng(run.seed)
    y, z, x = (jnp.asarray(rng.normal(size=(25, 2))) for _ in range(3))
    w, v = (jnp.asarray(rng.dirichlet(np.ones(25))) for _ in range(2))
    field = PopulationField("laplace", 0.4, itself="include")
    there, back = field.at(x, y, z, w, v).value, field.at(x, z, y, v, w).value
    same = field.at(x, y, y, w, w).value
    return at_most(
        [0.0, 0.0],
        [float(jnp.max(jnp.abs(there + back))), float(jnp.max(jnp.abs(same)))],
        slack=1e-14,
        because="rounding",
        labels=("exchange", "equal laws"),
    )


@PAPER.claim(
    "score",
    statement="For the Gaussian kernel attraction is sigma squared times the gradient of the log of the smoothed data.",
    source="Score identity behind identifiability",
    formula=r"V_p^+=\sigma^2\nabla\log(p*k_\sigma)",
    falsifier="the factor sigma^2, or exp(-r^2/sigma^2) as the kernel",
)
def score(run: Run) -> Measurement:
    rng = np.random.default_rng(run.seed)
    y, x = rng.normal(size=(40, 2)), rng.normal(size=(6, 2))
    sigma, h = 0.7, 1e-5

    def log_smoothed(place: np.ndarray) -> float:
        return float(np.log(np.mean(np.exp(-np.sum((y - place) ** 2, axis=1) / (2 * sigma**2)))))

    gradient = np.array([[(log_smoothed(p + h * e) - log_smoothed(p - h * e)) / (2 * h) for e in np.eye(2)] for p in x])
    # Repulsion from one far sample at z is z - x, which is taken off again.
    z = np.array([[3.0, -2.0]])
    value = (
        PopulationField("gaussian", sigma, itself="include").at(jnp.asarray(x), jnp.asarray(y), jnp.asarray(z)).value
    )
    return at_most(
        0.0,
        np.max(np.abs(np.asarray(value) + (z - x) - sigma**2 * gradient)),
        slack=1e-6,
        because="a central difference of step 1e-5",
        parameters={"sigma": sigma},
    )


@PAPER.claim(
    "two-sided-estimator",
    statement="The published estimator, written out entry by entry, is what the library computes in logarithms.",
    source="Toy estimator of the base paper",
    formula=r"V=\tilde K^+\mathrm{rowsum}(\tilde K^-)P-\tilde K^-\mathrm{rowsum}(\tilde K^+)G",
    falsifier="each side multiplied by its own mass, or column sums over all rows",
)
def two_sided_estimator(run: Run) -> Measurement:
    rng = np.random.default_rng(run.seed)
    g, p = rng.normal(size=(3, 2)), rng.normal(size=(4, 2))
    targets = np.concatenate([g, p])
    value = np.zeros((3, 2))
    k = np.zeros((3, 7))
    for i in range(3):
        for j in range(7):
            k[i, j] = 0.0 if i == j else np.exp(-np.sqrt(np.sum((g[i] - targets[j]) ** 2)) / 0.9)
    for i in range(3):
        scaled = [k[i, j] / np.sqrt(sum(k[i]) * sum(k[r, j] for r in range(3))) for j in range(7)]
        minus, plus = sum(scaled[:3]), sum(scaled[3:])
        for j in range(3):
            value[i] -= scaled[j] * plus * g[j]
        for j in range(4):
            value[i] += scaled[3 + j] * minus * p[j]
    field = TwoSidedField(0.9)
    shifted = field(jnp.asarray(p + 5.0), jnp.asarray(g + 5.0)).value
    found = field(jnp.asarray(p), jnp.asarray(g)).value
    return at_most(
        [0.0, 0.0],
        [float(np.max(np.abs(found - value))), float(jnp.max(jnp.abs(found - shifted)))],
        slack=1e-13,
        because="rounding",
        labels=("entry by entry", "after a shift of everything by 5"),
    )


@PAPER.claim(
    "scaled-forces",
    statement="With several radii and scaled forces the size of the drift is fixed by construction; only the drift "
    "before scaling tells how far the samples are.",
    source="Large-scale estimator of the base paper",
    formula=r"\sum_R F_R/\mathrm{rms}(F_R)",
    falsifier="a drift whose size follows the distance to the data",
)
def scaled_forces(run: Run) -> Measurement:
    rng = np.random.default_rng(run.seed)
    data = jnp.asarray(rng.normal(size=(64, 8)))
    near, far = (jnp.asarray(rng.normal(shift, 1.0, size=(64, 8))) for shift in (0.1, 1.5))
    field = MultiRadiusField((0.2,))
    sizes, raws = [], []
    for generated in (near, far):
        drift = field(data, generated)
        unit = float(jnp.mean(jnp.linalg.norm(generated[:, None] - jnp.concatenate([generated, data])[None], axis=-1)))
        sizes.append(float(jnp.sqrt(jnp.mean(drift.value**2))) / (unit / np.sqrt(8)))
        raws.append(float(jnp.sqrt(jnp.mean(drift.raw**2))))
    return agreement(
        [1.0, 1.0, 1.0],
        [*sizes, float(raws[1] > 2 * raws[0])],
        absolute=[1e-10, 1e-10, 0.0],
        because="rounding; an ordering",
        labels=("near the data", "far from the data", "raw drift more than doubles"),
    )


@PAPER.claim(
    "stop-gradient",
    statement="The gradient of the training loss with respect to a sample is minus twice its drift over the number of "
    "entries; without the stop it is something else.",
    source="Training loss",
    formula=r"\nabla_{x_i}\mathcal L=-2V_i/(nD)",
    falsifier="the drift differentiated through the kernel, or a factor n or D",
)
def stop_gradient(run: Run) -> Measurement:
    rng = np.random.default_rng(run.seed)
    data, x = jnp.asarray(rng.normal(size=(40, 3))), jnp.asarray(rng.normal(size=(24, 3)))
    field = TwoSidedField(0.5)
    expected = -2 * field(data, x).value / (24 * 3)
    gradient = jax.grad(lambda g: drift_loss(field, data, g)[0])(x)
    # Without the stop the loss is the mean square of the drift as a function of the samples: by central differences.
    steps = 1e-5 * np.eye(24 * 3).reshape(-1, 24, 3)
    square = lambda g: float(jnp.mean(field(data, g).value ** 2))  # noqa: E731
    leaking = np.reshape([(square(x + h) - square(x - h)) / 2e-5 for h in steps], (24, 3))
    scale = float(jnp.max(jnp.abs(expected)))
    off = [float(jnp.max(jnp.abs(each - expected))) / scale for each in (gradient, leaking)]
    return agreement(
        [0.0, 1.0],
        [off[0], float(off[1] > 0.05)],
        absolute=[1e-6, 0.0],
        because="rounding; an ordering",
        labels=("with the stop", "different without it"),
    )


def cloud_radius(n: int, steps: int, seed: int, itself: str = "mask") -> float:
    """Mean distance of n particles to their one target after Euler steps of size 0.3, tau = 1, in the plane."""
    # Clouds of different sizes share one compilation: the particles beyond n weigh nothing and do not move.
    size = max(n, 32)
    x, present = 0.05 * np.asarray(jax.random.normal(jax.random.key(seed), (size, 2))), np.arange(size) < n
    return float(_cloud(PopulationField("laplace", 1.0, itself=itself), x, present.astype(float), steps))


@jax.jit
def _cloud(field: PopulationField, x: jax.Array, present: jax.Array, steps: int | jax.Array) -> jax.Array:
    origin = jnp.zeros((1, 2))

    def step(_: jax.Array, y: jax.Array) -> jax.Array:
        return y + 0.3 * present[:, None] * field(origin, y, None, present).value

    return jnp.sum(present * jnp.linalg.norm(jax.lax.fori_loop(0, steps, step, x), axis=1)) / present.sum()


@PAPER.claim(
    "few-particles-diverge",
    statement="With the mask, two or three samples on one mode fly apart exponentially; eight settle at radius 1.25.",
    source="Which normalisation repels, n particles and one target",
    formula=r"V=+a\ (n=2)",
    falsifier="a finite radius for two samples",
)
def few_particles_diverge(run: Run) -> Measurement:
    seeds = range(2 if run.quick else 4)
    cases = [(8, 1.25)] if run.quick else [(8, 1.25), (16, 0.645)]
    apart = [min(cloud_radius(n, 200, seed) for seed in seeds) for n in (2, 3)]
    radius = [float(np.mean([cloud_radius(n, 1200, seed) for seed in seeds])) for n, _ in cases]
    return agreement(
        [1.0, 1.0, *(value for _, value in cases)],
        [*(float(a > 1e6) for a in apart), *radius],
        absolute=[0.0, 0.0, *(0.03 * value for _, value in cases)],
        because="an ordering; 3% scatter over starts",
        labels=("n=2 beyond 1e6", "n=3 beyond 1e6", *(f"n={n}" for n, _ in cases)),
    )


@PAPER.claim(
    "blind-samples",
    statement="A sample ten thousand kernel widths away from everything gets a finite drift; one that a compact "
    "kernel cannot see is reported as blind and stays.",
    source="Numerics: rows without kernel mass",
    formula=r"\mathrm{softmax}(-|x-y|/\tau)",
    falsifier="0/0",
)
def blind_samples(run: Run) -> Measurement:
    data = jnp.asarray([[0.0, 0.0], [1.0, 0.0]])
    x = jnp.asarray([[0.2, 0.1], [0.3, 0.0], [1e4, 0.0]])
    far = [field(data, x) for field in (PopulationField("laplace", 1.0, itself="mask"), TwoSidedField(1.0))]
    seen = PopulationField("compact", 2.0, itself="include")(data, x)
    finite = [float(jnp.all(jnp.isfinite(drift.value))) for drift in (*far, seen)]
    return at_least(
        np.ones(5),
        [*finite, float(seen.blind[2]), float(jnp.all(seen.value[2] == 0))],
        because="counting",
        labels=("population finite", "two-sided finite", "compact finite", "compact blind", "blind stays"),
    )
