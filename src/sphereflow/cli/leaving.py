"""How a command ends: with a result, or with one sentence on the error stream and an exit code.

0: done. 1: a claim failed, or a simulation stopped early. 2: the request could not be served. 130: Ctrl-C.
A mistake in the program itself shows its traceback, as in any Python program.
"""

from __future__ import annotations

import os
import sys

import typer

from sphereflow.errors import SphereflowError

INTERRUPTED = 130


class Stopped(Exception):
    """Ctrl-C, with a sentence about what is left of the work."""


def exit_code(app: typer.Typer, arguments: list[str]) -> int:
    """Run the command line and say how it ended."""
    try:
        code = app(args=arguments, prog_name="sphereflow", standalone_mode=False)
        sys.stdout.flush()
    except SphereflowError as error:
        return _say(str(error), 2)
    except Stopped as stop:
        return _say(str(stop), INTERRUPTED)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except BrokenPipeError:
        # The reader left; what Python still holds for it must go nowhere when the process ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except MemoryError:
        return _say("there is not enough memory for this run; try a smaller n, fewer saves, or --out.", 2)
    except Exception as error:
        if not hasattr(error, "format_message"):  # only the parser's complaints have it
            raise
        return _say(_complaint(error), 2)
    if code == INTERRUPTED:
        return _say("stopped by Ctrl-C; nothing was left half written.", INTERRUPTED)
    return code if isinstance(code, int) else 0


def _say(sentence: str, code: int) -> int:
    print(f"sphereflow: {sentence}", file=sys.stderr)
    return code


def _complaint(error: Exception) -> str:
    """What the parser objects to, in one sentence that names the help."""
    message = " ".join(error.format_message().split()).rstrip(".")  # type: ignore[attr-defined]
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "sphereflow"
    return f"{message[:1].lower()}{message[1:]}; see {command} --help."
