"""Measurements of real models, by position and by depth, that come with the package and need no torch."""

from __future__ import annotations

import functools
from pathlib import Path

from sphereflow.errors import SphereflowError, one_of
from sphereflow.llm.depth.betas import EffectiveBetas
from sphereflow.llm.depth.iterated import IteratedLayer
from sphereflow.llm.depth.limits import LayerLimits
from sphereflow.llm.position.influence import InfluenceProfile
from sphereflow.llm.position.keyvalue import KeyValueProfile
from sphereflow.reading import file_bytes, packed_arrays
from sphereflow.results import SUFFIX, read_result

Measured = KeyValueProfile | InfluenceProfile | IteratedLayer | EffectiveBetas | LayerLimits
_FOLDER = Path(__file__).parent.parent / "recordings"


def recorded_results() -> tuple[str, ...]:
    """The names of the measurements by position and by depth that come with the package."""
    found = (path.relative_to(_FOLDER).with_suffix("") for path in _FOLDER.glob(f"*/*{SUFFIX}"))
    return tuple(sorted(path.as_posix() for path in found))


@functools.cache
def recorded_result(name: str) -> Measured:
    """A measurement that comes with the package, such as "position/retrieval-smollm2" or "depth/betas-smollm2".

    It is what `retrieval_profile`, `influence_profile`, `effective_betas` or `iterate_layer` gave on the model of the
    name, on Python's help texts and lists of words; its arrays cannot be written to.
    """
    one_of("the measurement", name, recorded_results())
    path = _FOLDER / f"{name}{SUFFIX}"
    arrays = packed_arrays(file_bytes(path))
    for array in arrays.values():
        array.flags.writeable = False
    found = read_result(path, arrays)
    if not isinstance(found, Measured):
        raise SphereflowError(f"{path} holds {type(found).__name__}, not a measurement by position or depth.")
    return found
