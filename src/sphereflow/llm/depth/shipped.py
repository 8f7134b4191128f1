"""Measurements of real models, by position and by depth, that come with the package and need no torch."""

from __future__ import annotations

import functools

from sphereflow.llm.depth.betas import EffectiveBetas
from sphereflow.llm.depth.iterated import IteratedLayer
from sphereflow.llm.depth.limits import LayerLimits
from sphereflow.llm.position.influence import InfluenceProfile
from sphereflow.llm.position.keyvalue import KeyValueProfile
from sphereflow.llm.shipped_files import opened, shipped_names
from sphereflow.results import Result

Measured = KeyValueProfile | InfluenceProfile | IteratedLayer | EffectiveBetas | LayerLimits


def recorded_results() -> tuple[str, ...]:
    """The names of the measurements by position and by depth that come with the package."""
    return shipped_names("position", "depth")


@functools.cache
def recorded_result(name: str) -> Measured:
    """A measurement that comes with the package, such as "position/retrieval-smollm2" or "depth/betas-smollm2".

    It is what `retrieval_profile`, `influence_profile`, `effective_betas` or `iterate_layer` gave on the model of the
    name, on Python's help texts and lists of words; its arrays cannot be written to.
    """
    found = opened(name, recorded_results(), Result)
    assert isinstance(found, Measured), "a test opens them all"
    return found
