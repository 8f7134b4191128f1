"""Writing that is whole or not at all: under a temporary name first, flushed to the disk, then renamed into place.

A process that dies at any moment leaves the older file as it was. The temporary name starts with a dot and lies beside
the target, because only a rename within one file system is atomic.
"""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from sphereflow.errors import SphereflowError


@contextmanager
def whole_file(path: str | Path) -> Iterator[Path]:
    """A temporary path in the same folder; what is written there replaces `path` if no error occurs.

    The temporary name keeps the suffix, by which some writers choose their format. A link is followed: the file it
    points to is the one that is replaced.
    """
    target = Path(os.path.realpath(path))
    with writing_errors_in_words(path):
        handle, name = tempfile.mkstemp(prefix=f".{target.stem[:100]}.", suffix=target.suffix, dir=target.parent)
        os.close(handle)
    temporary = Path(name)
    try:
        with writing_errors_in_words(path):
            yield temporary
            temporary.chmod(_permissions(target))
            _flush(temporary)
            os.replace(temporary, target)
            _flush(target.parent)
    finally:
        temporary.unlink(missing_ok=True)


def write_bytes(path: str | Path, content: bytes) -> None:
    """Replace the file at `path` by `content`."""
    with whole_file(path) as temporary:
        temporary.write_bytes(content)


def promote_folder(finished: Path, target: Path) -> None:
    """Give a finished folder its final name; an older folder of that name is removed only afterwards.

    Two folders cannot be exchanged in one step everywhere, so an older one is first set aside as `.NAME.retired`. If
    the process dies between the two renames, both folders are still there, whole.
    """
    retired = target.with_name(f".{target.name}.retired")
    with writing_errors_in_words(target):
        for folder, _, names in os.walk(finished):
            for name in [*names, "."]:
                _flush(Path(folder) / name)
        if target.exists():
            if retired.exists():
                shutil.rmtree(retired)
            os.replace(target, retired)
        os.replace(finished, target)
        _flush(target.parent)
    shutil.rmtree(retired, ignore_errors=True)


def writable_folder(path: str | Path, names: tuple[str, ...] = ()) -> Path:
    """Check, before any work is done, that files with these names can be written into the folder `path`.

    The folder need not exist yet and is not made here: `write_into` does that once there is something to write.
    """
    folder = Path(path)
    with writing_errors_in_words(folder):
        existing = next(place for place in [folder, *folder.absolute().parents] if place.exists())
        if not existing.is_dir():
            raise SphereflowError(f"cannot write to the folder {folder}: {existing} is not a folder.")
        for name in names:
            if (folder / name).is_dir():
                raise SphereflowError(f"cannot write the file {folder / name}: there is a folder of that name.")
        os.rmdir(tempfile.mkdtemp(prefix=".probe.", dir=existing))
    return folder


def write_into(folder: str | Path, files: dict[str, bytes]) -> None:
    """Write several files into a folder, which is made if needed (as are folders within it that the names ask for);
    all of them get their names only at the end.

    If one cannot be written, none is replaced, and folders that were made for them are taken away again.
    """
    place = Path(folder)
    below = {parent for name in files for parent in (place / name).parents}
    new = [each for each in sorted(below, reverse=True) if not each.exists()]
    try:
        with writing_errors_in_words(folder):
            for each in (place, *reversed(new)):
                each.mkdir(parents=True, exist_ok=True)
        with ExitStack() as together:
            for name, content in files.items():
                temporary = together.enter_context(whole_file(place / name))
                with writing_errors_in_words(place / name):
                    temporary.write_bytes(content)
    except BaseException:
        for each in new:
            with suppress(OSError):  # not there yet, or no longer empty
                each.rmdir()
        raise


def csv_bytes(
    names: Iterable[str], rows: Iterable[Iterable[object]], head: Mapping[str, object] | None = None
) -> bytes:
    """A table as comma-separated text, below one line `# name: value` for each entry of `head`."""
    text = io.StringIO()
    text.writelines(f"# {name}: {json.dumps(value)}\n" for name, value in (head or {}).items())
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(rows)
    return text.getvalue().encode()


@contextmanager
def writing_errors_in_words(path: str | Path) -> Iterator[None]:
    """Turn what the operating system objects to (a full disk, a missing right) into one sentence."""
    try:
        yield
    except OSError as error:
        raise SphereflowError(f"cannot write {path}: {error.strerror or error}.") from None
    except subprocess.CalledProcessError as error:  # the program that packs movies
        raise SphereflowError(f"cannot write {path}: {Path(error.cmd[0]).name} failed; is the disk full?") from None


def _permissions(target: Path) -> int:
    """The rights of the file that is replaced, or those any new file would get."""
    if target.exists():
        return target.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def _flush(path: Path) -> None:
    """Ask the operating system to put a file, or the names in a folder, on the disk."""
    if os.name == "nt":  # folders cannot be opened there, and files only for writing
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
