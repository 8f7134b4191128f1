r"""One verb for every sum over tokens.

$$\mathrm{average}_i = \frac{\sum_j w_j\,p_{ij}\,e^{\beta(\langle q_i,k_j\rangle-1)} v_j}
                            {\sum_j w_j\,p_{ij}\,e^{\beta(\langle q_i,k_j\rangle-1)}}, \qquad
  \log Z_i = \log\sum_j w_j\,p_{ij}\,e^{\beta(\langle q_i,k_j\rangle-1)}.$$
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from sphereflow.errors import one_of, real_number
from sphereflow.interaction.choice import METHODS, choose
from sphereflow.interaction.direct import Attended
from sphereflow.interaction.engines import DIRECT, Engine
from sphereflow.interaction.masks import Mask
from sphereflow.interaction.request import Request, checked
from sphereflow.kernels import EXPONENTIAL, Function, Kernel, as_kernel


def attend(
    queries: Float[Array, "m d"],
    keys: Float[Array, "n d"],
    values: Float[Array, "n p"],
    beta: Float[Array, ""] | float,
    *,
    weights: Float[Array, " n"] | None = None,
    mask: Mask | None = None,
    kernel: Kernel | Function = EXPONENTIAL,
    self_attention: bool = False,
    divide: bool = True,
    method: str | Engine = "auto",
    tol: float = 1e-9,
) -> Attended:
    r"""$\sum_j A_{ij} v_j$ with $A_{ij} \propto w_j\,p_{ij}\,e^{\beta\langle q_i,k_j\rangle}$, for every query.

    **Arguments:**

    - `queries`, `keys`, `values`: m queries, n keys with their values. Any vectors; unit vectors are the usual case.
    - `beta`: the inverse temperature, at least 0.
    - `weights`: mass $w_j \ge 0$ of each key, 1/n by default.
    - `mask`: positional weights $p_{ij}$, 1 by default.
    - `kernel`: another function k(s, beta) of the inner product than the exponential; then the average is divided by
      $|Z|$, and log Z is $\log|Z|$. Engines of linear time take it where its series converges to `tol`.
    - `self_attention`: a promise that makes the sum faster: the query at position i is the key at position i, all are
      unit vectors up to rounding, and $w_i > 0$. Each row then holds a term of size $w_i$ and no shift of the
      exponent is needed (unless the mask hides a token from itself, which is noticed). If `queries` and `keys` are
      the very same array and there is no mask, each pair is moreover computed once for both its rows.
    - `divide`: divide by |Z|. Without it the sums themselves come back in place of the average, which a kernel of both
      signs has even where its Z vanishes.
    - `method`: how the sum is done: an engine such as `Direct()` or `Fourier(60)`, or a name. "direct" sums every
      pair; "fourier" (circle), "harmonic" (S^2) and "polynomial" (few dimensions, small beta) take linear time; "auto"
      chooses the fastest that keeps the tolerance. Naming one of these three promises unit vectors; "auto" considers
      them in self-attention only, where that is promised already. Where beta is being traced, the number of modes
      cannot be chosen: give an engine.
    - `tol`: relative error of Z, and of the average relative to the largest value (or to itself, where a kernel of both
      signs makes it larger), for engines chosen by name. Sums that are not divided are accurate relative to |Z| times
      the largest value, or to themselves where that is larger.

    **Returns:** the average, and log Z. Rows that see nothing give a zero average and log Z = -inf; where weights of
    both signs sum to zero, the average is not finite.

    Time grows as m n in the direct method, memory as m + n. Both results can be differentiated in all arguments,
    forwards and backwards, and no m x n array appears there either.
    """
    arrays = checked(queries, keys, values, weights)
    request = Request(*arrays[:3], beta, arrays[3], mask, as_kernel(kernel), self_attention, divide)
    return _engine(request, method, tol).attend(request)


def _engine(request: Request, method: str | Engine, tol: float) -> Engine:
    if isinstance(method, Engine):
        return method
    one_of("method", method, METHODS)
    real_number("tol", tol, above=0)
    beta = None if isinstance(request.beta, jax.core.Tracer) else float(request.beta)
    if method == "direct" or (method == "auto" and (beta is None or not request.self_attention)):
        return DIRECT
    with jax.ensure_compile_time_eval():  # the request is known, even while a function around it is being traced
        return choose(
            request.queries.shape[0],
            request.keys.shape[0],
            request.keys.shape[1],
            beta,
            mask=request.mask,
            kernel=request.kernel,
            tol=tol,
            method=method,
            columns=request.values.shape[1] + 1,
            dtype=str(jnp.result_type(request.queries, request.keys, request.values)),
            self_attention=request.self_attention,
        ).engine
