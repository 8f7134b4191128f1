"""Shapes are checked at run time in tests; property tests are repeatable."""

from hypothesis import settings
from jaxtyping import install_import_hook

install_import_hook("sphereflow", "typechecking.check")

settings.register_profile("repeatable", deadline=None, derandomize=True, max_examples=15)
settings.load_profile("repeatable")
