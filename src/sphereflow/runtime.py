"""How the numerical back end is set up, once, as soon as both the package and JAX are imported.

- float64 is on: inner products enter through exp(beta s), so a relative error eps in s costs beta * eps.
- matrix products never fall back to TF32 or bfloat16 in silence.
- compiled programs are kept on disk, at most a gigabyte: a second run of the same command does not compile again.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

_CACHE_VARIABLE = "SPHEREFLOW_CACHE"
MOST_CACHE_BYTES = 1.0 * 2**30
_TRIM_EVERY = 86400.0  # seconds
_PROGRAM_BYTES = 340.0 * 2**20
_size_after_forgetting = 0
_looked = 0.0  # when the size of the process was last looked at
_BETWEEN_LOOKS = 0.25  # seconds: reading it takes as long as a twentieth of a small run


class _BesideJax(MetaPathFinder):
    """Sets JAX up right after it is imported, whoever does it, so that importing the package need not wait for it."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "jax":
            return None
        # Whoever only asks whether JAX is there does not import it: the finder stays until the module has run.
        others = [finder for finder in sys.meta_path if finder is not self]
        specs = (finder.find_spec(fullname, path, target) for finder in others)
        spec = next((each for each in specs if each is not None), None)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def run_and_configure(module: ModuleType) -> None:
                run(module)
                if self in sys.meta_path:
                    sys.meta_path.remove(self)
                configure()

            spec.loader.exec_module = run_and_configure  # type: ignore[method-assign]
        return spec


def configure_with_jax() -> None:
    """`configure` now if JAX is there, else as soon as it is."""
    if "jax" in sys.modules:
        configure()
    elif not any(isinstance(finder, _BesideJax) for finder in sys.meta_path):
        sys.meta_path.insert(0, _BesideJax())


def configure() -> None:
    """Set precision and the compilation cache, each unless the user has set it."""
    import jax

    if "JAX_ENABLE_X64" not in os.environ:
        jax.config.update("jax_enable_x64", True)
    if getattr(jax.config, "jax_default_matmul_precision", None) is None:
        jax.config.update("jax_default_matmul_precision", "highest")
    chosen = getattr(jax.config, "jax_compilation_cache_dir", None)
    if chosen is None and (folder := cache_folder()) is not None:
        jax.config.update("jax_compilation_cache_dir", str(folder / "xla"))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
        trim_cache(folder / "xla")
        # A cache that cannot be used (no room, no right to write) costs time, and is nothing to bother anyone with.
        warnings.filterwarnings("ignore", message="Error (reading|writing) persistent compilation cache")


def trim_cache(folder: Path, most: float = MOST_CACHE_BYTES) -> None:
    """Keep compiled programs on disk below `most` bytes: looked at once a day, the longest unused go first.

    Down to three quarters, so that it is not done every day. A program that another process still wants is compiled
    again; nothing here may fail for want of rights or because files come and go.
    """
    mark = folder / "trimmed"
    try:
        if datetime.now(UTC).timestamp() - mark.stat().st_mtime < _TRIM_EVERY:
            return
    except OSError:
        if not folder.is_dir():
            return
    try:
        mark.touch()
        entries = []
        for entry in os.scandir(folder):
            if entry.is_file() and entry.name != mark.name:
                status = entry.stat()
                entries.append((max(status.st_atime, status.st_mtime), status.st_size, entry.path))
        total = float(sum(size for _, size, _ in entries))
        if total <= most:
            return
        for _, size, path in sorted(entries):
            if total <= 0.75 * most:
                return
            os.unlink(path)
            total -= size
    except OSError:
        return


def cache_folder() -> Path | None:
    """Where compiled programs are kept: $SPHEREFLOW_CACHE, else the user's cache folder, else nowhere.

    `SPHEREFLOW_CACHE=off` switches the cache off.
    """
    chosen = os.environ.get(_CACHE_VARIABLE)
    if chosen:
        return None if chosen.lower() == "off" else Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        root = Path(base) if base else Path.home() / ".cache"
    except RuntimeError:  # no home directory to be found
        return None
    return root / "sphereflow"


def forget_programs() -> None:
    """Make room if this process has grown by many compiled programs, each of which takes some 20 MB.

    All programs that JAX keeps are dropped: dropping only ours frees half of the memory, because what was traced on
    the way stays. A program that is needed again is read from the cache on disk or compiled anew; no result changes.
    """
    global _size_after_forgetting, _looked
    if time.monotonic() - _looked < _BETWEEN_LOOKS:  # nothing large was compiled in so short a time
        return
    _looked = time.monotonic()
    size = process_size()
    if not _size_after_forgetting:
        _size_after_forgetting = size
    elif size - _size_after_forgetting > _PROGRAM_BYTES:
        import jax

        jax.clear_caches()
        if hasattr(libc := ctypes.CDLL(None), "malloc_trim"):
            libc.malloc_trim(0)  # or the memory would stay with the process
        _size_after_forgetting = process_size()


def keep_programs() -> None:
    """Let this process keep all its programs: one that works through a list and ends gains nothing by dropping them."""
    global _PROGRAM_BYTES
    _PROGRAM_BYTES = float("inf")


def compile_lightly() -> None:
    """Spend less on compiling, before JAX begins: for a process of many programs that each run for milliseconds.

    A sixth of the time of the quick claims; rounding changes, as it does from one processor to another. Flags that the
    user has set stand.
    """
    os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=1")


def process_size() -> int:
    """Bytes of memory that this process occupies; 0 where the system does not say."""
    try:
        with open("/proc/self/statm") as fields:
            return int(fields.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def cores() -> list[int]:
    """The processor cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def confine(number: int, processes: int) -> None:
    """Keep this process to its share of the cores, as one of several; before JAX looks at them, or it is too late."""
    mine, share = cores(), max(len(cores()) // processes, 1)
    first = number * share % len(mine)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, mine[first : first + share])


def devices() -> list[str]:
    """The accelerators or processors that computations run on, in words."""
    import jax

    return [f"{device.platform}: {device.device_kind}" for device in jax.devices()]


@contextmanager
def main_left_out() -> Iterator[None]:
    """Processes started meanwhile do not run the user's script again: what they are to do comes by name or by value.

    A script without `if __name__ == "__main__":` would otherwise call, in each of them, what started them.
    """
    main = sys.modules["__main__"].__dict__
    place: dict[str, object] = {name: main[name] for name in ("__file__", "__spec__") if name in main}
    main.pop("__file__", None)
    main["__spec__"] = None
    try:
        yield
    finally:
        main.update(place)
