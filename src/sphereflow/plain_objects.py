"""An object as plain data, so that a file can be read back without executing anything it contains.

An object is a tree of small records: the class by name, fields recursively, arrays by their path, the rest as JSON.
Classes of the library are rebuilt by name. Classes and functions of one's own are kept by module, name and the digest
of their code; they are looked for among what the program has imported already, and taken only if their code is what it
was.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import importlib
import inspect
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sphereflow.errors import SphereflowError
from sphereflow.fingerprints import Unidentified, fingerprint, library

# Libraries whose names mean the same in every release.
_STEADY = ("jax", "equinox", "sphereflow")


@dataclasses.dataclass(frozen=True)
class LostFunction:
    """A function that a file names and the program has not; whatever calls it is told which."""

    module: str
    name: str
    digest: str

    def __call__(self, *arguments: Any) -> Any:
        raise SphereflowError(f"'{self.name}' of {self.module} is not there: import or define it before loading.")

    def is_code_of(self, other: Any) -> bool:
        """Whether a function is the one that is missing."""
        return self == other or (not isinstance(other, LostFunction) and _digest(other) == self.digest)


class MissingCode(Exception):
    """The code of a class or function is not there, or is not what it was."""


@dataclasses.dataclass(frozen=True)
class Describer:
    """Turns objects into plain data and back; `what` names them in sentences ("a model").

    `names` are classes that are written by a short name. `usual` gives the value of fields that are not written down
    where they have it. With `keeps_lost_functions` a function that is not there is a `LostFunction` in what is rebuilt.
    """

    what: str
    names: Mapping[str, type] = dataclasses.field(default_factory=dict)
    usual: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    keeps_lost_functions: bool = False

    def describe(self, value: Any, path: str, arrays: dict[str, np.ndarray]) -> Any:
        """The description of a value; its arrays are added to `arrays`, by their path."""
        if hasattr(type(value), "saved_as"):
            return self.describe(value.saved_as(), path, arrays)
        if isinstance(value, enum.Enum):
            return {"member": value.name, "kind": self._reference(type(value), path)}
        if is_record(value):
            if any(type(value) is type(other) and value == other for other in self.usual.values()):
                return {"plain": None}
            kind = type(value)
            short = self.names.get(kind.__name__) is kind
            parts = {name: self.describe(part, f"{path}/{name}", arrays) for name, part in fields_of(value).items()}
            return {"kind": kind.__name__ if short else self._reference(kind, path), "fields": parts}
        for name, sequence in (("tuple", tuple), ("list", list)):
            if type(value) is sequence:
                return {name: [self.describe(item, f"{path}/{i}", arrays) for i, item in enumerate(value)]}
        if type(value) is dict and all(isinstance(key, str) for key in value):
            return {"dict": {key: self.describe(item, f"{path}/{key}", arrays) for key, item in value.items()}}
        if type(value) is dict:
            pairs = enumerate(value.items())
            return {"pairs": [[self.describe(part, f"{path}/{i}", arrays) for part in pair] for i, pair in pairs]}
        if value is None or isinstance(value, (bool, int, float, str)):
            return {"plain": value}
        if isinstance(value, (jax.Array, np.ndarray, np.generic)):
            name = path.strip("/").replace("/", ".")
            arrays[name] = np.asarray(value)
            return {"array" if isinstance(value, jax.Array) else "numpy": name}
        if isinstance(value, Path):
            return {"path": str(value)}
        if hasattr(value, "data_vars"):  # a dataset of xarray
            tables = {
                str(name): [list(map(str, v.dims)), self.describe(v.values, f"{path}/{name}", arrays), dict(v.attrs)]
                for name, v in value.variables.items()
            }
            return {"dataset": tables, "labels": list(map(str, value.coords)), "about": dict(value.attrs)}
        if callable(value):
            return {"function": self._reference(value, path)}
        raise SphereflowError(f"{self.what} that contains {type(value).__name__} at '{path}' cannot be saved.")

    def rebuild(self, description: Any, arrays: Mapping[str, np.ndarray], holder: type | None = None) -> Any:
        """The value described; MissingCode if it needs code that is not there."""
        try:
            for plain, build in (("plain", lambda value: value), ("array", lambda name: jnp.asarray(arrays[name]))):
                if plain in description:
                    return build(description[plain])
            if "numpy" in description:
                stored = arrays[description["numpy"]]
                return stored if stored.ndim else stored[()]
            if "tuple" in description:
                return tuple(self.rebuild(item, arrays) for item in description["tuple"])
            if "list" in description:
                return [self.rebuild(item, arrays) for item in description["list"]]
            if "dict" in description:
                return {str(key): self.rebuild(item, arrays) for key, item in description["dict"].items()}
            if "pairs" in description:
                return {self.rebuild(k, arrays): self.rebuild(v, arrays) for k, v in description["pairs"]}
            if "path" in description:
                return Path(description["path"])
            if "dataset" in description:
                return self._dataset(description, arrays)
            if "function" in description:
                return self._function(description["function"], holder)
            kind = description["kind"]
            kind = _found(kind) if isinstance(kind, dict) else self.names[kind]
            if "member" in description and isinstance(kind, type) and issubclass(kind, enum.Enum):
                return kind[description["member"]]
            parts = {name: self.rebuild(part, arrays, kind) for name, part in description["fields"].items()}
        except (KeyError, TypeError, AttributeError) as error:
            raise SphereflowError(f"the saved {self.noun} cannot be read: {error!r} is missing or unknown.") from None
        return self._filled(kind, parts)

    def _dataset(self, description: Any, arrays: Mapping[str, np.ndarray]) -> Any:
        import xarray as xr

        stored = description["dataset"].items()
        tables = {name: (dims, self.rebuild(part, arrays), about) for name, (dims, part, about) in stored}
        labels = {name: tables.pop(name) for name in description["labels"]}
        return xr.Dataset(tables, coords=labels, attrs=description["about"])

    def _function(self, reference: dict[str, str], holder: type | None) -> Any:
        try:
            return _found(reference, holder)
        except MissingCode:
            if not self.keeps_lost_functions:
                raise
            return LostFunction(*(str(reference[key]) for key in ("module", "name", "digest")))

    @property
    def noun(self) -> str:
        return self.what.split(" ", 1)[-1]

    def _filled(self, kind: Any, parts: dict[str, Any]) -> Any:
        """Fields are restored as they were, without running constructors, so that arrays come back bit for bit."""
        if isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields"):
            names = list(kind._fields)
        elif isinstance(kind, type) and dataclasses.is_dataclass(kind):
            names = [f.name for f in dataclasses.fields(kind)]
        else:
            raise SphereflowError(f"the saved {self.noun} cannot be read: {kind!r} is no part of one.")
        for name in names:
            if name in self.usual and parts.get(name) is None:
                parts[name] = self.usual[name]
            if name not in parts:
                raise SphereflowError(f"the saved {self.noun} cannot be read: {kind.__name__} lacks the field {name}.")
        if issubclass(kind, tuple):
            return tuple.__new__(kind, [parts[name] for name in names])
        made = object.__new__(kind)
        for name in names:
            object.__setattr__(made, name, parts[name])
        return made

    def _reference(self, code: Any, path: str) -> dict[str, str]:
        """Where a class or function lives, and the digest of its code."""
        try:
            module = str(getattr(code, "__module__", ""))
            name = getattr(code, "__qualname__", type(code).__qualname__)
            return {"module": module, "name": name, "digest": fingerprint(code, f"'{name}'")}
        except Unidentified as error:
            where = path.strip("/") or "itself"
            raise SphereflowError(f"{self.what} with '{where}' of one's own cannot be saved: {error}") from None


def is_record(value: Any) -> bool:
    """Whether a value is a tree of named fields: a dataclass, a module of equinox, a named tuple."""
    named = isinstance(value, tuple) and hasattr(value, "_fields")
    return named or (dataclasses.is_dataclass(value) and not isinstance(value, type))


def fields_of(value: Any) -> dict[str, Any]:
    """The fields of a dataclass, a module of equinox or a named tuple, by name."""
    fields = getattr(value, "_fields", None)
    names = [f.name for f in dataclasses.fields(value)] if fields is None else fields
    return {name: getattr(value, name) for name in names}


def _found(reference: dict[str, str], holder: type | None = None) -> Any:
    """The class or function of that name, if the program has it and its code is what it was.

    A function without a name of its own may be what the class that holds it takes by default.
    """
    module, name, digest = (str(reference[key]) for key in ("module", "name", "digest"))
    owner = library(module) or ""
    if owner.startswith("python "):
        raise MissingCode(f"'{name}' of {module} is no part of it")  # it might open files
    defaults = [] if holder is None else inspect.signature(holder.__init__).parameters.values()  # type: ignore[misc]
    candidates = [each.default for each in defaults if getattr(each.default, "__qualname__", None) == name]
    try:
        home = importlib.import_module(module) if module.startswith("sphereflow.") else sys.modules[module]
        candidates.append(functools.reduce(getattr, name.split("."), home))
    except (AttributeError, KeyError, ImportError):
        if not candidates:
            raise MissingCode(f"import or define '{name}' of {module} before loading it") from None
    for each in candidates:
        if owner.split(" ")[0] in _STEADY or _digest(each) == digest:
            return each
    raise MissingCode(f"the code of '{name}' of {module} is not what it was then")


def _digest(code: Any) -> str:
    try:
        return fingerprint(code, "it")
    except Unidentified:
        return "unknown"
