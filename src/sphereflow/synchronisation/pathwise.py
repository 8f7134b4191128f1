r"""How far deep, wide networks of many tokens are from their limit, on one path of the noise.

With $k=\kappa(1)$, $k'=\kappa'(1)$, $g=(d-1)k'-(d-3)k$, one token, no attention, and a limit followed in $L_0$ steps,

$$E|x^{(L)}-x|^2\approx(d-1)kT\Big[\frac{(d-1)k'+k}2\Big(\frac1L-\frac1{L_0}\Big)+\frac k{L_0}\Big]\frac{e^{gT}-1}g,
  \qquad E|x^{(m)}-x|^2\approx\frac{(d-1)\mathrm{Var}\,\sigma^2}{4km}\,\frac{e^{gT}-1}g,$$

and given the noise the modes of n independent tokens fluctuate by $nE|c_1^n-c_1|^2=1-E|c_1|^2$: all of order 1/2. With
attention the orders stay, the constants do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from sphereflow.errors import SphereflowError, one_of, whole_number
from sphereflow.estimates import Estimate, mean
from sphereflow.numerics.unit_vectors import unit
from sphereflow.reading import real_array, whole_numbers
from sphereflow.results import Result, Variables, recorded_call
from sphereflow.seeds import Seed, rng_from
from sphereflow.shapes import AnyArray, ArrayLike
from sphereflow.synchronisation.activations import Function, kappa, resolve
from sphereflow.synchronisation.circle_laws import draw_angles, on_circle, quantiles
from sphereflow.synchronisation.covariance import of_activation
from sphereflow.synchronisation.noise_modes import NoiseModes, noise_modes
from sphereflow.synchronisation.shared_path import (
    checked_times,
    follow_depths,
    increments,
    moves,
    narrowed,
    require_room,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = np.ndarray

KINDS = ("depth", "width", "tokens", "law")
_LABELS = {"depth": "layers $L$", "width": "width $m$", "tokens": "tokens $n$", "law": "tokens $n$"}


@dataclass(frozen=True, eq=False, repr=False)
class StrongErrors(Result):
    r"""Squared errors on one path each, (sizes, repeats): `depth`, `width`, `tokens` ($|x_i-\bar x_i|^2$) and `law`.

    `law` is $|c_1^n-c_1|^2$ of the first Fourier mode; `overlap` the inner products of the first two tokens, in the
    networks of each depth and in the limit (last). `one`, `slope` are $\kappa(1)$, $\kappa'(1)$ of the modes kept.
    """

    d: int
    t1: float
    strength: float
    one: float
    slope: float
    fourth: float
    steps: int
    depths: Float[Array, " l"]
    depth: Float[Array, "l repeats"]
    overlap: Float[Array, "l_and_limit repeats"]
    widths: Float[Array, " m"]
    width: Float[Array, "m repeats"]
    sizes: Float[Array, " n"]
    tokens: Float[Array, "n repeats"]
    law: Float[Array, "n repeats"]

    def _of(self, kind: str) -> tuple[Array, Array]:
        one_of("kind", kind, KINDS)
        sizes = {"depth": self.depths, "width": self.widths}.get(kind, self.sizes)
        return sizes, getattr(self, kind)

    def errors(self, kind: str = "depth") -> Estimate:
        """Root mean square errors with error bars, for each size."""
        squares = mean(self._of(kind)[1].T)
        root = np.sqrt(squares.value)
        return Estimate(root, squares.error / (2 * np.where(root > 0, root, 1)))

    def order(self, kind: str = "depth", last: int = 0) -> Estimate:
        """The power of the size in the root mean square error, from all sizes or from the last few.

        All sizes meet the same noise: the error bar is that of the slope over paths.
        """
        sizes, squares = (part[-last:] for part in self._of(kind))
        if len(sizes) < 2 or not np.all(squares.mean(axis=1) > 0):
            raise SphereflowError(f"an order needs two sizes with errors that do not vanish; ask for more ({kind}).")
        x = np.log(sizes) - np.log(sizes).mean()
        weight = x / np.sum(x**2) / 2
        sample = weight @ (squares / squares.mean(axis=1, keepdims=True))
        return Estimate(np.asarray(weight @ np.log(squares.mean(axis=1))), mean(sample).error)

    @property
    def amplification(self) -> float:
        r"""$(e^{gT}-1)/g$: how errors made on the way have grown at the end."""
        g = (self.d - 1) * self.slope - (self.d - 3) * self.one
        return float(np.expm1(g * self.t1) / g) if g else self.t1

    def predicted(self, kind: str = "depth") -> Float[Array, " s"]:
        """Root mean square errors by the formulas for one token without attention, depth and width."""
        one_of("kind", kind, KINDS[:2])
        tangent = (self.d - 1) * self.one
        if kind == "width":
            return np.sqrt((self.d - 1) * self.fourth / (4 * self.one * self.widths) * self.amplification)
        local = (tangent * self.slope / self.one + self.one) / 2 * (1 / self.depths - 1 / self.steps)
        return np.sqrt(tangent * self.t1 * (local + self.one / self.steps) * self.amplification)

    def facts(self) -> list[str]:
        facts = []
        for kind in KINDS:
            sizes, squares = self._of(kind)
            if len(sizes) and np.any(squares > 0):
                text = f"{kind}: RMS error {self.errors(kind)} at {', '.join(f'{n:g}' for n in sizes)}"
                facts.append(text + (f", order {self.order(kind)}" if len(sizes) > 1 else ""))
        return [*facts, f"d={self.d}, t1={self.t1:g}, attention {self.strength:g}, {self.depth.shape[1]} paths"]

    def variables(self) -> Variables:
        return {
            "depths": ("depths", self.depths),
            "depth": (("depths", "repeat"), self.depth),
            "widths": ("widths", self.widths),
            "width": (("widths", "repeat"), self.width),
            "sizes": ("sizes", self.sizes),
            "tokens": (("sizes", "repeat"), self.tokens),
            "law": (("sizes", "repeat"), self.law),
        }

    def plot(self) -> Figure:
        """Root mean square errors against depth, width and number of tokens; dashed: the formulas, or order 1/2."""
        from sphereflow.pictures import PALETTE, styled_figure

        shown = [kind for kind in KINDS if len(self._of(kind)[0]) and np.any(self._of(kind)[1] > 0)]
        with styled_figure(2.8 * max(len(shown), 1) + 0.8, 3.2) as figure:
            for axes, kind in zip(np.ravel(figure.subplots(1, max(len(shown), 1))), shown, strict=True):
                sizes, (value, error) = self._of(kind)[0], self.errors(kind)
                line = self.predicted(kind) if kind in KINDS[:2] else value[-1] * np.sqrt(sizes[-1] / sizes)
                axes.errorbar(sizes, value, error, fmt="o", color=PALETTE[0], capsize=3)
                axes.plot(sizes, line, "--", color="0.4", lw=1)
                axes.set(xscale="log", yscale="log", xlabel=_LABELS[kind], ylabel="RMS error", title=kind)
        return figure


@recorded_call
def strong_errors(
    activation: str | Function,
    *,
    d: int = 2,
    strength: float = 0.0,
    beta: float = 1.0,
    t1: float = 1.0,
    depths: Sequence[int] = (8, 16, 32, 64),
    widths: Sequence[int] = (),
    sizes: Sequence[int] = (),
    n: int = 4,
    x0: Float[AnyArray, "n d"] | None = None,
    layers: int = 32,
    steps: int | None = None,
    density: ArrayLike | None = None,
    modes: int = 32,
    repeats: int = 300,
    seed: Seed = 0,
) -> StrongErrors:
    """Networks of each depth, width and number of tokens against their limits, on the same paths of the noise.

    **Arguments:**

    - `activation`: of the perceptron; any for d = 2 and 3, for d > 3 a polynomial of degree at most 3.
    - `strength`, `beta`: attention of value matrix v I in every layer; 0 for none.
    - `depths`: n tokens in networks of infinite width against the limiting equation, followed in `steps` steps
      (a multiple of all depths; four times the largest if None).
    - `widths`: n tokens in networks of `layers` layers against the one of infinite width.
    - `sizes`: so many independent tokens in networks of `layers` layers against tokens in the field of their law given
      the noise, which 4 max(sizes) tokens at quantiles stand for; on the circle only.
    - `x0`: the first tokens, the same on every path; n independent ones if None.
    - `density`: of the start on the circle, values at equally spaced angles from 0; uniform if None.
    - `modes`: the highest cosine of the noise on the circle, or degree of its harmonics for d = 3.

    ```python
    synchronisation.strong_errors("tanh", strength=1.0, beta=2.0, depths=(8, 16, 32, 64)).order()
    ```
    """
    t1, v, beta = checked_times(t1, strength, beta)
    n, layers, repeats = whole_number("n", n), whole_number("layers", layers), whole_number("repeats", repeats, least=2)
    depths, widths, sizes = (
        sorted(whole_numbers(name, given)) for name, given in (("depths", depths), ("widths", widths), ("sizes", sizes))
    )
    steps = 4 * max(depths, default=1) if steps is None else whole_number("steps", steps)
    if any(steps % depth for depth in depths):
        raise SphereflowError(f"steps must be a multiple of every depth, got {steps} for the depths {depths}.")
    if x0 is not None and density is not None:
        raise SphereflowError("give the first tokens as x0 or their law as density, not both.")
    if d != 2 and (sizes or density is not None):
        raise SphereflowError(f"sizes and density are for tokens on the circle, d=2, got d={d}.")
    law = of_activation(activation)
    field = noise_modes(law, d, modes=modes)
    require_room(field, repeats, max([n, *(4 * size for size in sizes), *widths]), beta)
    start = None if density is None else on_circle(density)
    given = None if x0 is None else unit(real_array("x0", x0, shape=("n", d)))
    rng = rng_from(seed)
    x = _tokens(rng, repeats, n, d, start) if given is None else np.broadcast_to(given, (repeats, *given.shape))
    deep, overlap = _depths(field, x, depths, steps, t1, v, beta, rng)
    wide = _widths(field, activation, x, widths, layers, t1, v, beta, rng)
    many = _sizes(field, start, sizes, layers, t1, v, beta, repeats, rng)
    fourth = float(kappa(lambda s: resolve(activation)(s) ** 2, np.array(1.0))) - float(law.at_one) ** 2
    columns = (np.array(each, dtype=float) for each in (depths, widths, sizes))
    setting = (d, t1, v, field.at_one, field.slope_at_one, fourth, steps)
    one, two, three = columns
    return StrongErrors(*setting, one, deep, overlap, two, wide, three, *many)


def _tokens(rng: np.random.Generator, repeats: int, n: int, d: int, start: Array | None) -> Array:
    if d == 2:
        return draw_angles(rng, start, (repeats, n))
    return unit(rng.standard_normal((repeats, n, d)))


def _depths(
    field: NoiseModes,
    x: Array,
    depths: Sequence[int],
    steps: int,
    t1: float,
    v: float,
    beta: float,
    rng: np.random.Generator,
) -> tuple[Array, Array]:
    """Mean squared distances of tokens from the limit, and inner products of the first two tokens."""
    *tokens, limit = follow_depths(field, x, depths, steps if depths else 0, t1, v, beta, rng)
    squares = [np.sum((y - limit) ** 2, axis=-1).mean(axis=1) for y in tokens]
    products = [np.sum(y[:, 0] * y[:, min(1, y.shape[1] - 1)], axis=-1) for y in (*tokens, limit)]
    return np.array(squares).reshape(len(depths), len(x)), np.array(products)


def _widths(
    field: NoiseModes,
    activation: str | Function,
    x: Array,
    widths: Sequence[int],
    layers: int,
    t1: float,
    v: float,
    beta: float,
    rng: np.random.Generator,
) -> Array:
    """Mean squared distances of tokens in networks of finite and of infinite width."""
    sigma = jax.jit(resolve(activation))
    tokens, wide, step = [x] * len(widths), x, t1 / layers
    for _ in range(layers if widths else 0):
        noise = increments(field, rng, len(x), step)
        for k, width in enumerate(widths):
            y = tokens[k]
            inner = rng.standard_normal((len(x), field.d, width), dtype=np.float32)
            phi, hidden = field.features(y), np.asarray(sigma(jnp.asarray(y @ inner)))
            pull = moves(field, y, 0 * noise, step * v, beta)[0] if v else 0.0
            tokens[k] = unit(y + pull + narrowed(phi, hidden, phi @ noise))
        wide = unit(wide + moves(field, wide, noise, step * v, beta)[0])
    squares = [np.sum((y - wide) ** 2, axis=-1).mean(axis=1) for y in tokens]
    return np.array(squares).reshape(len(widths), len(x))


def _sizes(
    field: NoiseModes,
    start: Array | None,
    sizes: Sequence[int],
    layers: int,
    t1: float,
    v: float,
    beta: float,
    repeats: int,
    rng: np.random.Generator,
) -> tuple[Array, Array]:
    """Mean squared distances of tokens from those in the field of the law, and of their first modes from its own."""
    largest, step = max(sizes, default=1), t1 / layers
    law = np.broadcast_to(quantiles(start, 4 * largest), (repeats, 4 * largest, 2))
    free = draw_angles(rng, start, (repeats, largest))
    tokens = [free[:, :size] for size in sizes]
    for _ in range(layers if sizes else 0):
        noise = increments(field, rng, repeats, step)
        tokens = [unit(y + moves(field, y, noise, step * v, beta)[0]) for y in tokens]
        move, modes = moves(field, law, noise, step * v, beta)
        free = unit(free + moves(field, free, noise, step * v, beta, modes)[0])
        law = unit(law + move)
    apart = [np.sum((y - free[:, : y.shape[1]]) ** 2, axis=-1).mean(axis=1) for y in tokens]
    first = [np.sum((y.mean(axis=1) - law.mean(axis=1)) ** 2, axis=-1) for y in tokens]
    return np.array(apart).reshape(len(sizes), repeats), np.array(first).reshape(len(sizes), repeats)
