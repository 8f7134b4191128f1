"""Writing that is whole or not at all: under a temporary name first, then renamed into place."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sphereflow.errors import SphereflowError


@contextmanager
def whole_file(path: str | Path) -> Iterator[Path]:
    """A temporary path in the same folder; what is written there replaces `path` if no error occurs."""
    target = Path(path)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.stem}.", suffix=target.suffix, dir=target.parent)
    except OSError as error:
        raise SphereflowError(f"cannot write {target}: {error.strerror or error}.") from None
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with open(temporary, "rb") as written:
            os.fsync(written.fileno())
        temporary.chmod(0o644)
        os.replace(temporary, target)
    except OSError as error:
        raise SphereflowError(f"cannot write {target}: {error.strerror or error}.") from None
    finally:
        temporary.unlink(missing_ok=True)


def write_bytes(path: str | Path, content: bytes) -> None:
    """Replace the file at `path` by `content`."""
    with whole_file(path) as temporary:
        temporary.write_bytes(content)


def promote_folder(finished: Path, target: Path) -> None:
    """Give a finished folder its final name; an older folder of that name is removed only afterwards."""
    retired = target.with_name(f".{target.name}.retired")
    try:
        if target.exists():
            os.replace(target, retired)
        os.replace(finished, target)
    except OSError as error:
        raise SphereflowError(f"cannot write {target}: {error.strerror or error}.") from None
    shutil.rmtree(retired, ignore_errors=True)
