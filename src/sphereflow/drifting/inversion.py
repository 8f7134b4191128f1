r"""From the field back to the law: recover q from $V_{p,q}$ on a set of places, and search for laws that hide there.

$m(x)=x+V_p^+(x)-V(x)$ is the kernel mean of q, so that the weights of q on nodes $y_j$ solve

$$ \sum_jq_j\,k(x_i,y_j)\,(y_j-m(x_i))=0,\qquad q\ge0,\quad\sum_jq_j=1, $$

linear equations, whose rows are divided by $\sum_jk(x_i,y_j)$. They are solved by least squares under the constraints
with a penalty $\lambda|q-\frac1J|^2$, $\lambda$ the square of the noise in V. The problem is unique for the Gaussian
kernel and severely ill-posed: an answer means something only together with the noise.

With the matrix $A$ of these rows for $m=m_p$, $|V(x_i)|\ge|(A(q-p))_i|$ for every law q on the nodes, hence

$$ \Big(\frac1N\sum_i|V(x_i)|^2\Big)^{1/2}\ge\sigma\,|q-p|_2,\qquad
   \sigma=\min_{\sum u=0}\frac{|Au|_2}{\sqrt N|u|_2}: $$

the margin $\sigma$ is a floor under everything an adversary can reach; where it is zero, two laws have the same field.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice, product

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.linalg import null_space
from scipy.optimize import nnls
from scipy.spatial.distance import cdist

from sphereflow.drifting.inputs import LARGEST, moderate
from sphereflow.drifting.radial import KERNELS
from sphereflow.errors import SphereflowError, one_of, real_number, whole_number
from sphereflow.results import Result, Variables, recorded_call
from sphereflow.seeds import Seed, rng_from

_LEAST_NOISE = 1e-12  # what rounding leaves in a field that is given exactly
_ROUNDING = 1e-14  # margins below this fraction of the largest singular value cannot be told from zero
_ROUNDS = 20


@dataclass(frozen=True, eq=False, repr=False)
class RecoveredLaw(Result):
    """Weights on the nodes, the misfit of the equations (root mean square, in units of V), and the margin.

    An error of size `noise` in V may change the weights by `noise / margin` before the constraints stop it.
    """

    nodes: Float[np.ndarray, "J D"]
    weights: Float[np.ndarray, " J"]
    misfit: float
    margin: float
    noise: float

    def variables(self) -> Variables:
        return {"nodes": (("node", "coordinate"), self.nodes), "weights": ("node", self.weights)}

    def facts(self) -> list[str]:
        mean = ", ".join(f"{value:.4g}" for value in (self.weights @ self.nodes)[:3])
        return [
            f"weights on {len(self.nodes)} nodes with mean ({mean}{', ...' * (self.nodes.shape[1] > 3)})",
            f"misfit {self.misfit:.3g} at a stated noise of {self.noise:.3g}",
            f"margin {self.margin:.3g}: noise moves the weights by about noise / margin, {self.noise / self.margin:.3g}"
            if self.margin > 0
            else "margin below rounding: other laws have the same field at these places",
        ]


@dataclass(frozen=True, eq=False, repr=False)
class HiddenLaw(Result):
    """The law that leaves the smallest field among those searched: its weights, the field, and the proved floor.

    `rms` and `largest` are the root mean square and the largest |V| at the places; `floor` is margin times |q - p|.
    """

    nodes: Float[np.ndarray, "J D"]
    weights: Float[np.ndarray, " J"]
    field: Float[np.ndarray, "N D"]
    distance: float
    rms: float
    largest: float
    margin: float
    floor: float

    def variables(self) -> Variables:
        law: Variables = {"nodes": (("node", "coordinate"), self.nodes), "weights": ("node", self.weights)}
        return law | {"field": (("place", "coordinate"), self.field)}

    def facts(self) -> list[str]:
        proved = f"no law this far can be below {self.floor:.3g}" if self.floor > 0 else "the floor is below rounding"
        return [
            f"a law at total variation {self.distance:.4g} from the data with |V| at most {self.largest:.3g}",
            f"root mean square {self.rms:.3g}; {proved}",
        ]


@recorded_call
def recover_law(
    kernel: str,
    places: ArrayLike,
    field_values: ArrayLike,
    nodes: ArrayLike,
    data: ArrayLike,
    *,
    width: float,
    noise: float,
    data_weights: ArrayLike | None = None,
) -> RecoveredLaw:
    """The law q on the nodes whose field against the data was seen at the places, with errors of size `noise`.

    Places (N, D), nodes (J, D) and data (m, D), or (N), (J) and (m) on the line, where values are (N) as well. The
    data may have weights. `noise` is the standard error of a coordinate of V, zero if it is exact.
    """
    noise = real_number("noise", noise, least=0, most=LARGEST)
    x, y, z = (_rows(name, given) for name, given in (("places", places), ("nodes", nodes), ("data", data)))
    _same_dimension(x, y, z)
    field = moderate("field_values", field_values)
    field = field[:, None] if field.ndim == 1 else field
    if field.shape != x.shape:
        raise SphereflowError(f"field_values must have the shape of places, {x.shape}; got {field.shape}.")
    p = _weights("data_weights", data_weights, len(z))
    k = _kernel(kernel, width, x, y)
    mean = _kernel_mean(_kernel(kernel, width, x, z) * p, z) - field
    matrix = _equations(k, y, mean)
    count = len(y)
    pull = max(noise, _LEAST_NOISE)
    rows = np.vstack([matrix, pull * np.eye(count), np.ones((1, count))])
    right = np.concatenate([np.zeros(len(matrix)), np.full(count, pull / count), [1.0]])
    weights, _ = nnls(rows, right, maxiter=100 * count)
    weights = weights / weights.sum()
    misfit = float(np.sqrt(np.mean((_kernel_mean(k * weights, y) - mean) ** 2)))
    return RecoveredLaw(y, weights, misfit, _margin(matrix), noise)


def field_margin(
    kernel: str, places: ArrayLike, nodes: ArrayLike, weights: ArrayLike | None = None, *, width: float
) -> float:
    r"""The margin $\sigma$ of the law with these weights (equal ones by default) on the nodes, seen at the places.

    Zero means: below rounding. Sixteen digits are enough for about ten nodes across a few widths.
    """
    x, y = _rows("places", places), _rows("nodes", nodes)
    _same_dimension(x, y)
    k, p = _kernel(kernel, width, x, y), _weights("weights", weights, len(y))
    return _margin(_equations(k, y, _kernel_mean(k * p, y)))


@recorded_call
def hidden_law(
    kernel: str,
    places: ArrayLike,
    nodes: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    width: float,
    distance: float,
    starts: int = 200,
    seed: Seed = 0,
) -> HiddenLaw:
    r"""Search for a law q on the nodes, at total variation `distance` from the data, with the least field at places.

    For every pattern of signs of q - p (all of them where there are at most `starts`, else so many at random) the
    smallest field is found by least squares, rows weighted anew with the kernel mass of q until nothing changes.
    """
    distance = real_number("distance", distance, above=0, most=1)
    starts = whole_number("starts", starts, most=10**6)
    rng = rng_from(seed)
    x, y = _rows("places", places), _rows("nodes", nodes)
    _same_dimension(x, y)
    k, p = _kernel(kernel, width, x, y), _weights("weights", weights, len(y))
    if len(y) < 2:
        raise SphereflowError("nodes must be at least two: on one node there is one law.")
    mean = _kernel_mean(k * p, y)
    matrix = _equations(k, y, mean)
    best: tuple[float, np.ndarray] | None = None
    for signs in _patterns(len(y), starts, rng):
        q = _least_field(matrix, k, p, signs, distance)
        if q is None:
            continue
        residual = float(np.sqrt(np.mean((mean - _kernel_mean(k * q, y)) ** 2)))
        if best is None or residual < best[0]:
            best = residual, q
    if best is None:
        raise SphereflowError(
            f"no law on these nodes at distance {distance:g} from the data was found: ask for less, or for more starts."
        )
    q = best[1]
    field = mean - _kernel_mean(k * q, y)
    margin = _margin(matrix)
    return HiddenLaw(
        nodes=y,
        weights=q,
        field=field,
        distance=float(0.5 * np.abs(q - p).sum()),
        rms=float(np.sqrt(np.mean(np.sum(field**2, axis=1)))),
        largest=float(np.max(np.linalg.norm(field, axis=1))),
        margin=margin,
        floor=margin * float(np.linalg.norm(q - p)),
    )


def _least_field(
    matrix: np.ndarray, k: np.ndarray, p: np.ndarray, signs: np.ndarray, distance: float
) -> np.ndarray | None:
    """The law with the smallest field among those with sum(signs (q - p)) = 2 distance; weights at zero stay there."""
    dimension = len(matrix) // len(k)
    q, held = p, np.zeros(len(p), dtype=bool)
    for _ in range(_ROUNDS):
        scale = np.repeat(k.sum(axis=1) / np.maximum(k @ q, np.finfo(float).tiny), dimension)
        fixed = np.vstack([np.ones(len(p)), signs, np.eye(len(p))[held]])
        right = np.concatenate([[0.0, 2 * distance], -p[held]])
        one = np.linalg.lstsq(fixed, right, rcond=None)[0]
        if np.max(np.abs(fixed @ one - right)) > 1e-9:
            return None
        free = null_space(fixed)
        rows = scale[:, None] * matrix
        change = one - free @ np.linalg.lstsq(rows @ free, rows @ one, rcond=1e-15)[0] if free.shape[1] else one
        new = p + change
        below = new < -1e-15
        if below.any():
            held |= below
            continue
        new = np.maximum(new, 0.0)
        new, before = new / new.sum(), q
        q, signs = new, np.where(change == 0, signs, np.sign(change))
        if np.max(np.abs(new - before)) < 1e-12:
            return q
    return q if q is not p else None


def _patterns(count: int, starts: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Patterns of signs with both signs, one of every pair of opposites and then the other."""
    if count <= 20 and 2**count - 2 <= starts:
        chosen = [np.array(signs) for signs in product((1.0, -1.0), repeat=count)]
    else:
        chosen = list(rng.choice([-1.0, 1.0], size=(starts + 8, count)))
    return list(islice((s for s in chosen if abs(s.sum()) < count), starts))


def _margin(matrix: np.ndarray) -> float:
    """The least singular value on changes of total mass zero, over the root of the number of rows; zero in rounding."""
    count = matrix.shape[1]
    if count < 2:
        return 0.0
    values = np.linalg.svd(matrix @ null_space(np.ones((1, count))), compute_uv=False)
    least = float(values[-1]) if len(values) == count - 1 else 0.0
    return least / np.sqrt(len(matrix)) if least > _ROUNDING * float(values[0]) else 0.0


def _equations(k: np.ndarray, nodes: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Rows k(x, y_j) (y_j - m(x)) over the sum of k, coordinate by coordinate."""
    share = k / k.sum(axis=1, keepdims=True)
    return np.asarray((share[:, None, :] * (nodes.T[None] - mean[:, :, None])).reshape(-1, len(nodes)))


def _kernel_mean(weighted: np.ndarray, nodes: np.ndarray) -> np.ndarray:
    return np.asarray(weighted @ nodes / weighted.sum(axis=1, keepdims=True))


def _kernel(kernel: str, width: float, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """k(x, y), each row in units of its largest entry: the equations do not change."""
    one_of("kernel", kernel, KERNELS)
    width = real_number("width", width, least=1e-15, most=1e15)
    away = cdist(x, y) / width
    if kernel == "compact":
        k = np.maximum(1 - away, 0.0)
        if not np.all(k.sum(axis=1) > 0):
            raise SphereflowError("every place must be within one width of some node of a compact kernel.")
        return np.asarray(k)
    logs = -(away**2) / 2 if kernel == "gaussian" else -away
    return np.asarray(np.exp(logs - logs.max(axis=1, keepdims=True)))


def _rows(name: str, given: ArrayLike) -> np.ndarray:
    array = moderate(name, given)
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim != 2:
        raise SphereflowError(f"{name} must have the shape (n, D), or (n,) on the line; got {array.shape}.")
    return array


def _same_dimension(*arrays: np.ndarray) -> None:
    if len({array.shape[1] for array in arrays}) > 1:
        dimensions = ", ".join(str(array.shape[1]) for array in arrays)
        raise SphereflowError(f"places, nodes and data must have one dimension; got {dimensions}.")


def _weights(name: str, given: ArrayLike | None, count: int) -> np.ndarray:
    if given is None:
        return np.full(count, 1 / count)
    weights = moderate(name, given, shape=(count,))
    if np.any(weights < 0) or not weights.sum() > 0:
        raise SphereflowError(f"{name} must be non-negative with a positive sum.")
    return weights / weights.sum()
