r"""Iterative Gaussianisation: rearrange one direction after another until nothing but N(0, I) is left.

If $\rho$ has the marginal $\rho_u$ along a unit vector u, and G rearranges it to N(0, 1), then

$$\mathrm{KL}(\rho\|N(0,I))-\mathrm{KL}(G_\#\rho\|N(0,I))=\mathrm{KL}(\rho_u\|N(0,1)).$$

Every G is a piecewise-linear map along u, hence K + 2 pieces for K knots. The inverse of the whole carries N(0, I) to
the target, and what is left of the sum is its relative entropy.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Float
from scipy.special import log_ndtr, ndtri

from sphereflow.errors import SphereflowError, real_number, whole_number
from sphereflow.progress import progress_bar
from sphereflow.results import Result, Variables, recorded_call
from sphereflow.seeds import Seed, rng_from
from sphereflow.shapes import ArrayLike
from sphereflow.transport.euclidean.clouds import checked_cloud
from sphereflow.transport.euclidean.monotone import piecewise_linear
from sphereflow.transport.euclidean.schedule import Schedule

_CANDIDATES = 12  # frames compared before each step


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Gaussianisation(Result):
    """`schedule` carries N(0, I) to the law of the points; `gains` are the nats each frame won on held-out points."""

    schedule: Schedule
    gains: tuple[float, ...]

    def variables(self) -> Variables:
        return {"gain": ("frame", np.array(self.gains, dtype=float))}

    def facts(self) -> list[str]:
        last = f", the last of them {self.gains[-1]:.3g}" if self.gains else ""
        return [repr(self.schedule), f"{len(self.gains)} frames won {sum(self.gains):.4g} nats{last}"]


@recorded_call
def gaussianise(
    points: ArrayLike,
    *,
    frames: int = 8,
    knots: int = 8,
    held_out: ArrayLike | None = None,
    least_gain: float = 0.0,
    seed: Seed = 0,
) -> Gaussianisation:
    """A schedule from N(0, I) to the law of `points`, frame by frame.

    Each frame is the best of a dozen rotations: the one whose marginals are farthest from N(0, 1) in W2. It stops when
    a frame wins less than `least_gain` nats on the held-out points (on the points themselves if there are none).
    """
    cloud = checked_cloud(points, "points")
    other = cloud if held_out is None else checked_cloud(held_out, "held-out points")
    n, d = cloud.shape
    knots = whole_number("knots", knots, least=2)
    frames = whole_number("frames", frames)
    least_gain, rng = real_number("least_gain", least_gain, least=0), rng_from(seed)
    if n < 4 * knots:
        raise SphereflowError(f"{n} points are too few for {knots} knots per direction; give at least {4 * knots}.")
    parts: list[Schedule] = []
    gains: list[float] = []
    with progress_bar("frames", None, total=frames) as bar:
        for _ in range(frames):
            frame = _farthest_frame(cloud, _rotations(d, rng))
            gained, new = 0.0, []
            for u in frame.T:
                step = _to_gaussian(cloud @ u, knots, u)
                moved, log_det = step.carry(other)
                gained += float(np.mean((other**2 - moved**2).sum(axis=1) / 2 + log_det))
                cloud, other = np.asarray(step.apply(cloud)), np.asarray(moved)
                new.append(step)
            bar.advance()
            if gains and gained < least_gain:
                break
            parts += new
            gains.append(gained)
    return Gaussianisation(Schedule.join(parts).inverse(), tuple(gains))


def _to_gaussian(values: Float[np.ndarray, " n"], knots: int, u: np.ndarray) -> Schedule:
    """The rearrangement of one marginal to N(0, 1), interpolated at its quantiles (i - 1/2)/K.

    Beyond the end knots the slope matches the mean excess on both sides: E|Z - v| over E|x - q|.
    """
    levels = (np.arange(knots) + 0.5) / knots
    x, y = np.quantile(values, levels), ndtri(levels)
    if not (np.diff(x) > 0).all():
        raise SphereflowError("the points repeat so often that a direction has atoms: their law has no density.")
    # The mean of -Z beyond a quantile v is phi(v)/Phi(v).
    hazard = np.exp(-0.5 * y[0] ** 2 - log_ndtr(y[0])) / np.sqrt(2 * np.pi)
    excess = hazard + y[0]
    left, right = (x[0] - values[values < x[0]]).mean(), (values[values > x[-1]] - x[-1]).mean()
    return piecewise_linear(x, y, float(excess / left), float(excess / right), direction=u)


def _rotations(d: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Frames to choose from: a dozen angles in the plane, random ones beyond, and always the axes."""
    if d == 1:
        return [np.eye(1)]
    if d == 2:
        angles = np.arange(_CANDIDATES) * np.pi / (2 * _CANDIDATES)
        return [np.array([[np.cos(t), -np.sin(t)], [np.sin(t), np.cos(t)]]) for t in angles]
    return [np.eye(d)] + [np.linalg.qr(rng.standard_normal((d, d)))[0] for _ in range(_CANDIDATES - 1)]


def _farthest_frame(cloud: Float[np.ndarray, "n d"], frames: list[np.ndarray]) -> np.ndarray:
    n = len(cloud)
    normal = ndtri((np.arange(n) + 0.5) / n)[:, None]
    distances = [((np.sort(cloud @ frame, axis=0) - normal) ** 2).sum() for frame in frames]
    return frames[int(np.argmax(distances))]
