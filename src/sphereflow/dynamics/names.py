"""The two models that have a name: "sa" and "usa", also given as the objects SA(beta) and USA(beta)."""

from __future__ import annotations

from sphereflow import parameters
from sphereflow.dynamics.attention import Attention
from sphereflow.dynamics.base import Dynamics
from sphereflow.errors import SphereflowError
from sphereflow.kernels import EXPONENTIAL

_NAMES = {"softmax": "sa", "mean": "usa"}


def attention_name(model: str | Dynamics, beta: float | None = None) -> str:
    """ "sa" or "usa" for a model given by name or as an object, where formulas are known for these two only.

    An object must be plain (no matrices, mask, masses or other kernel) and have the given beta.
    """
    if isinstance(model, str) or not isinstance(model, Dynamics):
        return parameters.model_name(model)
    if not (isinstance(model, Attention) and _is_plain(model)):
        raise SphereflowError(
            "model must be a name, sa or usa, or plain SA(beta) or USA(beta): the formulas used here are without "
            f"matrices, mask, masses, raw kernel or another kernel, got {type(model).__name__}."
        )
    if beta is not None and float(model.beta) != beta:
        raise SphereflowError(f"beta must be that of the model, {float(model.beta):g}, got {beta!r}.")
    return _NAMES[model.normalise]


def _is_plain(model: Attention) -> bool:
    given = (model.query, model.key, model.value, model.mask, model.weights)
    peak = model.kernel_scale == "peak" or model.normalise == "softmax"  # a softmax does not see a factor of the kernel
    return peak and model.kernel == EXPONENTIAL and all(part is None for part in given)
