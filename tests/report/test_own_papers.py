"""Papers of one's own: from a file, from a package that is installed, and refused where they are none."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from sphereflow.errors import SphereflowError
from sphereflow.report import reproduce


@pytest.fixture
def own_paper(tmp_path):
    """The template of a paper of one's own, as `sphereflow papers --new` writes it."""
    command = [sys.executable, "-m", "sphereflow", "papers", "--new", "my-paper"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    return tmp_path / "my_paper.py"


def test_a_paper_of_ones_own_is_reproduced_from_its_file(own_paper, tmp_path):
    report = reproduce(str(own_paper), out=tmp_path / "report", progress=False)
    assert [(each.claim.id, each.verdict) for each in report.claims] == [("two-tokens", "holds")]
    assert not report.papers[0].pictures[0].error
    assert (tmp_path / "report" / "my-paper.html").is_file()
    package = tmp_path / "a_package"
    package.mkdir()
    own_paper.rename(package / "__init__.py")
    assert reproduce(str(package), only="overlap", progress=False).papers[0].paper.slug == "my-paper"


@pytest.mark.slow
def test_a_figure_that_shows_no_claim_is_refused(own_paper):
    text = own_paper.read_text().replace("caption=", 'shows=("nothing",), caption=')
    own_paper.write_text(text)
    with pytest.raises(SphereflowError, match="shows no claim: nothing"):
        reproduce(str(own_paper))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [("", "does not define PAPER"), ("1/0", "cannot be loaded: ZeroDivisionError"), ("PAPER = 3", "does not define")],
)
def test_a_file_that_is_no_paper_is_refused_in_a_sentence(tmp_path, text, sentence):
    path = tmp_path / "strange.py"
    path.write_text(text)
    with pytest.raises(SphereflowError, match=sentence):
        reproduce(str(path))
    with pytest.raises(SphereflowError, match=r"there is no paper at .*absent\.py"):
        reproduce(str(tmp_path / "absent.py"))


def test_a_file_takes_no_other_modules_name_and_a_broken_one_leaves_nothing(tmp_path):
    paper = "from sphereflow.claims import Paper\nPAPER = Paper('n', 'N', ('A',), 2000, '', '')\n"
    (tmp_path / "numpy.py").write_text(paper)
    assert reproduce(str(tmp_path / "numpy.py"), progress=False).papers[0].paper.slug == "n"
    assert sys.modules["numpy"] is np
    for folder in ("first", "second"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "same_name.py").write_text(paper.replace("'n'", repr(folder)))
        assert reproduce(str(tmp_path / folder / "same_name.py"), progress=False).papers[0].paper.slug == folder
    (tmp_path / "half_written.py").write_text("1/0")
    with pytest.raises(SphereflowError, match="cannot be loaded"):
        reproduce(str(tmp_path / "half_written.py"))
    assert "half_written" not in sys.modules
    (tmp_path / "half_written.py").write_text(paper)
    assert reproduce(str(tmp_path / "half_written.py"), progress=False).papers[0].paper.slug == "n"
    (tmp_path / "notes.txt").write_text(paper)
    with pytest.raises(SphereflowError, match="a paper is a Python file"):
        reproduce(str(tmp_path / "notes.txt"))


@pytest.fixture
def command(own_paper, tmp_path):
    """The command line where a package with the paper is installed."""
    installed = tmp_path / "installed"
    record = installed / "their_package-1.0.dist-info"
    record.mkdir(parents=True)
    (record / "METADATA").write_text("Metadata-Version: 2.1\nName: their-package\nVersion: 1.0\n")
    (record / "entry_points.txt").write_text("[sphereflow.papers]\nmy-paper = my_paper:PAPER\n")
    own_paper.rename(installed / "my_paper.py")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(installed), *sys.path])}

    def run(*arguments):
        line = [sys.executable, "-m", "sphereflow", *arguments]
        return subprocess.run(line, env=environment, check=True, capture_output=True, text=True).stdout

    return run


def test_papers_of_installed_packages_are_found_by_entry_point(command):
    assert "my-paper" in command("papers")


@pytest.mark.slow
def test_papers_of_installed_packages_are_reproduced(command, tmp_path):
    assert "two-tokens" in command(
        "reproduce", "my-paper", "--only", "two-tokens", "--jobs", "1", "--out", str(tmp_path / "out")
    )
    kept = json.loads((tmp_path / "out" / "results.json").read_text())
    assert "my-paper" in str(kept["papers"])
