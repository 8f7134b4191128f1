"""`sphereflow measure` as a user meets it."""

import json
import subprocess
import sys

import pytest

from sphereflow.cli import app
from sphereflow.cli.exit_codes import exit_code
from sphereflow.errors import SphereflowError
from sphereflow.llm.measurement import heads as measuring
from sphereflow.llm.measurement import pictures

FILES = {
    "index.html",
    "heads.csv",
    "curves.csv",
    "measurement.nc",
    "summary.json",
    "curves.png",
    "maps.png",
    "sink.png",
    "regimes.png",
    "theory.png",
}


@pytest.fixture
def run(tmp_path, capsys):
    """The command within this process: (exit code, output, error stream, whether anything was written)."""

    def run(*arguments):
        code = exit_code(app, ["measure", *map(str, arguments), "--out", str(tmp_path / "out")])
        told = capsys.readouterr()
        return code, told.out, told.err, (tmp_path / "out").exists()

    return run


def test_a_small_model_is_measured(run, model_folder, text_file, tmp_path):
    code, said, trouble, _ = run(
        *(model_folder, "--text", text_file, "--window", "40", "--documents", "30", "--repeats", "2"),
        *("--sections", "initialisation"),
    )
    assert code == 0, trouble
    assert trouble == ""
    assert "the text is long enough for 10 windows of 40 tokens; 30 were asked for." in said
    assert "At N = 4 attention selects sets" in said
    assert {path.name for path in (tmp_path / "out").iterdir()} >= FILES
    told = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert told["protocol"]["documents"] == 10
    assert told["identity_error"] < 1e-5
    page = (tmp_path / "out" / "index.html").read_text()
    assert page.count("<img") == 6
    assert "Theory beside" in page
    assert list(told["sections"]) == ["initialisation"]
    for statement in told["sections"]["initialisation"]["statements"]:
        assert statement["theory"] in page
        assert f"- {statement['theory']}: {statement['verdict']}. {statement['measured']}" in said
    assert (tmp_path / "out" / "initialisation.png").read_bytes().startswith(b"\x89PNG")


def test_a_short_text(run, model_folder, text_file):
    code, _, said, written = run(model_folder, "--text", text_file)
    assert (code, written) == (2, False)
    assert said.count("\n") == 1
    assert "shorter than the window" in said


def test_a_section_that_does_not_exist(run, model_folder):
    code, _, said, written = run(model_folder, "--sections", "geometry,magic")
    assert (code, written) == (2, False)
    assert said.count("\n") == 1
    assert "--sections must be one of" in said


def test_a_model_without_a_tokenizer(run, tmp_path):
    from sphereflow.llm.model.tiny import tiny_model

    tiny_model("llama").save_pretrained(tmp_path / "model")
    code, _, said, written = run(tmp_path / "model")
    assert (code, written) == (2, False)
    assert said.splitlines()[-1].endswith("has no tokenizer: put its tokenizer.json beside the weights.")


def test_a_folder_that_is_no_model(run, tmp_path):
    code, _, said, written = run(tmp_path)
    assert (code, written) == (2, False)
    assert said == f"sphereflow: {tmp_path} is not a model of transformers: there is no config.json in it.\n"


def test_a_truncated_gguf_file(run, tmp_path):
    """The header and nothing of what it promises."""
    import struct

    path = tmp_path / "part.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 5, 7))
    code, _, said, written = run(path)
    assert (code, written) == (2, False)
    assert said.count("\n") == 1
    assert "truncated" in said


def test_two_texts(run, model_folder, text_file):
    code, _, said, _ = run(model_folder, "--text", text_file, "--corpus", "python-topics")
    assert code == 2
    assert "either --text or --corpus" in said


def test_ctrl_c_leaves_nothing(run, model_folder, text_file, monkeypatch):
    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(measuring.Measurement, "add", interrupted)
    code, _, said, written = run(model_folder, "--text", text_file, "--window", "40", "--sections", "none")
    assert (code, written) == (130, False)
    assert "nothing was left half written" in said


def test_a_picture_that_cannot_be_drawn_leaves_nothing(run, model_folder, text_file, monkeypatch):
    def broken(*args):
        raise SphereflowError("no picture today.")

    monkeypatch.setattr(pictures, "draw_curves", broken)
    code, _, _, written = run(
        model_folder, "--text", text_file, "--window", "40", "--documents", "1", "--sections", "none"
    )
    assert (code, written) == (2, False)


def test_a_refusal_needs_no_torch(tmp_path):
    """A process of its own: one sentence, exit code 2, and torch was not imported."""
    code = (
        "import sys, sphereflow.llm; from sphereflow.cli import app; from sphereflow.cli.exit_codes import exit_code;"
        "code = exit_code(app, ['measure', 'nothing.gguf']); sys.exit(99 if 'torch' in sys.modules else code)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "sphereflow: there is no file nothing.gguf.\n"
    assert not list(tmp_path.iterdir())
