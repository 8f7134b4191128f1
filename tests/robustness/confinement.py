"""A process that can write nowhere but in one folder, by order of the kernel (Landlock, Linux 5.13 and later).

Hostile command lines name files all over the machine, and who runs the tests may be allowed to overwrite them. So no
such line is ever run without this. Landlock holds for everybody, the superuser included, and for all children.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from pathlib import Path

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_PATH_BENEATH, _NO_NEW_PRIVILEGES = 1, 38
_WRITE_FILE, _TRUNCATE = 1 << 1, 1 << 14
# Removing and making of every kind; moving between folders since version 2, cutting since version 3.
_CHANGES = {1: sum(1 << bit for bit in range(4, 13)) | _WRITE_FILE, 2: 1 << 13, 3: _TRUNCATE}


def version() -> int:
    """Which Landlock the kernel has; 0 or less for none."""
    if sys.platform != "linux":
        return 0
    return ctypes.CDLL(None, use_errno=True).syscall(_CREATE_RULESET, None, 0, 1)


def confine_writing(*folders: Path) -> None:
    """From here on, this process and its children can write below these folders and to devices only.

    Call it before any thread is started. Raises if the kernel does not do it.
    """
    kernel = ctypes.CDLL(None, use_errno=True)
    known = version()
    if known < 3:
        raise OSError("this kernel cannot confine a process")
    changes = _CHANGES[1] | _CHANGES[2] | _CHANGES[3]
    attributes = struct.pack("Q", changes)
    ruleset = _checked(kernel.syscall(_CREATE_RULESET, attributes, len(attributes), 0))
    for place, allowed in [*((folder, changes) for folder in folders), (Path("/dev"), _WRITE_FILE | _TRUNCATE)]:
        handle = os.open(place, os.O_PATH)
        rule = struct.pack("<Qi", allowed, handle)
        _checked(kernel.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, rule, 0))
        os.close(handle)
    _checked(kernel.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
    _checked(kernel.syscall(_RESTRICT_SELF, ruleset, 0))
    os.close(ruleset)
    probe = Path(__file__).with_name(".escaped")
    try:
        probe.touch()
    except OSError:
        return
    probe.unlink()
    raise OSError("the process was confined, and still writes elsewhere")


def _checked(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def main() -> None:
    """Run the command line, confined: python confinement.py FOLDER ARGUMENT..."""
    confine_writing(Path(sys.argv[1]))
    from sphereflow.cli import main as command_line

    sys.argv[1:] = sys.argv[2:]
    command_line()


if __name__ == "__main__":
    main()
