r"""Half the perceptron's potential with its derivatives, and bounds of them, in the peak convention.

$$\tfrac12v(x)=\sum_j\omega_j\psi(s_j),\qquad \psi'=\sigma,\ \psi''=\sigma',\qquad s_j=\langle a_j,x\rangle+b_j .$$

Along a great circle $s=A\cos(t-t_0)+b$, so third derivatives of one term are at most
$|\omega|(A^3\sup|\sigma''|+\tfrac32A^2\sup|\sigma'|+A\sup|\sigma|)$, apart from the kink of relu, where the second
derivative jumps by $|\omega|A^2$.
"""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from sphereflow.dynamics.activations import LEAK, activation, primitive, slope
from sphereflow.landscape.activation import Activation
from sphereflow.landscape.problem import Problem

# Arguments are evaluated in blocks of one size, so that each activation is compiled once.
_BLOCK = 4096


class Response(NamedTuple):
    r"""$\psi,\sigma,\sigma'$ at the arguments $s_j$ of every neuron, each of shape (n, J)."""

    primitive: Float[np.ndarray, "n J"]
    value: Float[np.ndarray, "n J"]
    slope: Float[np.ndarray, "n J"]


class Size(NamedTuple):
    """Suprema over the arguments a neuron can see: of sigma', of sigma'', and the jump of sigma' at its kink."""

    slope: float
    bend: float
    jump: float
    kinks: tuple[tuple[float, float], ...] = ()


# For gelu: sigma' = Phi + s f is largest at sqrt 2, sigma'' = (2 - s^2) f at 0. For tanh: |sigma''| <= 4/(3 sqrt 3).
SIZES: dict[str, Size] = {
    "relu": Size(1.0, 0.0, 1.0),
    "leaky_relu": Size(1.0, 0.0, 1.0 - LEAK),
    "linear": Size(1.0, 0.0, 0.0),
    "gelu": Size(1.1289043, 2 / math.sqrt(2 * math.pi), 0.0),
    "tanh": Size(1.0, 4 / (3 * math.sqrt(3)), 0.0),
    "softplus": Size(1.0, 0.25, 0.0),
}


@partial(jax.jit, static_argnums=0)
def _respond(name: str, s: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    return primitive(name, s) / 2, activation(name, s), slope(name, s)


def respond(name: str | Activation, s: Float[np.ndarray, "n J"]) -> Response:
    """The three functions of an activation at all arguments, in blocks of a fixed size."""
    if isinstance(name, Activation):
        return Response(*name.respond(s))
    flat = np.ravel(s)
    padded = np.zeros(max(1, -(-flat.size // _BLOCK)) * _BLOCK)
    padded[: flat.size] = flat
    blocks = [_respond(name, jnp.asarray(block)) for block in padded.reshape(-1, _BLOCK)]
    joined = [np.concatenate([np.asarray(block[i]) for block in blocks]) for i in range(3)]
    return Response(*(values[: flat.size].reshape(s.shape) for values in joined))


def size_of(problem: Problem) -> Size:
    """The suprema of the problem's activation over all arguments its neurons see, with (place, jump) of each kink."""
    if isinstance(problem.activation, Activation):
        reach = float(_reach(problem).max(initial=0.0))
        kinks = tuple(problem.activation.jumps(reach))
        largest = problem.activation.largest
        return Size(largest(reach, 2), largest(reach, 3), max((jump for _, jump in kinks), default=0.0), kinks)
    size = SIZES[problem.activation]
    return size._replace(kinks=((0.0, size.jump),) if size.jump else ())


def third_derivative_bound(problem: Problem) -> float:
    r"""A bound of $|\tfrac{d^3}{dt^3}\tfrac12v|$ along great circles, between kinks."""
    return float(np.abs(problem.outer) @ third_derivatives(problem))


def third_derivatives(problem: Problem) -> Float[np.ndarray, " J"]:
    """The same for each neuron of weight one."""
    size, length, reach = size_of(problem), np.linalg.norm(problem.inner, axis=1), _reach(problem)
    if isinstance(problem.activation, Activation):
        tallest = np.full(problem.neurons, problem.activation.largest(float(reach.max(initial=0.0)), 1))
    else:  # all of them are monotone, or largest at an end
        tallest = np.abs(respond(problem.activation, np.stack([reach, -reach]))[1]).max(axis=0, initial=0.0)
    return np.asarray(length**3 * size.bend + 1.5 * length**2 * size.slope + length * tallest)


def kink_jumps(
    problem: Problem, arguments: Float[np.ndarray, "n J"], radius: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    """How much the second derivative along a great circle can jump within this distance of each point."""
    jumps = np.zeros(len(arguments))
    length = np.linalg.norm(problem.inner, axis=1)
    for place, jump in size_of(problem).kinks:
        met = np.abs(arguments - place) <= length * radius[:, None]
        jumps += met @ (np.abs(problem.outer) * length**2 * jump)
    return jumps


def _reach(problem: Problem) -> Float[np.ndarray, " J"]:
    """The largest argument of each neuron."""
    return np.asarray(np.linalg.norm(problem.inner, axis=1) + np.abs(problem.bias))
