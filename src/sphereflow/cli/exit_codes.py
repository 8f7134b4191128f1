"""How a command ends: with a result, or with one sentence on the error stream and an exit code.

0: done. 1: a claim failed, or a simulation stopped early. 2: the request could not be served. 130: Ctrl-C.
A mistake in the program itself shows its traceback, as in any Python program.
"""

from __future__ import annotations

import errno
import os
import sys
import traceback

import typer

from sphereflow.cli.output import be, manner
from sphereflow.errors import SphereflowError

INTERRUPTED = 130
_DISK_IS_FULL = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EIO)
_LONGEST = 900  # characters of a sentence: it may repeat what the user typed
# How the libraries underneath say that memory is at its end, or that an array could not even be addressed.
_BEYOND_MEMORY = ("RESOURCE_EXHAUSTED", "array is too big", "Maximum allowed dimension exceeded")
_NO_MEMORY = "there is not enough memory for this run; try a smaller n, fewer saves, or --out."


class Stopped(Exception):
    """Ctrl-C, with a sentence about what is left of the work."""


def exit_code(app: typer.Typer, arguments: list[str]) -> int:
    """Run the command line and say how it ended."""
    be()
    try:
        code = app(args=arguments, prog_name="sphereflow", standalone_mode=False)
        sys.stdout.flush()
    except SphereflowError as error:
        if manner.verbose:
            traceback.print_exc()
        return _say(str(error), 2)
    except Stopped as stop:
        return _say(str(stop), INTERRUPTED)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except BrokenPipeError:
        _forget_output()  # the reader left
        return 1
    except MemoryError:
        return _say(_NO_MEMORY, 2)
    except OSError as error:
        if error.filename is not None or error.errno not in _DISK_IS_FULL:
            raise
        _forget_output()
        return _say(f"cannot write the output: {error.strerror or error}.", 2)
    except Exception as error:
        if any(words in str(error) for words in _BEYOND_MEMORY):
            return _say(_NO_MEMORY, 2)
        if not hasattr(error, "format_message"):  # only the parser's complaints have it
            raise
        return _say(_complaint(error), 2)
    if code == INTERRUPTED:
        return _say("stopped by Ctrl-C; nothing was left half written.", INTERRUPTED)
    return code if isinstance(code, int) else 0


def _say(sentence: str, code: int) -> int:
    """Print the sentence on one line of bearable length, whatever characters the user's own words had."""
    text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in sentence)
    if len(text) > _LONGEST:
        text = f"{text[: 2 * _LONGEST // 3]} ... {text[-_LONGEST // 3 :]}"
    print(f"sphereflow: {text}", file=sys.stderr)
    return code


def _forget_output() -> None:
    """What Python still holds for the output must go nowhere when the process ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _complaint(error: Exception) -> str:
    """What the parser objects to, in one sentence that names the help."""
    message = " ".join(error.format_message().split()).rstrip(".")  # type: ignore[attr-defined]
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "sphereflow"
    return f"{message[:1].lower()}{message[1:]}; see {command} --help."
