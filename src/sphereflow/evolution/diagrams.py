r"""Phase diagrams over time and temperature, for attention with given or random matrices.

$$\dot x_i=P_{x_i}\sum_j\frac{e^{\beta\langle Qx_i,Kx_j\rangle}}{Z_i}\,Vx_j ,$$

and of the tokens at every (t, beta), averaged over replicas, each with its own start and its own matrices:

- overlap: the mean of $\langle x_i,x_j\rangle$, $i\ne j$;
- close: the share of pairs $i\ne j$ with $\langle x_i,x_j\rangle>$ threshold;
- clusters: the connected components of the graph of these pairs; one: whether there is only one;
- rank: the rank of the matrix $[\langle x_i,x_j\rangle>$ threshold$]$ of zeros and ones, which counts clusters too, but
  not chains of tokens;
- span: the dimension of the span of the tokens, eigenvalues of their Gram matrix above the threshold.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sphereflow.dynamics import SA, USA, Dynamics, PiecewiseConstant
from sphereflow.dynamics.base import changed
from sphereflow.errors import SphereflowError, enough_memory, one_of, real_number, whole_number
from sphereflow.estimates import Estimate, fraction, mean
from sphereflow.evolution.ensembles import Law, matrices_of
from sphereflow.evolution.equiangular import collapse_time
from sphereflow.kernels import KERNEL_SCALES
from sphereflow.observables import gram
from sphereflow.parameters import model_name
from sphereflow.progress import Progress, reporting
from sphereflow.reading import real_array
from sphereflow.results import Result, Variables, recorded_call
from sphereflow.seeds import Seed, key_from
from sphereflow.shapes import AnyArray, ArrayLike
from sphereflow.solving import FORWARD, solve
from sphereflow.sphere import STARTS, draw

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_WORDS = {
    "overlap": "mean inner product of two tokens",
    "close": "share of pairs with inner product above {threshold:g}",
    "clusters": "number of clusters at threshold {threshold:g}",
    "one": "probability of a single cluster at threshold {threshold:g}",
    "rank": "rank of the matrix of pairs above {threshold:g}",
    "span": "dimension of the span of the tokens, eigenvalues above {threshold:g}",
}
OBSERVABLES = tuple(_WORDS)
_THRESHOLDS = {"overlap": 0.5, "rank": 0.9999, "span": 1e-3}
_MOST_STEPS = 100_000


@dataclass(frozen=True, eq=False, repr=False)
class ClusterDiagram(Result):
    """An observable of tokens over `betas` and `times`, of every replica: `samples` of shape (R, betas, times).

    `value` is the mean over replicas and `error` its standard error, over starts and, where they are random, matrices.
    A replica begins at the same tokens, with the same matrices, at every beta: neighbouring rows share their noise.
    Where a replica could not be followed within the steps allowed it is not a number. `curve` is the time at which
    tokens with equal inner products reach the `threshold`, for every beta, where matrices are identities.
    """

    times: Float[np.ndarray, " T"]
    betas: Float[np.ndarray, " B"]
    samples: Float[np.ndarray, "R B T"]
    observable: str
    threshold: float
    random_matrices: bool
    curve: Float[np.ndarray, " B"] | None

    @property
    def estimate(self) -> Estimate:
        """Mean over replicas with its standard error; that of a probability never vanishes."""
        if self.observable != "one":
            return mean(self.samples)
        lost = np.isnan(self.samples).any(axis=0)
        return Estimate(*(np.where(lost, np.nan, part) for part in fraction(self.samples > 0)))

    @property
    def value(self) -> Float[np.ndarray, "B T"]:
        return self.estimate.value

    @property
    def error(self) -> Float[np.ndarray, "B T"]:
        return self.estimate.error

    @property
    def median(self) -> Float[np.ndarray, "B T"]:
        """Over replicas."""
        return np.asarray(np.median(self.samples, axis=0))

    @property
    def words(self) -> str:
        return _WORDS[self.observable].format(threshold=self.threshold)

    def facts(self) -> list[str]:
        estimate, repeats = self.estimate, len(self.samples)
        seen = estimate.value[np.isfinite(estimate.value)]
        own = "its own start and its own matrices" if self.random_matrices else "its own start"
        told = [
            f"{self.words}: from {seen.min():.4g} to {seen.max():.4g}" if seen.size else f"{self.words}: not known",
            f"{len(self.betas)} values of beta from {self.betas[0]:g} to {self.betas[-1]:g}, {len(self.times)} times "
            f"to {self.times[-1]:g}",
            f"{repeats} replicas, each with {own}; largest standard error over replicas "
            f"{np.max(estimate.error[np.isfinite(estimate.error)], initial=0.0):.2g}",
        ]
        lost = int(np.isnan(estimate.value).sum())
        if lost:
            told.append(f"{lost} of {estimate.value.size} cells not known: a replica took too many steps")
        return told

    def variables(self) -> Variables:
        found: Variables = {
            "beta": ("beta", self.betas),
            "time": ("time", self.times),
            "value": (("beta", "time"), self.value),
            "error": (("beta", "time"), self.error),
            "samples": (("replica", "beta", "time"), self.samples),
        }
        return found | ({} if self.curve is None else {"curve": ("beta", self.curve)})

    def plot(self) -> Figure:
        """The mean over replicas with a contour half way between its ends, and the curve of equal inner products.

        Dashed: the same contour of the mean plus and minus its standard error.
        """
        from sphereflow.pictures import PALETTE, blank, look

        value = np.ma.masked_invalid(self.value)
        with look():
            figure = blank(5.4, 4.2)
            axes = figure.subplots()
            drawn = axes.pcolormesh(
                self.times, self.betas, value, cmap="magma", shading="nearest" if value.size > 1 else "auto"
            )
            repeats = len(self.samples)
            over = f"mean of {repeats} replicas" if repeats > 1 else "one replica"
            figure.colorbar(drawn, ax=axes, label=f"{self.words}\n({over})")
            xlim, ylim = (  # the cells at the edges reach beyond the data, to negative times
                (each[0], each[-1]) if len(each) > 1 else box
                for each, box in ((self.times, axes.get_xlim()), (self.betas, axes.get_ylim()))
            )
            if min(value.shape) > 1 and np.ptp(value) > 0:
                middle = float(value.min() + value.max()) / 2
                error = np.ma.masked_invalid(self.error)
                for shift, style in ((0, "-"), (-error, "--"), (error, "--"))[: 3 if repeats > 1 else 1]:
                    near = value + shift
                    if near.min() < middle < near.max():
                        width = 1.2 if style == "-" else 0.7
                        axes.contour(
                            self.times,
                            self.betas,
                            near,
                            levels=[middle],
                            colors="C5",
                            linewidths=width,
                            linestyles=style,
                        )
                axes.plot([], [], color=PALETTE[5], label=f"contour at {middle:.2g}")
            if self.curve is not None:
                axes.plot(self.curve, self.betas, color="0.75", lw=1.5, label="equal inner products")
            axes.set(xlabel="$t$", ylabel=r"$\beta$", xlim=xlim, ylim=ylim)
            if axes.get_legend_handles_labels()[0]:
                figure.legend(loc="outside lower center", ncols=2)
        return figure


@recorded_call
def phase_diagram(
    times: ArrayLike,
    betas: ArrayLike,
    *,
    n: int = 32,
    d: int = 2,
    model: str = "sa",
    matrices: str | Sequence[Any] | Law = "identity",
    value: str = "identity",
    resample: float | None = None,
    observable: str = "close",
    threshold: float | None = None,
    start: str = "uniform",
    kernel_scale: str = "peak",
    repeats: int = 32,
    seed: Seed = 0,
    tol: float = 1e-5,
    progress: Progress = None,
) -> ClusterDiagram:
    r"""An observable of n tokens on $S^{d-1}$ over time and beta, averaged over replicas with their own matrices.

    **Arguments:**

    - `times`: increasing, from 0 on; `betas`: increasing and not negative (a negative one is Q = -I).
    - `matrices`: the law of $Q^\top K$, "identity", "gaussian" or "goe", and `value` that of V, "identity",
      "gaussian" (positive), "form" ($Q^\top K$ scaled) or "-form"; or your own (Q, K, V), None for an identity; or a
      function of a JAX key that returns them, called for every replica.
    - `resample`: fresh matrices whenever so much time has passed; None keeps them.
    - `observable`: "overlap", "close", "clusters", "one", "rank" or "span"; `threshold`: 0.999, for "rank" 0.9999, for
      "span" the least eigenvalue, 0.001; for "overlap" the level of the theoretical curve, 0.5.
    - `model`: "sa" or "usa", with `kernel_scale` "peak" or "raw"; `start`: a name that `draw` knows.
    - `repeats`: replicas, two or more; `tol`: the error of every token.

    ```python
    diagram = sf.evolution.phase_diagram(np.linspace(0, 20, 41), [1, 2, 4], d=3, matrices="goe", value="form")
    diagram.plot()
    ```
    """
    n, d = whole_number("n", n, least=2, most=10**5), whole_number("d", d, least=2, most=10**5)
    repeats = whole_number("repeats", repeats, least=2)
    moments, rows = _increasing("times", times), _increasing("betas", betas)
    if moments[-1] == 0:
        raise SphereflowError("times must end above 0.")
    name = model_name(model)
    for word, given, allowed in (("observable", observable, OBSERVABLES), ("start", start, STARTS)):
        one_of(word, given, allowed)
    one_of("kernel_scale", kernel_scale, KERNEL_SCALES)
    level = _THRESHOLDS.get(observable, 0.999) if threshold is None else threshold
    level = real_number("threshold", level, above=0.0 if observable == "span" else -1.0, most=1 - 1e-12)
    key, tol = key_from(seed), real_number("tol", tol, above=0.0, most=0.1)
    period = None if resample is None else real_number("resample", resample, above=0.0)
    plain = isinstance(matrices, str) and matrices == "identity" and value == "identity"
    random = callable(matrices) or (isinstance(matrices, str) and (matrices != "identity" or value == "gaussian"))
    pieces = 1 if period is None or not random else max(int(np.ceil(moments[-1] / period - 1e-9)), 1)
    numbers = 0 if plain else 3 * repeats * pieces * d * d
    enough_memory(8 * (numbers + repeats * (n * d + n * n + len(rows) * len(moments))), "this phase diagram")
    x0 = starting_tokens(start, n, d, repeats, key)
    if plain and d > n:  # tokens stay in the space that they span
        x0 = jnp.swapaxes(jnp.linalg.qr(jnp.swapaxes(x0, -1, -2))[1], -1, -2)
    heads = None
    if not plain:
        drawn = matrices_of(matrices, value, d, list(jax.random.split(jax.random.split(key)[1], repeats * pieces)))
        heads = tuple(jnp.asarray(m.reshape(repeats, pieces, *m.shape[1:])) for m in drawn)
    clock = jnp.asarray(np.union1d(0.0, moments))
    of_tokens = observable in ("rank", "span")
    if of_tokens:
        enough_memory(8 * repeats * len(clock) * n * x0.shape[-1], "the tokens of a row of this phase diagram")
    switches = None if period is None or pieces == 1 else jnp.arange(1, pieces) * period
    fixed: Any = {"x0": x0, "heads": heads, "switches": switches, "times": clock, "tol": jnp.asarray(tol)}

    def row(beta: float) -> np.ndarray:
        found = _row(name, kernel_scale, not of_tokens, jnp.asarray(beta), threshold=jnp.asarray(level), **fixed)
        return observed(observable, found, level)

    samples = _all_rows(row, rows, progress)[:, :, len(clock) - len(moments) :]
    theory = None
    if plain and observable != "span" and level > 0:
        slower = np.exp(rows) if name == "usa" and kernel_scale == "peak" else np.ones_like(rows)
        theory = slower * np.array([collapse_time(n, beta, 1 - level, name) for beta in rows])
    return ClusterDiagram(moments, rows, samples, observable, level, random, theory)


def starting_tokens(start: str, n: int, d: int, repeats: int, seed: Seed) -> Float[Array, "R n d"]:
    """Where the replicas of a phase diagram with this seed begin."""
    keys = jax.random.split(jax.random.split(key_from(seed))[0], repeats)
    return _drawn(start, n, d, keys)


@partial(jax.jit, static_argnames=("start", "n", "d"))
def _drawn(start: str, n: int, d: int, keys: Array) -> Float[Array, "R n d"]:
    # One key after the other: random numbers of all keys at once take three times as long to compile.
    return jax.lax.map(lambda key: draw(start, n, d, key), keys)


def _increasing(name: str, given: ArrayLike) -> np.ndarray:
    numbers = np.atleast_1d(real_array(name, given)).astype(float)
    if numbers.ndim != 1 or not numbers.size or numbers[0] < 0 or not (np.diff(numbers) > 0).all():
        raise SphereflowError(f"{name} must be increasing numbers, none of them negative.")
    return numbers


def _all_rows(row: Callable[[float], np.ndarray], betas: np.ndarray, progress: Progress) -> np.ndarray:
    """Histories (R, B, T): the first row compiles, then all processor cores take part; this thread alone reports."""
    with reporting("phase diagram", progress) as report, ThreadPoolExecutor(os.cpu_count()) as pool:
        found = [row(betas[0])]
        waiting = [pool.submit(row, beta) for beta in betas[1:]]
        report(1 / len(betas), f"phase diagram: 1 of {len(betas)} temperatures")
        for done, future in enumerate(as_completed(waiting), start=2):
            future.result()
            report(done / len(betas), f"phase diagram: {done} of {len(betas)} temperatures")
    return np.stack([*found, *(future.result() for future in waiting)], axis=1)


@eqx.filter_jit
def _row(
    model: str,
    kernel_scale: str,
    counted: bool,
    beta: Float[Array, ""],
    *,
    x0: Float[Array, "R n d"],
    heads: tuple[Array, ...] | None,
    switches: Float[Array, " m"] | None,
    times: Float[Array, " T"],
    threshold: Float[Array, ""],
    tol: Float[Array, ""],
) -> Float[Array, "R T ..."]:
    """What `_counts` says of every replica at all times, at one beta; the tokens themselves if not `counted`."""
    attention = SA if model == "sa" else USA

    def head(q: Array, k: Array, v: Array) -> Dynamics:
        return attention(beta, query=q, key=k, value=v, kernel_scale=kernel_scale)

    def one(start: Array, given: tuple[Array, ...] | None) -> Array:
        if given is None:
            dynamics: Dynamics = attention(beta, kernel_scale=kernel_scale)
        elif switches is None:
            dynamics = head(*(m[0] for m in given))
        else:
            layers = eqx.filter_vmap(head)(*given)
            order = tuple((0, k) for k in range(len(switches) + 1))
            single = PiecewiseConstant([], [head(*(m[0] for m in given))])
            dynamics = changed(single, switches=switches, stacks=(layers,), order=order)
        kept = (lambda x: _counts(x, threshold)) if counted else None
        found = solve(dynamics, start, times, tol=tol, adjoint=FORWARD, observe=kept, max_steps=_MOST_STEPS)
        return jnp.where(jnp.isfinite(found.xs), found.xs, jnp.nan)

    return jax.vmap(one, in_axes=(0, None if heads is None else 0))(x0, heads)


def _counts(x: Float[Array, "n d"], threshold: Float[Array, ""]) -> Float[Array, "3"]:
    """Mean inner product, share of close pairs, number of connected components: all that needs no eigenvalues."""
    n = len(x)
    near = (gram(x) > threshold) | jnp.eye(n, dtype=bool)
    close, pairs = jnp.sum(near) - n, n * (n - 1)
    for _ in range(int(np.ceil(np.log2(n)))):
        near = near.astype(x.dtype) @ near.astype(x.dtype) > 0
    count = jnp.sum(jnp.argmax(near, axis=1) == jnp.arange(n))  # tokens that are the first of their component
    return jnp.stack([(jnp.sum(jnp.sum(x, axis=0) ** 2) - n) / pairs, close / pairs, count.astype(x.dtype)])


def observed(observable: str, found: Float[AnyArray, "R T ..."], threshold: float) -> Float[np.ndarray, "R T"]:
    """One observable, from what a row returns."""
    told = np.asarray(found)
    if observable not in ("rank", "span"):
        overlap, close, count = np.moveaxis(told, -1, 0)
        one = np.where(np.isnan(count), np.nan, count == 1)
        return {"overlap": overlap, "close": close, "clusters": count, "one": one}[observable]
    lost = np.isnan(told).any(axis=(-2, -1))
    x = np.where(lost[..., None, None], 0.0, told)
    n, d = x.shape[-2:]
    if observable == "span":
        products = np.swapaxes(x, -1, -2) @ x if d < n else x @ np.swapaxes(x, -1, -2)
        counts = np.sum(np.linalg.eigvalsh(products) > threshold, axis=-1)
    else:
        counts = np.linalg.matrix_rank((x @ np.swapaxes(x, -1, -2) > threshold).astype(float), hermitian=True)
    return np.where(lost, np.nan, counts)
