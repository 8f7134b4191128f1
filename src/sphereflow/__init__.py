"""sphereflow: Transformers seen as interacting particle systems."""

from sphereflow import runtime as _runtime

_runtime.configure()
