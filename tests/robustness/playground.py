"""A folder full of traps: small valid inputs beside files that are empty, cut, huge on paper, deep or of no use."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

SPECIFICATION = 'quantity = "retrieval"\n[axes]\nslope = [0.5, 1.0]\nt = [0.5, 1.0]\n[fixed]\nbeta = 1.0\n'


def array_header(shape: tuple[int, ...], kind: str = "<f8") -> bytes:
    """The first bytes of a .npy file that promises this shape, and holds nothing."""
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
    padded = text + " " * (-(len(text) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + len(padded).to_bytes(2, "little") + padded.encode()


def lay_out(folder: Path, *, sweep: bool = True) -> None:
    """Fill the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "folder").mkdir()
    (folder / "folder.png").mkdir()
    (folder / "file").write_text("text\n")
    (folder / "loop").symlink_to("loop")
    rng = np.random.default_rng(0)
    points = rng.normal(size=(40, 2))
    np.save(folder / "points.npy", points)
    np.save(folder / "nan.npy", np.where(points > 1, np.nan, points))
    np.save(folder / "words.npy", np.array(["a", "b"]))
    np.save(folder / "objects.npy", np.array([{}, None], dtype=object), allow_pickle=True)
    np.save(folder / "flat.npy", np.zeros((10, 2)))
    (folder / "huge.npy").write_bytes(array_header((10**15,)))
    for name in ("empty.npy", "empty.json"):
        (folder / name).touch()
    (folder / "deep.json").write_text("[" * 100_000 + "]" * 100_000)
    (folder / "file.json").write_text('{"outer": 1')
    (folder / "list.json").write_text(json.dumps([[1, 2], [3]]))
    (folder / "latin.csv").write_bytes("1,2\n3,é\n".encode("latin-1"))
    (folder / "bad.toml").write_text("quantity = 3\naxes = 4\n")
    (folder / "huge.toml").write_text(
        'quantity = "retrieval"\n[axes]\n'
        + "".join(f"{name} = {{ from = 0.1, to = 1.0, count = 1000000 }}\n" for name in ("slope", "t", "beta"))
    )
    (folder / "spec.toml").write_text(SPECIFICATION)
    from sphereflow.transport import Schedule

    schedule = Schedule.from_arrays(
        {"dt": np.array([0.1]), "w": np.ones((1, 2)), "a": np.ones((1, 2)), "b": np.zeros(1)}, 2
    )
    schedule.save(folder / "schedule.json")
    schedule.save(folder / "schedule.npz")
    if sweep:
        from sphereflow.sweeps import read_specification, run_specification

        run_specification(read_specification(folder / "spec.toml"), out=folder / "sweep.zarr", progress=False)
