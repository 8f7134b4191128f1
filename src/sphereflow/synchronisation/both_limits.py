r"""Many layers first, or many tokens first: two orders of limits of one statistic, on the same paths of the noise.

$$F(L,n)=E\Big|\frac1n\sum_ix_i\Big|^2,\qquad \lim_n\lim_LF=\lim_L\lim_nF .$$

$F(\infty,n)$ is the limiting equation of n tokens, $F(L,\infty)$ the network that moves the law itself (tokens at its
quantiles). Without attention $F(L,n)=1/n+(1-1/n)E\,r_L$, $r_L$ the overlap of two tokens. Under noise of its own for
every token the limit of many tokens would be that of the mean alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from sphereflow.errors import SphereflowError, whole_number
from sphereflow.estimates import Estimate, mean
from sphereflow.reading import whole_numbers
from sphereflow.results import Result, Variables, recorded_call
from sphereflow.seeds import Seed, rng_from
from sphereflow.shapes import ArrayLike
from sphereflow.synchronisation.activations import Function
from sphereflow.synchronisation.circle_laws import draw_angles, on_circle, quantiles
from sphereflow.synchronisation.covariance import of_activation
from sphereflow.synchronisation.noise_modes import noise_modes
from sphereflow.synchronisation.shared_path import checked_times, follow_depths, require_room

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = np.ndarray


@dataclass(frozen=True, eq=False, repr=False)
class LimitOrders(Result):
    """`values`: the squared length of the mean token for every depth, number of tokens and path.

    The last depth is the limit of many layers, the last number of tokens that of many tokens.
    """

    depths: Float[Array, " l"]
    sizes: Float[Array, " n"]
    values: Float[Array, "l_and_limit n_and_limit repeats"]
    strength: float

    def table(self) -> Estimate:
        """F(L, n) with error bars; the last row is F(infinity, n), the last column F(L, infinity)."""
        return mean(np.moveaxis(self.values, -1, 0))

    @property
    def deep_first(self) -> Estimate:
        """F(infinity, n) extrapolated in 1/n: many layers, then many tokens."""
        return mean(_at_zero(1 / self.sizes) @ self.values[-1, :-1])

    @property
    def many_first(self) -> Estimate:
        """F(L, infinity) extrapolated in 1/L: many tokens, then many layers."""
        return mean(_at_zero(1 / self.depths) @ self.values[:-1, -1])

    @property
    def difference(self) -> Estimate:
        """The first minus the second, with the error of the difference on the same paths."""
        first, second = (
            _at_zero(1 / self.sizes) @ self.values[-1, :-1],
            _at_zero(1 / self.depths) @ self.values[:-1, -1],
        )
        return mean(first - second)

    derived = ("deep_first", "many_first", "difference")

    def facts(self) -> list[str]:
        return [
            f"E|mean|^2, layers first: {self.deep_first}; tokens first: {self.many_first}",
            f"difference on the same paths: {self.difference}",
            f"L = {', '.join(f'{n:g}' for n in self.depths)}; n = {', '.join(f'{n:g}' for n in self.sizes)}; "
            f"attention {self.strength:g}, {self.values.shape[-1]} paths",
        ]

    def variables(self) -> Variables:
        return {
            "depth": ("depth", np.append(self.depths, np.inf)),
            "size": ("size", np.append(self.sizes, np.inf)),
            "values": (("depth", "size", "repeat"), self.values),
        }

    def plot(self) -> Figure:
        """F against 1/n for every depth; at 1/n = 0 the law itself."""
        from sphereflow.pictures import PALETTE, styled_figure

        value, error = self.table()
        with styled_figure(5.6, 3.6) as figure:
            axes = figure.subplots()
            for k, colour in zip(range(len(value)), PALETTE * len(value), strict=False):
                name = "limit" if k == len(self.depths) else f"$L={self.depths[k]:g}$"
                axes.errorbar(np.append(1 / self.sizes, 0), value[k], error[k], fmt="o-", color=colour, label=name)
            axes.set(xlabel="$1/n$", ylabel=r"$E|\bar x|^2$")
            axes.legend()
        return figure


def _at_zero(x: Array) -> Array:
    """Weights of the intercept of the straight line through points at x."""
    return np.asarray(np.linalg.pinv(np.stack([np.ones_like(x), x], axis=1))[0])


@recorded_call
def limit_orders(
    activation: str | Function,
    *,
    strength: float = 0.0,
    beta: float = 1.0,
    t1: float = 1.0,
    depths: Sequence[int] = (16, 32),
    sizes: Sequence[int] = (8, 32),
    steps: int | None = None,
    density: ArrayLike | None = None,
    modes: int = 8,
    repeats: int = 300,
    seed: Seed = 0,
) -> LimitOrders:
    """The mean token on the circle in networks of every depth and size, and in both limits, on the same paths.

    **Arguments:**

    - `depths`, `sizes`: two or more numbers of layers and of tokens, which start independently.
    - `steps`: in which the limit of many layers is followed, a multiple of all depths; twice the largest if None.
    - `density`: of the start, values at equally spaced angles from 0; uniform if None.

    ```python
    synchronisation.limit_orders("tanh", strength=1.0).difference
    ```
    """
    t1, v, beta = checked_times(t1, strength, beta)
    repeats = whole_number("repeats", repeats, least=2)
    depths, sizes = (sorted(set(whole_numbers(name, given))) for name, given in (("depths", depths), ("sizes", sizes)))
    if len(depths) < 2 or len(sizes) < 2:
        raise SphereflowError("depths and sizes must be at least two different numbers each: limits are extrapolated.")
    steps = 2 * depths[-1] if steps is None else whole_number("steps", steps)
    if any(steps % depth for depth in depths):
        raise SphereflowError(f"steps must be a multiple of every depth, got {steps} for the depths {depths}.")
    field = noise_modes(of_activation(activation), 2, modes=modes)
    require_room(field, repeats, 3 * sizes[-1], beta)
    start = None if density is None else on_circle(density)
    law = quantiles(start, 3 * sizes[-1])
    clouds = [draw_angles(rng_from(seed, 0), start, (repeats, sizes[-1]))[:, :n] for n in sizes]
    values = []
    for x in (*clouds, np.broadcast_to(law, (repeats, *law.shape))):
        ends = follow_depths(field, x, depths, steps, t1, v, beta, rng_from(seed, 1))  # the same noise for all
        values.append([np.sum(y.mean(axis=1) ** 2, axis=-1) for y in ends])
    errors = np.swapaxes(np.array(values), 0, 1)
    return LimitOrders(np.array(depths, dtype=float), np.array(sizes, dtype=float), errors, v)
