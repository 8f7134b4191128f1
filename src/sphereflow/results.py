"""One habit for results: what every verb of every area returns.

A result is a frozen dataclass. It says what a person wants to know (`repr`, `summary`, a table and a picture in
notebooks), draws itself (`plot`), gives its arrays with named dimensions (`to_xarray`) and its numbers as JSON
(`record`), is kept on disk (`save`, `sphereflow.load`) and compared (`==`). Inside are the call that made it, the seed
and the versions of the software. A class declares only what is its own: `facts`, `variables`, and `plot` where the
plain picture of its variables is not the one that is wanted.
"""

from __future__ import annotations

import copy
import dataclasses
import enum
import functools
import html
import inspect
import io
import json
import math
import re
import textwrap
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, ParamSpec, TypeVar

import numpy as np

from sphereflow.errors import SphereflowError, ending_in, writable_target
from sphereflow.plain_objects import Describer, LostFunction, MissingCode, fields_of, is_record
from sphereflow.provenance import digest, versions
from sphereflow.reading import plain_data
from sphereflow.saving import write_bytes
from sphereflow.seeds import Record, recorded

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

SUFFIX = ".npz"
FORMAT = "sphereflow result, version 1"
_OBJECTS = Describer("a result", keeps_lost_functions=True)
_ABOUT = "about"  # the entry of a file that is no array of the result
_LISTED = 256  # entries of an array up to which `record` lists them
_DIGESTED = 2**22  # bytes up to which it tells an array by its digest
_PICTURED = 20_000  # numbers up to which a notebook shows the picture at once
_PANELS = 6
_COLUMNS = 100
# Arguments that say how a call is watched or where it is kept, not what it computes.
_ASIDE = ("self", "progress", "out", "keep", "checkpoint", "overwrite")

Variables = dict[str, tuple[str | tuple[str, ...], Any]]
P = ParamSpec("P")
R = TypeVar("R", bound="Result")


@dataclasses.dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Result:
    """What a verb returns.

    `parameters` holds the call as plain data: numbers as they are, arrays by shape and digest. `seed` is the seed as it
    was given, `versions` the software that computed it.
    """

    parameters: dict[str, Any] = dataclasses.field(default_factory=dict)
    seed: Record | None = None
    versions: dict[str, str] = dataclasses.field(default_factory=versions, compare=False)

    # Properties that are numbers or words and belong to the record beside the fields.
    derived: ClassVar[tuple[str, ...]] = ()

    def facts(self) -> list[str]:
        """What a person wants to know, the most important first, each a few words."""
        raise NotImplementedError

    def variables(self) -> Variables:
        """Arrays and observables: for each name its dimensions and values; one named like its dimension labels it."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {'; '.join(self.facts())}>"

    def summary(self) -> str:
        """A few lines for the terminal."""
        made = [f"sphereflow {self.versions.get('sphereflow', 'of an unknown version')}"]
        if self.seed is not None:
            made.insert(0, f"seed {self.seed}")
        lines = [line for fact in [*self.facts(), ", ".join(made)] for line in textwrap.wrap(fact, _COLUMNS)]
        return "\n".join(lines)

    def record(self) -> dict[str, Any]:
        """The numbers and what made them, as data for JSON; long arrays by their shape and digest."""
        numbers = {name: plain(value) for name, value in fields_of(self).items()}
        made = {name: numbers.pop(name) for name in ("parameters", "seed", "versions")}
        return {"result": type(self).__name__} | numbers | {n: plain(getattr(self, n)) for n in self.derived} | made

    def to_xarray(self) -> xr.Dataset:
        """The arrays and observables as an `xarray.Dataset`; numbers and words are its attributes."""
        import xarray as xr  # here, because importing it takes as long as a short run

        entries = {
            name: ((dims,) if isinstance(dims, str) else dims, np.asarray(values))
            for name, (dims, values) in self.variables().items()
        }
        labels = {name: entry for name, entry in entries.items() if entry[0] == (name,)}
        data = {name: entry for name, entry in entries.items() if name not in labels}
        numbers = {k: v for k, v in self.record().items() if v is not None and k not in entries}
        simple = (int, float, str)
        attributes = {k: v for k, v in self.parameters.items() if isinstance(v, simple)}
        attributes |= {k: v if isinstance(v, simple) else json.dumps(v) for k, v in numbers.items()}
        attributes = {k: int(v) if isinstance(v, bool) else v for k, v in attributes.items()}  # as netCDF wants them
        return xr.Dataset(data, coords=labels, attrs=attributes)

    def plot(self) -> Figure:
        """A picture: every variable against its first dimension."""
        from sphereflow.pictures import styled_figure

        shown = self.to_xarray()
        drawn = {n: v for n, v in shown.data_vars.items() if v.ndim and v.size and v.dtype.kind in "biufc"}
        names = [str(name) for name in drawn][:_PANELS]
        with styled_figure(6.4, max(1.6 * len(names), 2.4)) as figure:
            for axes, name in zip(np.ravel(figure.subplots(max(len(names), 1), 1)), names, strict=False):
                values = shown[name]
                across = shown.coords.get(str(values.dims[0]), np.arange(values.shape[0]))
                across = np.asarray(across)
                across = across if across.dtype.kind in "biuf" else np.arange(len(across))
                rows = np.real(values.values).reshape(len(across), -1)
                axes.plot(across, rows, "o-" if len(across) < 30 else "-", ms=3, lw=1)
                axes.set(xlabel=str(values.dims[0]), ylabel=name.replace("_", " "))
        return figure

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write everything to one .npz file, whole or not at all; `sphereflow.load` reads it back exactly."""
        target = writable_target(ending_in("the file of a result", path, (SUFFIX,)), overwrite=overwrite)
        arrays: dict[str, np.ndarray] = {}
        about = {"format": FORMAT, "content": _OBJECTS.describe(self, "content", arrays)}
        content = io.BytesIO()
        np.savez(content, **{_ABOUT: np.array(json.dumps(about))}, **arrays)  # type: ignore[arg-type]
        write_bytes(target, content.getvalue())
        return target

    def _repr_html_(self) -> str:
        facts = "".join(f"<li>{html.escape(fact)}</li>" for fact in self.facts())
        called = {name: value for name, value in self.parameters.items() if not isinstance(value, dict)}
        made = called | ({} if self.seed is None else {"seed": self.seed}) | self.versions
        rows = "".join(
            f"<tr><td>{html.escape(str(k))}</td><td>{html.escape(_brief(v))}</td></tr>" for k, v in made.items()
        )
        folded = f"<details><summary>made with</summary><table>{rows}</table></details>"
        ways = "".join(f"<li><code>{html.escape(way)}</code>: {html.escape(what)}</li>" for way, what in self._more())
        folded += f"<details><summary>more</summary><ul>{ways}</ul></details>"
        return f"<div><b>{type(self).__name__}</b><ul>{facts}</ul>{self._picture()}{folded}</div>"

    def _more(self) -> list[tuple[str, str]]:
        """What a reader of a notebook may ask next, and how."""
        names = textwrap.shorten(", ".join(self.variables()), _COLUMNS, placeholder=" ...")
        return [
            (".plot()", "the picture, a figure of matplotlib"),
            (".to_xarray()", f"the arrays with named dimensions: {names}"),
            (".record()", "the numbers as plain data, for JSON"),
            (".save(path)", "a file, which sf.load reads back"),
        ]

    def _picture(self) -> str:
        """The picture for a notebook, where it is small enough to be drawn at once."""
        if sum(math.prod(getattr(v, "shape", np.shape(v))) for _, v in self.variables().values()) > _PICTURED:
            return ""
        from sphereflow.pictures import compact

        kind, content = compact(self.plot())
        return f'<img style="max-width: 100%" src="data:{kind};base64,{b64encode(content).decode()}"/>'

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Result) and same(self, other)

    def __hash__(self) -> int:
        words = (value for value in fields_of(self).values() if isinstance(value, (bool, int, str)))
        return hash((type(self).__name__, *words))


def recorded_call(verb: Callable[P, R]) -> Callable[P, R]:
    """The verb, with its call and its seed written into the result."""
    signature = inspect.signature(verb)

    @functools.wraps(verb)
    def called(*args: P.args, **given: P.kwargs) -> R:
        result = copy.copy(verb(*args, **given))
        bound = signature.bind(*args, **given)
        bound.apply_defaults()
        arguments = dict(bound.arguments)
        for each in signature.parameters.values():
            if each.kind is each.VAR_KEYWORD:
                arguments |= arguments.pop(each.name, {})
        name = f"{verb.__module__.removeprefix('sphereflow.').split('.')[0]}.{verb.__qualname__}"
        call = {name: plain(value) for name, value in arguments.items() if name not in (*_ASIDE, "seed")}
        object.__setattr__(result, "parameters", {"call": name} | call)
        seed = arguments.get("seed")
        if seed is not None and not isinstance(seed, np.random.Generator):
            object.__setattr__(result, "seed", recorded(seed))
        return result

    return called


def read_result(path: str | Path, arrays: dict[str, np.ndarray]) -> Result:
    """The result that the arrays of a file hold, or one sentence about why there is none."""
    try:
        about = plain_data(str(arrays[_ABOUT]))
        known = re.fullmatch(r"sphereflow result, version (\d+)", about["format"])
        if known is None:
            raise ValueError(f"its format is {about['format']!r}")
        if about["format"] != FORMAT:
            raise SphereflowError(
                f"cannot read {path}: it was written by a newer sphereflow (version {known[1]} of the format, this "
                f"release knows version 1); update it."
            )
        result = _OBJECTS.rebuild(about["content"], arrays)
        if not isinstance(result, Result):
            raise ValueError(f"it holds {type(result).__name__}")
        return result
    except MissingCode as missing:
        raise SphereflowError(f"cannot read {path}: {missing}.") from None
    except SphereflowError as error:
        raise SphereflowError(str(error) if str(path) in str(error) else f"cannot read {path}: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise SphereflowError(
            f"cannot read {path}: it is damaged, or no result saved by sphereflow ({_brief(error)})."
        ) from None


def plain(value: Any) -> Any:
    """Data for JSON: short arrays as lists, long ones by shape and digest; None where a number is not finite."""
    if isinstance(value, Result):
        return value.record()
    if isinstance(value, enum.Enum):
        return value.value
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, (float, np.floating)):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, complex):
        return [plain(value.real), plain(value.imag)]
    if is_record(value):
        parts = {name: plain(part) for name, part in fields_of(value).items()}
        return parts if isinstance(value, tuple) else {"class": type(value).__name__} | parts
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if hasattr(value, "__array__"):
        return _plain_array(value)
    return getattr(value, "__qualname__", type(value).__qualname__)


def _plain_array(value: Any) -> Any:
    try:
        array = np.asarray(value)
    except TypeError:  # the words of a JAX key
        return [int(word) for word in recorded(value)]  # type: ignore[union-attr]
    if array.size <= _LISTED:
        return plain(array.tolist())
    summary = {"shape": list(array.shape), "dtype": str(array.dtype)}
    return summary | ({"digest": digest(array)} if array.nbytes <= _DIGESTED else {})


def same(first: Any, second: Any) -> bool:
    """Whether two values agree in every number; NaN agrees with NaN, and nothing is raised."""
    if first is second:
        return True
    for one, other in ((first, second), (second, first)):
        if isinstance(one, LostFunction):
            return one.is_code_of(other)
    if is_record(first):
        if type(first) is not type(second):
            return False
        skipped = () if isinstance(first, tuple) else [f.name for f in dataclasses.fields(first) if not f.compare]
        ours, theirs = fields_of(first), fields_of(second)
        return all(same(ours[name], theirs[name]) for name in ours if name not in skipped)
    if hasattr(first, "identical"):  # a dataset of xarray
        return bool(type(first) is type(second) and first.identical(second))
    if hasattr(first, "__array__") and hasattr(second, "__array__"):
        a, b = np.asarray(first), np.asarray(second)
        return a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind in "fc")
    if isinstance(first, (list, tuple)):
        alike = type(first) is type(second) and len(first) == len(second)
        return alike and all(same(a, b) for a, b in zip(first, second, strict=True))
    if isinstance(first, dict):
        return (
            isinstance(second, dict) and first.keys() == second.keys() and all(same(first[k], second[k]) for k in first)
        )
    if isinstance(first, float) and isinstance(second, float) and math.isnan(first):
        return math.isnan(second)
    try:
        return bool(first == second)
    except Exception:  # what is compared may be anything, and comparing never raises
        return False


def span(times: Any) -> str:
    """From where to where, as a fact."""
    return f"t = {times[0]:g} to {times[-1]:g}"


def _brief(value: object) -> str:
    return textwrap.shorten(str(value), _COLUMNS, placeholder=" ...")
