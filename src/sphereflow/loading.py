"""`load`: whatever was saved, read back by what the file itself says it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sphereflow.errors import SphereflowError
from sphereflow.reading import file_bytes, packed_arrays, plain_data
from sphereflow.results import read_result


def load(path: str | Path) -> Any:
    """Read what `save` wrote: any result, a trajectory (large ones stay on disk), a sweep, or a schedule.

    ```python
    run = sf.simulate(n=16, d=3, beta=4.0, t1=5.0)
    assert sf.load(run.save("run.zarr")) == run
    ```
    """
    if Path(path).is_dir():
        return _folder(path)
    content = file_bytes(path)
    try:
        arrays = packed_arrays(content) if content.startswith(b"PK") else {}
        kind = _kind(arrays.get("about", arrays.get("head"))) if arrays else str(plain_data(content)["format"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, SphereflowError):  # it does not fit into memory
            raise
        kind = ""
    if kind.startswith("sphereflow result"):
        return read_result(path, arrays)
    if kind.startswith("sphereflow merge history"):
        from sphereflow.metastability.history import read_history

        return read_history(path)
    if kind.startswith("sphereflow schedule"):
        from sphereflow.transport.files import load as load_schedule

        return load_schedule(path)
    what = f"it is a file of the kind '{kind}', which is no result" if kind else "no result saved by sphereflow"
    raise SphereflowError(f"cannot read {path}: it is damaged, or {what}.")


def _folder(path: str | Path) -> Any:
    from sphereflow.evolution.storage import load as load_trajectory
    from sphereflow.sweeps import open_sweep
    from sphereflow.sweeps.store import is_sweep

    return open_sweep(path) if is_sweep(Path(path)) else load_trajectory(path)


def _kind(head: Any) -> str:
    """The format that a packed file names, in the words of results and schedules or in the bytes of checkpoints."""
    return str(plain_data(bytes(head) if head.dtype.kind == "u" else str(head))["format"])
