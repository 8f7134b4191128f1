"""Everything that is read back from disk, after the disk or an enemy had its way with it: read, or one sentence."""

import io
import json
import os
import random
import re
import resource
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from playground import array_header
from stored_things import THINGS, damage, files_of, twist

import sphereflow as sf
from sphereflow.reading import file_bytes, packed_arrays
from sphereflow.transport.euclidean.named_laws import read_points

SOURCE = Path(sf.__file__).parent


@pytest.fixture(scope="module", params=list(THINGS))
def original(request, tmp_path_factory):
    thing = THINGS[request.param]
    folder = tmp_path_factory.mktemp("thing") / "original"
    folder.mkdir()
    path = folder / f"thing{thing.suffix}"
    thing.make(path)
    return thing, path, thing.read(path)


def fresh(path):
    copy = path.parent.with_name("copy")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(path.parent, copy)
    return copy / path.name


def read_or_refuse(thing, path):
    """What is read, or None for a refusal in one sentence; any other error fails the test."""
    try:
        return thing.read(path)
    except sf.SphereflowError as error:
        sentence = str(error)
    assert "\n" not in sentence
    assert sentence.endswith((".", "?"))
    return None


@settings(max_examples=10)
@given(number=st.integers(0, 10**9))
def test_a_damaged_file_is_read_or_refused_in_one_sentence(original, number):
    thing, path, value = original
    copy = fresh(path)
    told = damage(copy, random.Random(number))
    found = read_or_refuse(thing, copy)
    if thing.checked and found is not None:
        np.testing.assert_array_equal(found, value, err_msg=told)


@settings(max_examples=10)
@given(number=st.integers(0, 10**9))
def test_data_of_the_wrong_kind_is_read_or_refused_in_one_sentence(original, number):
    thing, path, _ = original
    copy = fresh(path)
    texts = [file for file in files_of(copy) if file.suffix == ".json"]
    if texts:
        dice = random.Random(number)
        file = dice.choice(texts)
        twisted = twist(json.loads(file.read_text()), dice)
        file.write_text(json.dumps(twisted))
        read_or_refuse(thing, copy)


@pytest.mark.parametrize("size", [10**10, 10**15])
@pytest.mark.parametrize("part", ["shape", "chunks"])
@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("trajectory", "tokens"),
        ("trajectory", "t"),
        ("trajectory", "checksum"),
        ("sweep", "slope"),
        ("continued sweep", "worst_score"),
    ],
)
def test_folders_that_promise_petabytes_are_refused_and_cost_nothing(tmp_path, name, array, part, size):
    path = tmp_path / "thing.zarr"
    THINGS[name].make(path)
    meta = json.loads((path / array / "zarr.json").read_text())
    meta["shape"][-1] = size
    if part == "chunks":
        meta["chunk_grid"]["configuration"]["chunk_shape"][-1] = size
    (path / array / "zarr.json").write_text(json.dumps(meta))
    before = peak()
    assert read_or_refuse(THINGS[name], path) is None
    assert peak() - before < 2**28


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@pytest.mark.parametrize(
    "name", [name for name, thing in THINGS.items() if thing.suffix in (".json", ".toml", ".zarr")]
)
def test_files_nested_a_hundred_thousand_deep_are_refused(tmp_path, name):
    thing, deep = THINGS[name], "[" * 100_000 + "]" * 100_000
    path = tmp_path / f"thing{thing.suffix}"
    if thing.suffix == ".zarr":
        path.mkdir()
        (path / "zarr.json").write_text(deep)
    else:
        path.write_text(f"a = {deep}" if thing.suffix == ".toml" else deep)
    assert read_or_refuse(thing, path) is None


def packed(members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as parts:
        for name, blocks in members.items():
            with parts.open(name, "w", force_zip64=True) as stream:
                for block in blocks:
                    stream.write(block)
    return buffer.getvalue()


@pytest.mark.slow
def test_a_zip_bomb_is_refused_before_it_unfolds(tmp_path):
    """Half a gigabyte of zeros, honestly declared, in half a megabyte."""
    blocks = [array_header((2**26,)), *[bytes(2**24)] * 32]
    content = packed({"w.npy": blocks})
    assert len(content) < 2**20
    (tmp_path / "bomb.npz").write_bytes(content)
    before = peak()
    with pytest.raises(sf.SphereflowError, match="damaged, or no result"):
        sf.load(tmp_path / "bomb.npz")
    assert peak() - before < 2**27


def test_names_that_point_elsewhere_stay_names(tmp_path):
    inside = packed({"../../outside.npy": [array_header((1,)), bytes(8)]})
    assert list(packed_arrays(inside)) == ["../../outside"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("shape", [(10**15,), (10**10,), (2**62, 4), (-5,)])
def test_arrays_that_promise_more_than_they_hold_are_refused(tmp_path, shape):
    (tmp_path / "a.npy").write_bytes(array_header(shape) + bytes(64))
    with pytest.raises(sf.SphereflowError, match="cannot read"):
        read_points(tmp_path / "a.npy")


def test_objects_are_never_unpickled(tmp_path):
    class Trap:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "sprung"),)

    np.save(tmp_path / "a.npy", np.array([Trap()], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "a.npz", head=np.array([Trap()], dtype=object))
    with pytest.raises(sf.SphereflowError):
        read_points(tmp_path / "a.npy")
    with pytest.raises(sf.SphereflowError):
        sf.load(tmp_path / "a.npz")
    assert not (tmp_path / "sprung").exists()


def test_what_is_not_a_file_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.json")
    for place in (tmp_path / "pipe.json", tmp_path, Path("/dev/zero")):
        with pytest.raises(sf.SphereflowError, match="cannot read"):
            file_bytes(place)


def test_a_chunk_that_is_a_link_to_elsewhere_is_not_opened(tmp_path):
    path = tmp_path / "run.zarr"
    THINGS["trajectory"].make(path)
    chunk = next(file for file in sorted((path / "tokens").rglob("*")) if file.is_file() and file.name != "zarr.json")
    (tmp_path / "secret").write_text("secret")
    chunk.unlink()
    chunk.symlink_to(tmp_path / "secret")
    with pytest.raises(sf.SphereflowError, match="is a link to something outside of it") as caught:
        sf.load(path)
    assert "secret" not in str(caught.value)


DANGEROUS = (
    r"\bimport pickle|\bpickle\.\w|\bdill\b|\bjoblib\b|\bmarshal\.|\bshelve\b",
    r"allow_pickle\s*=\s*True",
    r"(?<![\w.])eval\(|(?<![\w.])exec\(|\bos\.system\(|shell\s*=\s*True",
    r"\byaml\.(?:unsafe_)?load\(",
    r"torch\.load\((?![^)]*weights_only\s*=\s*True)",
    r"np\.load\((?![^)]*allow_pickle\s*=\s*False)",
    r"trust_remote_code\s*=\s*True",
)


def test_nothing_that_executes_what_it_reads_is_in_the_package():
    found = [
        f"{file.relative_to(SOURCE)}: {match.group()}"
        for file in sorted(SOURCE.rglob("*.py"))
        for pattern in DANGEROUS
        for match in re.finditer(pattern, file.read_text(encoding="utf-8"))
    ]
    assert found == ["figures/exhibits/exhibit.py: exec("]  # runs lines that stand in the package, and are shown beside
