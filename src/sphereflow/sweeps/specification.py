r"""What to sweep, as a text file.

```toml
quantity = "clustering"          # what is measured: sphereflow sweep --quantities lists them
[axes]
beta = { from = 0.5, to = 9.0, count = 18 }      # or a list; scale = "log" for equal ratios
seed = { count = 8 }                             # 0, 1, ..., 7
[fixed]
n = 32
t1 = 30.0
[refine]                                         # optional: see `refine`
axes = ["beta", "n"]
variable = "close_pairs"
level = 0.5
```
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from sphereflow.errors import SphereflowError, one_of, real_number, whole_number
from sphereflow.reading import file_text
from sphereflow.sweeps.grid import Axis, Grid
from sphereflow.sweeps.refine import Refinement

_TABLES = ("quantity", "axes", "fixed", "refine", "title")
_SHIPPED = "sphereflow.sweeps.specifications"


@dataclass(frozen=True)
class Specification:
    """A quantity, the grid it is measured on, and the parameters that stay fixed."""

    quantity: str
    grid: Grid
    fixed: Mapping[str, Any] = field(default_factory=dict)
    refine: Refinement | None = None
    title: str = ""

    def __post_init__(self) -> None:
        for name in self.fixed:
            if name in self.grid.names:
                raise SphereflowError(f"'{name}' is both an axis and fixed.")

    def plain(self) -> dict[str, Any]:
        """As numbers and words, for the file that holds the result; other fixed values by their types alone."""
        return {
            "quantity": self.quantity,
            "axes": {axis.name: list(axis.values) for axis in self.grid.axes},
            "fixed": {
                name: value if is_plain(value) else {"type": type(value).__qualname__}
                for name, value in sorted(self.fixed.items())
            },
            "refine": None if self.refine is None else self.refine.plain(),
        }


def is_plain(value: Any) -> bool:
    """Whether a value can be written down as it is, and read back as the same."""
    return type(value) in (type(None), bool, int, str) or (type(value) is float and math.isfinite(value))


def difference(old: dict[str, Any], new: dict[str, Any]) -> str | None:
    """The first thing in which two records of sweeps differ, in words; None if they are the same."""
    for part in new | old:
        before, after = old.get(part), new.get(part)
        if json.dumps(before, sort_keys=False) == json.dumps(after, sort_keys=False):
            continue
        if part == "function" and isinstance(before, dict) and isinstance(after, dict) and list(before) == list(after):
            known = "its version" if "version" in after else "the function, or something that it uses,"
            return f"{known} is not the one that began it"
        if isinstance(before, dict) and isinstance(after, dict) and list(before) != list(after):
            return f"{part} were {', '.join(before) or 'none'} and are now {', '.join(after) or 'none'}"
        if isinstance(before, dict) and isinstance(after, dict):
            name = next(name for name in before if json.dumps(before[name]) != json.dumps(after[name]))
            return f"'{name}' was {_brief(before[name])} and is now {_brief(after[name])}"
        return f"{part} was {_brief(before)} and is now {_brief(after)}"
    return None


def shipped() -> dict[str, str]:
    """Names and titles of the specifications that come with the package."""
    files = sorted(resources.files(_SHIPPED).iterdir(), key=lambda file: file.name)
    return {
        file.name.removesuffix(".toml"): str(tomllib.loads(file.read_text()).get("title", ""))
        for file in files
        if file.name.endswith(".toml")
    }


def read_specification(source: str | Path) -> Specification:
    """Read a file, or a shipped specification by its name."""
    path = Path(source)
    if _exists(path):
        text = file_text(path)
    elif str(source) in shipped():
        text = (resources.files(_SHIPPED) / f"{source}.toml").read_text()
    else:
        raise SphereflowError(
            f"there is no file {source}, and no shipped sweep of that name; shipped are {', '.join(shipped())}."
        )
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SphereflowError(f"{source} is not a TOML file: {error}.") from None
    except (RecursionError, ValueError):  # nested too deeply, or a number with thousands of digits
        raise SphereflowError(f"{source} is not a TOML file that can be used.") from None
    return from_table(table, str(source))


def from_table(table: Mapping[str, Any], source: str) -> Specification:
    """Check a table read from a file and build the specification."""
    for name in table:
        if name not in _TABLES:
            raise SphereflowError(f"{source} has an unknown entry '{name}'; allowed are {', '.join(_TABLES)}.")
    if not isinstance(table.get("quantity"), str):
        raise SphereflowError(f'{source} must say what is measured, as in quantity = "clustering".')
    for name in ("axes", "fixed", "refine"):
        if not isinstance(table.get(name, {}), dict):
            raise SphereflowError(f"{source}: [{name}] must be a table of names and values.")
    grid = Grid(tuple(Axis(name, _values(name, given)) for name, given in table.get("axes", {}).items()))
    refine = None if "refine" not in table else Refinement.from_table(table["refine"], grid)
    return Specification(table["quantity"], grid, dict(table.get("fixed", {})), refine, str(table.get("title", "")))


def _values(name: str, given: Any) -> tuple[Any, ...]:
    if isinstance(given, list):
        return tuple(given)
    if not isinstance(given, dict):
        raise SphereflowError(f"the axis '{name}' must be a list, or {{ from, to, count }}; got {given!r}.")
    unknown = set(given) - {"from", "to", "count", "scale"}
    if unknown or "count" not in given:
        raise SphereflowError(
            f"the axis '{name}' takes from, to, count and scale; got {', '.join(given) or 'nothing'}."
        )
    count = whole_number(f"count of axis '{name}'", given["count"], most=10**6)
    if "from" not in given and "to" not in given:
        return tuple(range(count))
    scale = one_of(f"scale of axis '{name}'", given.get("scale", "linear"), ("linear", "log"))
    floor = {"above": 0.0} if scale == "log" else {}
    first = real_number(f"from of axis '{name}'", given.get("from"), **floor)
    last = real_number(f"to of axis '{name}'", given.get("to"), **floor)
    spaced = np.geomspace(first, last, count) if scale == "log" else np.linspace(first, last, count)
    return tuple(float(value) for value in spaced)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a name that is too long for any file
        return False


def _brief(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:50] + " ..."
