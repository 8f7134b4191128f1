"""`sphereflow retrieval` as a user meets it: files, numbers and one sentence for what cannot be served."""

import csv
import json

import pytest

from sphereflow.cli import app
from sphereflow.cli.exit_codes import exit_code

# Weight, temperature and slope of four heads whose profile has two wells.
DOUBLE_WELL = (
    (1.0, 0.2, 3.0),
    (-27.519314453632965, 0.2, 0.25),
    (-1.5515192155322617, 0.5, 0.25),
    (3.9262326774050965e-06, 3.0, 2.0),
)


@pytest.fixture
def here(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        code = exit_code(app, ["retrieval", *(str(argument) for argument in arguments)])
        streams = capsys.readouterr()
        return code, streams.out, streams.err

    return call


def test_numbers_of_the_default_case(here, tmp_path):
    code, output, _ = here("--out", "result")
    assert code == 0
    assert "U-shaped" in output
    assert "0.259276" in output
    assert "2.45749" in output
    summary = json.loads((tmp_path / "result" / "summary.json").read_text())
    assert summary["critical_time"] == pytest.approx(2.457489, rel=1e-6)
    assert summary["theorem_time"] == pytest.approx(2.236965, rel=1e-6)
    assert summary["turns"][0]["sigma0"] == pytest.approx(0.259276, abs=1e-6)
    with (tmp_path / "result" / "profile.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert float(rows[-1]["score"]) == pytest.approx(1.638251, rel=1e-6)
    assert (tmp_path / "result" / "profile.png").read_bytes()[:4] == b"\x89PNG"
    assert {path.name for path in (tmp_path / "result").iterdir()} == {"profile.csv", "summary.json", "profile.png"}


@pytest.mark.parametrize("suffix", ["json", "csv"])
def test_several_heads(here, tmp_path, suffix):
    rows = [list(head) for head in DOUBLE_WELL]
    text = (
        json.dumps(rows)
        if suffix == "json"
        else "weight,beta,slope\n" + "\n".join(",".join(map(repr, r)) for r in rows)
    )
    (tmp_path / f"heads.{suffix}").write_text(text)
    code, output, _ = here("--heads", f"heads.{suffix}", "--t", 1.5)
    assert code == 0
    assert "2 wells" in output
    assert "0.129789" in output
    assert "0.795336" in output


@pytest.mark.slow
def test_simulated_tokens(here, tmp_path):
    code, _, _ = here("--n", 24, "--repeats", 20, "--out", "result")
    assert code == 0
    with (tmp_path / "result" / "measured.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) >= 6
    assert all(float(row["soft_error"]) > 0 for row in rows)
    assert json.loads((tmp_path / "result" / "summary.json").read_text())["simulation"]["tokens"] == 24


def test_no_slope_no_recency(here):
    code, output, _ = here("--slope", -1)
    assert code == 0
    assert "decreasing" in output
    assert "no recency" in output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--beta", 0), "beta must be"),
        (("--beta", "nan"), "beta must be"),
        (("--t", -1), "t must be"),
        (("--vocab", 0), "vocab must be"),
        (("--n", 2), "--n must be"),
        (("--heads", "missing.csv"), "there is no file missing.csv"),
        (("--heads", "bad.csv"), "three numbers"),
        (("--heads", "empty.json"), "no heads"),
        (("--heads", "good.csv", "--n", 64), "one head"),
        (("--out", "bad.csv"), "not a folder"),
        (("--beta", "warm"), "--help"),
    ],
)
def test_one_sentence_and_exit_code_two(here, tmp_path, arguments, words):
    (tmp_path / "bad.csv").write_text("1,2\n3,x,4\n")
    (tmp_path / "good.csv").write_text("1,1,1\n")
    (tmp_path / "empty.json").write_text("[]")
    code, output, errors = here(*arguments)
    assert code == 2
    assert output == ""
    assert words in errors
    assert errors.count("\n") == 1
