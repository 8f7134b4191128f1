r"""Three normalisations of one field, which repel, contract and diverge; product form, masks, gradients."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from sphereflow.claims import Check, Run, basis
from sphereflow.drifting import MultiRadiusField, PopulationField, TwoSidedField
from sphereflow.drifting.training import drift_loss
from sphereflow.papers.drifting_with_friction import PAPER
from sphereflow.papers.drifting_with_friction.padded import drift_of, field_at
from sphereflow.papers.drifting_with_friction.sources import NOTEBOOK, SCALED
from sphereflow.papers.drifting_with_friction.surrogate import pair, radial


@PAPER.claim(
    "three-normalisations",
    says="For two particles at distance 0.5 from the target the unnormalised field repels, the normalised one that "
    "includes the particle itself contracts, and the masked one repels most.",
    basis=basis.Derived("the field of the base paper on two particles and one target"),
    formula=r"V=-a\tanh(a/\tau)\ \text{(self included)},\quad V=+a\ \text{(self masked)}",
)
def three_normalisations(run: Run) -> Check:
    a = 0.5
    y, x, u = pair(2, a)
    check = Check(parameters={"a": a})
    size = a * (2 * np.exp(-2 * a) - np.exp(-a))
    check.row("unnormalised", predicted=size, measured=radial(2, a, 1.0)[0], tolerance=1e-12, because="rounding")
    for name, right, field in (
        ("self included", -a * np.tanh(a), PopulationField("laplace", 1.0, itself="include")),
        ("self included, Gaussian", -a * np.tanh(a**2), PopulationField("gaussian", 1.0, itself="include")),
        ("self masked", a, PopulationField("laplace", 1.0, itself="mask")),
    ):
        value = drift_of(field, y, x)[0] @ u
        check.row(name, predicted=right, measured=value, tolerance=1e-12, because="rounding")
    check.rival("masks exchanged", {"self included": a, "self masked": -a * np.tanh(a)})
    check.rival("the particle counts in its own unnormalised mean", {"unnormalised": a * (np.exp(-1.0) - np.exp(-a))})
    check.rival(r"the kernel $e^{-r^2/\sigma^2}$", {"self included, Gaussian": -a * np.tanh(2 * a**2)})
    return check


@PAPER.claim(
    "product-form",
    says="The difference of two kernel means is a mean over pairs of one data point and one sample.",
    basis=NOTEBOOK,
    formula=r"V=\frac{1}{Z_pZ_q}E[k(x,y^+)k(x,y^-)(y^+-y^-)]",
)
def product_form(run: Run) -> Check:
    rng = np.random.default_rng(run.seed)
    y, z = rng.normal(size=(30, 3)), rng.normal(0.5, 1.2, size=(20, 3))
    wy, wz = rng.dirichlet(np.ones(30)), rng.dirichlet(np.ones(20))
    k_plus = wy * np.exp(-np.linalg.norm(z[:, None] - y[None], axis=-1) / 0.6)
    k_minus = wz * np.exp(-np.linalg.norm(z[:, None] - z[None], axis=-1) / 0.6)
    pairs = np.einsum("ia,ib,abd->id", k_plus, k_minus, y[:, None] - z[None])
    field = PopulationField("laplace", 0.6, itself="include")
    found = drift_of(field, y, z, wy, wz)

    def off(masses: np.ndarray) -> float:
        return float(np.max(np.abs(found - pairs / masses[:, None])))

    plus, minus = k_plus.sum(1), k_minus.sum(1)
    check = Check(parameters={"data": 30, "generated": 20})
    check.row("largest deviation", predicted=0.0, measured=off(plus * minus), tolerance=1e-12, because="rounding")
    check.null("one joint mass for both kernels", off((plus + minus) ** 2 / 4))
    check.null("the mass of attraction for both", off(plus**2))
    return check


@PAPER.claim(
    "antisymmetry",
    says="Exchanging data and samples changes the sign of the field; for equal laws it vanishes if a sample counts in "
    "its own mean, not with the mask.",
    basis=basis.Summary("Proposition 3.1 of the base paper, as texts about it give it"),
    formula=r"V_{p,q}=-V_{q,p},\quad V_{p,p}=0",
)
def antisymmetry(run: Run) -> Check:
    rng = np.random.default_rng(run.seed)
    y, z, x = (rng.normal(size=(25, 2)) for _ in range(3))
    w, v = (rng.dirichlet(np.ones(25)) for _ in range(2))
    field = PopulationField("laplace", 0.4, itself="include")
    there, back = field_at(field, x, y, z, w, v), field_at(field, x, z, y, v, w)

    def equal(itself: str) -> float:
        return _largest(drift_of(PopulationField("laplace", 0.4, itself=itself), y, y, w, w))

    check = Check()
    check.row(
        "field plus exchanged field",
        predicted=0.0,
        measured=_largest(there + back),
        tolerance=1e-14,
        because="rounding",
    )
    check.row("field of equal laws", predicted=0.0, measured=equal("include"), tolerance=1e-14, because="rounding")
    check.null(
        "weights not exchanged", {"field plus exchanged field": _largest(there + field_at(field, x, z, y, w, v))}
    )
    check.null("with the mask", {"field of equal laws": equal("mask")})
    return check


def _largest(values: np.ndarray) -> float:
    return float(np.max(np.abs(values)))


@PAPER.claim(
    "score",
    says=r"For the Gaussian kernel attraction is $\sigma^2$ times the gradient of the log of the smoothed data.",
    basis=basis.Derived("differentiation of the Gaussian kernel; the identity behind identifiability"),
    formula=r"V_p^+=\sigma^2\nabla\log(p*k_\sigma)",
)
def score(run: Run) -> Check:
    rng = np.random.default_rng(run.seed)
    y, x = rng.normal(size=(40, 2)), rng.normal(size=(6, 2))
    sigma, h = 0.7, 1e-5

    def log_smoothed(place: np.ndarray, width: float) -> float:
        return float(np.log(np.mean(np.exp(-np.sum((y - place) ** 2, axis=1) / (2 * width**2)))))

    def gradient(width: float) -> np.ndarray:
        def along(p: np.ndarray, e: np.ndarray) -> float:
            return (log_smoothed(p + h * e, width) - log_smoothed(p - h * e, width)) / (2 * h)

        return np.array([[along(p, e) for e in np.eye(2)] for p in x])

    # Repulsion from one far sample at z is z - x, which is taken off again.
    z = np.array([[3.0, -2.0]])
    field = PopulationField("gaussian", sigma, itself="include")
    attraction = field_at(field, x, y, z) + (z - x)

    def off(factor: float, width: float) -> float:
        return float(np.max(np.abs(attraction - factor * gradient(width))))

    check = Check(parameters={"sigma": sigma})
    check.row(
        "largest deviation", predicted=0.0, measured=off(sigma**2, sigma), tolerance=1e-6, because="central difference"
    )
    check.null(r"the factor $\sigma^2$ missing", off(1.0, sigma))
    check.null(r"the kernel $e^{-r^2/\sigma^2}$", off(sigma**2 / 2, sigma / np.sqrt(2)))
    return check


@PAPER.claim(
    "two-sided-estimator",
    says="The published estimator, written out entry by entry, is what the library computes in logarithms.",
    basis=NOTEBOOK,
    formula=r"V=\tilde K^+\mathrm{rowsum}(\tilde K^-)P-\tilde K^-\mathrm{rowsum}(\tilde K^+)G",
)
def two_sided_estimator(run: Run) -> Check:
    rng = np.random.default_rng(run.seed)
    g, p = rng.normal(size=(3, 2)), rng.normal(size=(4, 2))
    targets = np.concatenate([g, p])

    def written_out(*, masked: bool = True, opposite: bool = True, columns: bool = True) -> np.ndarray:
        k = np.zeros((3, 7))
        for i in range(3):
            for j in range(7):
                k[i, j] = 0.0 if masked and i == j else np.exp(-np.sqrt(np.sum((g[i] - targets[j]) ** 2)) / 0.9)
        value = np.zeros((3, 2))
        for i in range(3):
            scale = [sum(k[i]) * (sum(k[r, j] for r in range(3)) if columns else sum(k[i])) for j in range(7)]
            scaled = [k[i, j] / np.sqrt(scale[j]) for j in range(7)]
            minus, plus = sum(scaled[:3]), sum(scaled[3:])
            for j in range(3):
                value[i] -= scaled[j] * (plus if opposite else minus) * g[j]
            for j in range(4):
                value[i] += scaled[3 + j] * (minus if opposite else plus) * p[j]
        return value

    field = TwoSidedField(width=0.9)
    found = np.asarray(field(jnp.asarray(p), jnp.asarray(g)).value)
    shifted = np.asarray(field(jnp.asarray(p + 5.0), jnp.asarray(g + 5.0)).value)
    check = Check()
    name = "deviation, entry by entry"
    check.row(name, predicted=0.0, measured=np.max(np.abs(found - written_out())), tolerance=1e-13, because="rounding")
    check.row(
        "change by a shift of everything by 5",
        predicted=0.0,
        measured=np.max(np.abs(found - shifted)),
        tolerance=1e-13,
        because="rounding",
    )
    for rival, wrong in (
        ("each side times its own mass", written_out(opposite=False)),
        ("rows normalised only", written_out(columns=False)),
        ("a sample repels itself", written_out(masked=False)),
    ):
        check.null(rival, {name: float(np.max(np.abs(found - wrong)))})
    return check


@PAPER.claim(
    "scaled-forces",
    says="With scaled forces the size of the drift is fixed by construction, near the data and far from it; the drift "
    "before scaling more than doubles.",
    basis=SCALED,
    formula=r"\sum_R F_R/\mathrm{rms}(F_R)",
)
def scaled_forces(run: Run) -> Check:
    rng = np.random.default_rng(run.seed)
    data = rng.normal(size=(64, 8))
    near, far = (rng.normal(shift, 1.0, size=(64, 8)) for shift in (0.1, 1.5))
    field = MultiRadiusField((0.2,))
    check = Check()
    raws = []
    for name, generated in (("size near the data", near), ("size far from the data", far)):
        drift = field(jnp.asarray(data), jnp.asarray(generated))
        unit = np.mean(np.linalg.norm(generated[:, None] - np.concatenate([generated, data])[None], axis=-1))
        size = np.sqrt(np.mean(np.asarray(drift.value) ** 2)) / (unit / np.sqrt(8))
        check.row(name, predicted=1.0, measured=size, tolerance=1e-10, because="rounding")
        raws.append(float(np.sqrt(np.mean(np.asarray(drift.raw) ** 2))))
    check.at_least(
        "raw drift, far over near", bound=2.0, measured=raws[1] / raws[0], relative=1e-10, because="rounding"
    )
    check.rival("a size that follows the distance", {"size far from the data": raws[1] / raws[0]})
    check.null("scaled drift instead of the raw one", {"raw drift, far over near": 1.0})
    return check


@PAPER.claim(
    "stop-gradient",
    says="The gradient of the training loss with respect to a sample is minus twice its drift over the number of "
    "entries; without the stop it is something else.",
    basis=NOTEBOOK,
    formula=r"\nabla_{x_i}\mathcal L=-2V_i/(nD)",
)
def stop_gradient(run: Run) -> Check:
    rng = np.random.default_rng(run.seed)
    n, d = 3, 2
    data, x = rng.normal(size=(4, d)), rng.normal(size=(n, d))
    field = TwoSidedField(width=0.5)
    drift = lambda g: np.asarray(field(jnp.asarray(data), jnp.asarray(g)).value)  # noqa: E731
    expected = -2 * drift(x) / (n * d)
    gradient = np.asarray(jax.jit(jax.grad(lambda g: drift_loss(field, jnp.asarray(data), g)[0]))(jnp.asarray(x)))
    # Without the stop the loss is the mean square of the drift as a function of the samples: by central differences.
    steps = 1e-5 * np.eye(n * d).reshape(-1, n, d)
    leaking = np.reshape([np.mean(drift(x + h) ** 2 - drift(x - h) ** 2) / 2e-5 for h in steps], (n, d))

    def off(found: np.ndarray) -> float:
        return float(np.max(np.abs(found - expected)) / np.max(np.abs(expected)))

    check = Check()
    check.row("relative deviation", predicted=0.0, measured=off(gradient), tolerance=1e-6, because="rounding")
    check.null("without the stop", off(leaking))
    check.null("a mean over samples only", off(d * gradient))
    return check


def cloud_radius(n: int, steps: int, seed: int, itself: str = "mask") -> float:
    """Mean distance of n particles to their one target after Euler steps of size 0.3, tau = 1, in the plane."""
    # Clouds of different sizes share one compilation: the particles beyond n weigh nothing and do not move.
    size = max(n, 32)
    x, present = 0.05 * np.random.default_rng(seed).normal(size=(size, 2)), np.arange(size) < n
    return float(_cloud(PopulationField("laplace", 1.0, itself=itself), x, present.astype(float), steps))


@jax.jit
def _cloud(field: PopulationField, x: jax.Array, present: jax.Array, steps: int | jax.Array) -> jax.Array:
    origin = jnp.zeros((1, 2))

    def step(_: jax.Array, y: jax.Array) -> jax.Array:
        return y + 0.3 * present[:, None] * field(origin, y, None, present).value

    return jnp.sum(present * jnp.linalg.norm(jax.lax.fori_loop(0, steps, step, x), axis=1)) / present.sum()


@PAPER.claim(
    "few-particles-diverge",
    says="With the mask two samples on one mode fly apart by the factor $1+\\eta$ per step, three fly apart too, and "
    "eight stay together; two that count in their own mean contract, only algebraically.",
    basis=basis.Derived("the self-masked pair, and simulations of three and eight samples"),
    formula=r"a_{t+1}=(1+\eta)a_t\ \text{(masked)},\quad a_{t+1}=a_t-\eta a_t\tanh a_t\ \text{(included)}",
)
def few_particles_diverge(run: Run) -> Check:
    check = Check(parameters={"step": 0.3})
    # A pair about the target: half its distance grows by 1.3; the mean of the pair is brought to the target.
    early, late = cloud_radius(2, 60, run.seed), cloud_radius(2, 80, run.seed)
    name = "growth per step, two masked"
    check.row(name, predicted=1.3, measured=(late / early) ** (1 / 20), tolerance=1e-6, because="the centre decays")
    inside = [cloud_radius(2, steps, run.seed, "include") for steps in (100, 400)]
    a = inside[0]
    for _ in range(300):
        a -= 0.3 * a * np.tanh(a)
    contracted = "distance after 400 steps, two included"
    check.row(contracted, predicted=a, measured=inside[1], relative=1e-6, because="plain iteration from step 100")
    far, apart = "logarithm of the radius of eight masked after 400 steps", "logarithm of the radius of three masked"
    because = "rounding of 1e-16, grown by at most the factor 1.3 in each of 100 steps from an unstable start"
    radius = np.log(cloud_radius(8, 400, run.seed))
    check.at_most(far, bound=np.log(10.0), measured=radius, tolerance=1e-4, because=because)
    radius = np.log(cloud_radius(3, 200, run.seed))
    check.at_least(apart, bound=np.log(1e6), measured=radius, tolerance=1e-4, because=because)
    check.rival("growth $e^{\\eta}$ per step", {name: np.exp(0.3)})
    check.rival("exponential contraction", {contracted: inside[0] * 0.7**300})
    check.null("three samples instead of eight", {far: float(np.log(cloud_radius(3, 400, run.seed)))})
    check.null("eight samples instead of three", {apart: float(np.log(cloud_radius(8, 200, run.seed)))})
    return check
