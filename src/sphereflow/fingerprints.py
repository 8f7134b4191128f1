"""Whether a function or a class is the one it was: a digest of everything that decides what it returns.

Two functions have one digest only if their bytecode, names, constants, defaults and closures agree, and so does
whatever they reach: globals, helpers, the attributes and class of `self`, what a partial or a compiled function wraps.
Code of installed packages is known by its name and the package's version, that of sphereflow by its source files, and
arrays by their bytes. What cannot be identified for certain is refused, never guessed. Files, the
environment and the clock are not covered.
"""

from __future__ import annotations

import builtins
import copyreg
import dis
import functools
import hashlib
import importlib.util
import inspect
import random
import site
import sys
import sysconfig
import types
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from sphereflow.errors import SphereflowError

_ATOMS = (type(None), bool, float, complex, str, bytes, type(...), type(NotImplemented))
# Entries of a class that say where it was written or what Python keeps about it, not what it does.
_OUTWARD = (
    "__dict__",
    "__weakref__",
    "__doc__",
    "__module__",
    "__annotations__",
    "__abstractmethods__",
    "__firstlineno__",
    "__static_attributes__",
    "_abc_impl",
    "__annotate__",
    "__annotate_func__",
    "__annotations_cache__",
    "__conditional_annotations__",
)
# Objects of libraries that hold a function and, beside it, caches: what of them decides the values.
_WRAPPERS = {
    "PjitFunction": ("__wrapped__", "_jit_info.compiler_options_kvs"),  # jax.jit
    "_JitWrapper": ("__wrapped__",),  # equinox.filter_jit
    "_lru_cache_wrapper": ("__wrapped__",),
    "vectorize": ("pyfunc", "otypes", "signature", "excluded"),  # numpy.vectorize
    "cached_property": ("func", "attrname"),
    "Field": ("name", "default", "default_factory", "init", "kw_only"),  # of a dataclass
}
_BY_NAME_AT_RUN_TIME = ("eval", "exec", "compile", "globals", "__import__")
_DESCRIPTORS = (
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.ClassMethodDescriptorType,
)
_RANDOM = (np.random.Generator, np.random.RandomState, np.random.BitGenerator, random.Random)
_HEAP_TYPE = 1 << 9  # flag of classes that a program makes, rather than the interpreter
_MISSING = object()


class Unidentified(SphereflowError):
    """Something that no digest can stand for."""


def fingerprint(thing: Any, name: str) -> str:
    """The digest of a function or value; `name` is what an error calls it."""
    try:
        return _Reader().digest(thing, name).hex()
    except RecursionError:
        _unknown(f"{name}, which is nested too deeply,")
    raise AssertionError


@functools.lru_cache(maxsize=1)
def sources() -> str:
    """A digest of the package's own source files, which may change between two releases."""
    root, hashed = Path(__file__).parent, hashlib.sha256()
    for file in sorted(root.rglob("*.py")):
        hashed.update(f"{file.relative_to(root).as_posix()} {file.stat().st_size}\n".encode() + file.read_bytes())
    return hashed.hexdigest()[:12]


@functools.lru_cache(maxsize=1024)
def library(module: str) -> str | None:
    """Python, or the installed package, that a module belongs to, with its version; None for code of the user."""
    top = module.partition(".")[0]
    if top == "sphereflow":
        return f"sphereflow {sources()}"
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):  # such as __main__ of a session
        return None
    if spec is None:
        return None
    if spec.origin in ("built-in", "frozen"):
        return f"python {sys.version}"
    place = Path(spec.origin or next(iter(spec.submodule_search_locations or ()), "nowhere")).resolve()
    paths = sysconfig.get_paths()
    installed = {paths["purelib"], paths["platlib"], *site.getsitepackages(), site.getusersitepackages()}
    if any(place.is_relative_to(Path(folder).resolve()) for folder in installed):
        owners = sorted(set(_owners().get(top, ())))
        return " ".join(f"{owner} {metadata.version(owner)}" for owner in owners) or None
    if any(place.is_relative_to(Path(paths[kind]).resolve()) for kind in ("stdlib", "platstdlib")):
        return f"python {sys.version}"
    return None


@functools.lru_cache(maxsize=1)
def _owners() -> Any:
    return metadata.packages_distributions()


class _Reader:
    """Digests of objects from the digests of their parts; an object met inside itself counts by its place."""

    def __init__(self) -> None:
        # Objects are kept beside their digests, because the identity of one that is gone may be given to another.
        self._known: dict[int, tuple[Any, bytes]] = {}
        self._within: list[int] = []

    def digest(self, thing: Any, place: str) -> bytes:
        kind = type(thing)
        if kind in _ATOMS:
            return _hashed([kind.__name__, repr(thing)])
        if kind is int:
            return _hashed(["int", hex(thing)])
        if id(thing) in self._known:
            return self._known[id(thing)][1]
        if id(thing) in self._within:
            return _hashed(["within", str(self._within.index(id(thing)))])
        self._within.append(id(thing))
        result = _hashed(self._parts(thing, place))
        self._within.pop()
        self._known[id(thing)] = (thing, result)
        return result

    def _parts(self, thing: Any, place: str) -> Iterator[str | bytes]:
        kind = type(thing)
        yield f"{kind.__module__}.{kind.__qualname__}"
        if isinstance(thing, types.ModuleType):
            yield thing.__name__
            yield library(thing.__name__) or _unknown(f"the module '{thing.__name__}' as a whole, in {place},")
        elif kind in (tuple, list):
            yield from (self.digest(each, place) for each in thing)
        elif kind in (set, frozenset):
            yield from sorted(self.digest(each, place) for each in thing)
        elif kind is dict:
            yield from self._items(thing.items(), place)
        elif kind in (range, slice):
            yield from (self.digest(end, place) for end in (thing.start, thing.stop, thing.step))
        elif isinstance(thing, (PurePath, np.dtype)):
            yield str(thing)
        elif kind is np.ndarray or isinstance(thing, np.generic):
            yield from self._array(np.asarray(thing), place)
        elif _is_jax(thing):
            yield from self._jax_array(thing, place)
        elif kind is types.CodeType:
            yield from self._code(thing, place)
        elif isinstance(thing, _RANDOM):
            _unknown(f"the random generator in {place}, which goes on from call to call,")
        elif (known := _by_name(thing)) is not None:
            yield known
        elif kind is types.FunctionType:
            yield from self._function(thing)
        elif kind is types.MethodType:
            yield self.digest(thing.__func__, place)
            yield self.digest(thing.__self__, f"the object of {place}")
        elif kind is types.BuiltinMethodType:
            yield thing.__name__
            yield self.digest(thing.__self__, place)
        elif isinstance(thing, (staticmethod, classmethod)):
            yield self.digest(thing.__func__, place)
        elif isinstance(thing, property):
            yield from (self.digest(each, place) for each in (thing.fget, thing.fset, thing.fdel))
        elif isinstance(thing, _DESCRIPTORS):
            yield thing.__name__
            yield self.digest(thing.__objclass__, place)
        elif isinstance(thing, type):
            yield from self._class(thing)
        elif kind.__qualname__ in _WRAPPERS and library(kind.__module__):
            for path in _WRAPPERS[kind.__qualname__]:
                held = functools.reduce(lambda found, name: getattr(found, name, None), path.split("."), thing)
                yield self.digest(held, place)
        else:
            yield from self._object(thing, place)

    def _items(self, items: Iterable[tuple[Any, Any]], place: str) -> Iterator[bytes]:
        for key, value in items:
            yield self.digest(key, place)
            yield self.digest(value, f"'{key}' of {place}" if isinstance(key, str) else place)

    def _array(self, array: np.ndarray, place: str) -> Iterator[str | bytes]:
        yield f"{array.dtype.str} {array.dtype.name} {array.shape}"
        if array.dtype.fields is not None:
            yield from self._items(((name, array[name]) for name in array.dtype.names or ()), place)
        elif array.dtype.kind == "O":
            yield from (self.digest(each, place) for each in array.ravel().tolist())
        else:
            yield np.ascontiguousarray(array).tobytes()

    def _jax_array(self, array: Any, place: str) -> Iterator[str | bytes]:
        import jax

        if isinstance(array, jax.core.Tracer):
            _unknown(f"the JAX tracer in {place}")
        if jax.numpy.issubdtype(array.dtype, jax.dtypes.prng_key):
            yield str(jax.random.key_impl(array))
            array = jax.random.key_data(array)
        yield str(array.weak_type)
        yield from self._array(np.asarray(array), place)

    def _code(self, code: types.CodeType, place: str) -> Iterator[str | bytes]:
        yield sys.implementation.cache_tag or sys.version
        yield code.co_code
        yield getattr(code, "co_exceptiontable", b"")
        counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
        names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
        yield from (self.digest(each, place) for each in (counts, names, code.co_consts))

    def _function(self, function: types.FunctionType) -> Iterator[str | bytes]:
        """What the function says, and what its names mean where it lives."""
        name = function.__qualname__
        owner = library(function.__globals__.get("__name__", ""))
        yield owner or ""
        yield self.digest(function.__code__, name)
        yield self.digest(function.__defaults__, f"the defaults of {name}")
        yield self.digest(function.__kwdefaults__, f"the defaults of {name}")
        yield from self._items(sorted(vars(function).items()), name)
        for variable, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            try:
                held = cell.cell_contents
            except ValueError:  # not set yet
                held = "empty"
            yield self.digest(held, f"'{variable}' of {name}")
        if owner is None:  # the globals of a library go with its version
            for code in _all_code(function.__code__):
                yield from self._globals(code, function)

    def _globals(self, code: types.CodeType, function: types.FunctionType) -> Iterator[str | bytes]:
        name, steps = function.__qualname__, list(dis.get_instructions(code))
        for i, step in enumerate(steps):
            if step.opname == "IMPORT_NAME":
                level, names = int(steps[i - 2].argval or 0), steps[i - 1].argval
                package = function.__globals__.get("__package__") or ""
                yield from self._imported(importlib.util.resolve_name("." * level + step.argval, package), names, name)
            if step.opname not in ("LOAD_GLOBAL", "LOAD_NAME"):
                continue
            value = function.__globals__.get(step.argval, _MISSING)
            if value is _MISSING:
                if step.argval in _BY_NAME_AT_RUN_TIME:
                    _unknown(f"what {name} does by '{step.argval}'")
                yield f"{step.argval} {hasattr(builtins, step.argval)}"
                continue
            place, i = f"'{step.argval}' of {name}", i + 1
            # Of a module of the user only the parts that are named count.
            while isinstance(value, types.ModuleType) and library(value.__name__) is None:
                if steps[i].opname not in ("LOAD_ATTR", "LOAD_METHOD"):
                    break
                place = f"'{steps[i].argval}' of {value.__name__}"
                value, i = getattr(value, steps[i].argval, "missing"), i + 1
            if getattr(value, "__name__", None) in ("importlib", "import_module"):
                _unknown(f"what {name} does by 'importlib'")
            yield self.digest(value, place)

    def _imported(self, module: str, names: Any, name: str) -> Iterator[str | bytes]:
        owner = library(module)
        if owner is not None:
            yield f"{module} {owner}"
            return
        if not names or "*" in names:
            _unknown(f"the module '{module}', which {name} imports inside,")
        try:
            home = importlib.import_module(module)
        except Exception:
            _unknown(f"the module '{module}', which {name} imports inside,")
        for each in names:
            yield self.digest(getattr(home, each, "missing"), f"'{each}' of {module}")

    def _class(self, made: type) -> Iterator[str | bytes]:
        yield made.__qualname__
        if not made.__flags__ & _HEAP_TYPE:
            yield library(made.__module__) or _unknown(f"the class {made.__qualname__}")
            return
        yield self.digest(type(made), made.__qualname__)
        yield from (self.digest(base, made.__qualname__) for base in made.__bases__)
        yield from self._items(
            sorted((name, value) for name, value in vars(made).items() if name not in _OUTWARD), made.__qualname__
        )

    def _object(self, thing: Any, place: str) -> Iterator[str | bytes]:
        """An object is its class, its attributes and what it would tell pickle; objects that pickle refuses, such as
        open files and locks, have a state that Python does not show."""
        kind, what = type(thing), f"{place}, of type {type(thing).__qualname__},"
        try:
            reduced = thing.__reduce_ex__(4)
        except RecursionError:
            raise
        except Exception:
            _unknown(what)
        if isinstance(reduced, str) or inspect.isgenerator(thing):
            _unknown(what)
        yield self.digest(kind, place)
        held = {slot: getattr(thing, slot) for slot in copyreg._slotnames(kind) if hasattr(thing, slot)}  # type: ignore[attr-defined]
        yield from self._items(sorted({**held, **getattr(thing, "__dict__", {})}.items()), place)
        make, arguments, state, elements, entries = (*reduced, None, None, None)[:5]
        if state is not None and state is not getattr(thing, "__dict__", None):
            yield self.digest(state, place)
        yield self.digest(make, place)
        yield self.digest(arguments, place)
        yield self.digest(list(elements or ()), place)
        yield self.digest(list(entries or ()), place)


def _by_name(thing: Any) -> str | None:
    """The name of something that a library has under that very name, with the library's version."""
    try:
        module, name = thing.__module__, getattr(thing, "__qualname__", None) or thing.__name__
        owner = library(module) if isinstance(module, str) and isinstance(name, str) else None
        named = functools.reduce(getattr, name.split("."), sys.modules[module]) if owner else _MISSING
    except (AttributeError, KeyError):
        return None
    return f"{module} {name} {owner}" if named is thing else None


def _all_code(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _all_code(constant)


def _is_jax(thing: Any) -> bool:
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(thing, (jax.Array, jax.core.Tracer))


def _hashed(parts: Iterable[str | bytes]) -> bytes:
    """The digest of a list: lengths go in as well, so that no two lists run together."""
    hashed = hashlib.sha256()
    for part in parts:
        content = part.encode(errors="surrogatepass") if isinstance(part, str) else part
        hashed.update(f"{type(part).__name__} {len(content)} ".encode() + content)
    return hashed.digest()


def _unknown(what: str) -> Any:
    raise Unidentified(f"{what} cannot be identified, so that what is kept of it could not be known again.")
