"""Arrays from files: read as they were written, or refused for what they promise."""

import io
import zipfile

import numpy as np
import pytest

from sphereflow.reading import file_array, packed_arrays


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
