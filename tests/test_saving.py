"""A file or folder is whole or not there; what was there before survives whatever interrupts the writing."""

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from sphereflow.errors import SphereflowError, writable_target
from sphereflow.saving import promote_folder, whole_file, writable_folder, write_bytes, write_into

WRITER = """
import sys, time
from pathlib import Path
from sphereflow.saving import whole_file
with whole_file(sys.argv[1]) as temporary:
    with open(temporary, "wb") as stream:
        stream.write(b"new" * 10000)
        stream.flush()
        print("half way", flush=True)
        time.sleep(600)
"""


def entries(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def test_a_process_killed_while_writing_leaves_the_old_file(tmp_path):
    target = tmp_path / "result.json"
    target.write_text("old")
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(target)], stdout=subprocess.PIPE, text=True)
    with writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "half way\n"
        writer.send_signal(signal.SIGKILL)
    assert writer.returncode == -signal.SIGKILL
    assert target.read_text() == "old"
    write_bytes(target, b"newer")
    assert target.read_text() == "newer"


def test_an_error_while_writing_leaves_the_old_file_and_nothing_else(tmp_path):
    target = tmp_path / "result.json"
    target.write_text("old")

    def write_and_fail():
        with whole_file(target) as temporary:
            temporary.write_text("half")
            raise RuntimeError("halfway")

    with pytest.raises(RuntimeError, match="halfway"):
        write_and_fail()
    assert entries(tmp_path) == ["result.json"]
    assert target.read_text() == "old"


def test_the_temporary_name_keeps_the_suffix(tmp_path):
    with whole_file(tmp_path / "film.mp4") as temporary:
        assert temporary.suffix == ".mp4"
        assert temporary.parent == tmp_path
    assert entries(tmp_path) == ["film.mp4"]


def test_rights_are_those_of_the_old_file_or_of_any_new_one(tmp_path):
    old, new, plain = tmp_path / "old", tmp_path / "new", tmp_path / "plain"
    old.touch()
    old.chmod(0o600)
    plain.touch()
    write_bytes(old, b"")
    write_bytes(new, b"")
    assert stat.S_IMODE(old.stat().st_mode) == 0o600
    assert new.stat().st_mode == plain.stat().st_mode


def test_a_link_is_followed(tmp_path):
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_bytes(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


def test_what_the_system_objects_to_is_one_sentence(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(SphereflowError, match=r"cannot write .*file/below: Not a directory\."):
        write_bytes(tmp_path / "file" / "below", b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_one_sentence(tmp_path):
    def fill():
        with whole_file(tmp_path / "result"), open("/dev/full", "w") as stream:
            stream.write("x")

    with pytest.raises(SphereflowError, match=r"cannot write .*result: No space left on device\."):
        fill()
    assert entries(tmp_path) == []


def test_a_finished_folder_replaces_an_older_one(tmp_path):
    for name in ("run", "run.partial"):
        (tmp_path / name / "deep").mkdir(parents=True)
        (tmp_path / name / "deep" / "data").write_text(name)
    promote_folder(tmp_path / "run.partial", tmp_path / "run")
    assert entries(tmp_path) == ["run"]
    assert (tmp_path / "run" / "deep" / "data").read_text() == "run.partial"


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("missing/x", "does not exist"),
        ("file/x", "is not a folder"),
        ("file", "exists already"),
        ("/dev/null", "neither a file nor a folder"),
        ("y" * 300, "File name too long"),
    ],
)
def test_a_target_that_cannot_be_written_is_refused_before_the_work(tmp_path, path, reason):
    (tmp_path / "file").touch()
    with pytest.raises(SphereflowError, match=reason):
        writable_target(tmp_path / path)
    assert entries(tmp_path) == ["file"]


def test_a_target_that_can_be_written_leaves_no_trace(tmp_path):
    (tmp_path / "file").touch()
    assert writable_target(tmp_path / "new") == tmp_path / "new"
    assert writable_target(tmp_path / "file", overwrite=True) == tmp_path / "file"
    assert writable_folder(tmp_path / "a" / "b") == tmp_path / "a" / "b"
    assert entries(tmp_path) == ["file"]


def test_a_folder_that_cannot_be_written_is_refused_before_the_work(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "index.html").mkdir()
    with pytest.raises(SphereflowError, match="file is not a folder"):
        writable_folder(tmp_path / "file" / "report")
    with pytest.raises(SphereflowError, match="there is a folder of that name"):
        writable_folder(tmp_path, ("index.html",))


def test_files_go_into_a_folder_that_is_made_for_them(tmp_path):
    write_into(tmp_path / "a" / "b", {"one": b"1", "two": b"2"})
    assert entries(tmp_path / "a" / "b") == ["one", "two"]
