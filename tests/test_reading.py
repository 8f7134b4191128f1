"""Arrays from files: read as they were written, or refused for what they promise."""

import io
import os
import shutil
import threading
import zipfile

import numpy as np
import pytest

import sphereflow as sf
from sphereflow import reading
from sphereflow.errors import SphereflowError
from sphereflow.reading import distrusted, file_array, file_bytes, packed_arrays, plain_folder


def test_arrays_come_back_whatever_their_layout(tmp_path):
    table = np.arange(12.0).reshape(3, 4)
    for name, array in (("rows", table), ("columns", np.asfortranarray(table)), ("cut", table[:, ::2])):
        np.save(tmp_path / f"{name}.npy", array)
        np.testing.assert_array_equal(file_array(tmp_path / f"{name}.npy"), array)
    content = io.BytesIO()
    np.savez(content, rows=table, columns=np.asfortranarray(table), words=np.array(["one", "two"]))
    found = packed_arrays(content.getvalue())
    assert set(found) == {"rows", "columns", "words"}
    np.testing.assert_array_equal(found["columns"], table)
    assert found["words"].tolist() == ["one", "two"]


def test_an_array_with_something_behind_it_is_refused(tmp_path):
    np.save(tmp_path / "long.npy", np.arange(3.0))
    with open(tmp_path / "long.npy", "ab") as file:
        file.write(b"\0" * 8)
    with pytest.raises(ValueError, match="cut, or promises more"):
        file_array(tmp_path / "long.npy")


def test_the_promises_of_all_parts_count_together():
    """Two parts of 40 MB each in a few kilobytes: either alone would be let in."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as parts:
        for name in ("one.npy", "two.npy"):
            parts.writestr(name, bytes(40 * 10**6))
    with pytest.raises(ValueError, match="promises 80000000 bytes"):
        packed_arrays(content.getvalue())


def in_time(action):
    """What `action` raises; fails if it never ends, as one that opened a pipe would."""
    raised = []

    def act():
        try:
            action()
        except Exception as error:
            raised.append(error)

    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    thread.join(120)
    assert not thread.is_alive()
    return raised[0] if raised else None


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    return sf.simulate(n=5, d=3, beta=2.0, t1=0.3, saves=4).save(tmp_path_factory.mktemp("stored") / "run.zarr")


@pytest.fixture
def stored(original, tmp_path):
    return shutil.copytree(original, tmp_path / "run.zarr")


@pytest.mark.parametrize("place", ["zarr.json", "tokens/zarr.json", "t/c/0", "tokens/c/0/0/0", "extra"])
def test_a_pipe_in_a_folder_is_refused_and_not_opened(stored, place):
    (stored / place).unlink(missing_ok=True)
    os.mkfifo(stored / place)
    error = in_time(lambda: sf.load(stored))
    assert isinstance(error, SphereflowError)
    assert str(error) == f"cannot read {stored}: {place.split('/')[-1]} in it is not a file."


def test_devices_and_links_that_lead_out_of_a_folder_are_refused(stored, tmp_path):
    (tmp_path / "elsewhere").write_text("{}")
    for target in ("/dev/zero", tmp_path / "elsewhere", tmp_path, "/nowhere"):
        (stored / "more").symlink_to(target)
        with pytest.raises(SphereflowError, match="more is a link to something outside of it"):
            sf.load(stored)
        (stored / "more").unlink()
    (stored / "t" / "again").symlink_to(stored / "tokens" / "zarr.json")
    (stored / "t" / "around").symlink_to(stored)
    plain_folder(stored)
    (stored / "out").symlink_to(tmp_path / "elsewhere")
    plain_folder(stored, links_out=True)


def test_the_way_to_a_folder_may_be_a_link(stored, tmp_path):
    (tmp_path / "short").symlink_to(stored)
    assert len(sf.load(tmp_path / "short")) == 4


def test_a_folder_with_more_than_fits_in_memory_is_refused(stored):
    with open(stored / "zarr.json", "ab") as file:
        file.truncate(2**43)  # a hole: it takes no room on the disk
    with pytest.raises(SphereflowError, match=r"needs about 8.19e\+03 GiB of memory"):
        sf.load(stored)


def test_pipes_devices_and_folders_are_no_files(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path, why in ((tmp_path / "pipe", "not a file"), ("/dev/zero", "not a file"), (tmp_path, "a folder")):
        error = in_time(lambda path=path: file_bytes(path))
        assert str(error) == f"cannot read {path}: it is {why}."
    with distrusted("the dataset", "sweep"):  # a name that is no place
        pass
    with pytest.raises(SphereflowError, match="there is no file"):
        reading.regular_file(tmp_path / "missing")
