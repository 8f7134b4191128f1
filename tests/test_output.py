"""Every command speaks to people, to scripts, or not at all, in the same way."""

import json

import pytest
import typer

from sphereflow import progress
from sphereflow.cli import app
from sphereflow.cli.exit_codes import exit_code
from sphereflow.cli.output import be, say, show, with_output_options


def every_command(command=None, name=()):
    command = typer.main.get_command(app) if command is None else command
    if not hasattr(command, "commands"):
        return [(" ".join(name), command)]
    return [found for word, each in command.commands.items() for found in every_command(each, (*name, word))]


@pytest.fixture
def call(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def run(line):
        code = exit_code(app, line.split())
        streams = capsys.readouterr()
        return code, streams.out, streams.err

    return run


@pytest.mark.parametrize(("name", "command"), every_command())
def test_every_command_has_the_same_manners_and_an_example_that_parses(name, command):
    flags = {flag for parameter in command.params for flag in parameter.opts}
    assert {"--json", "--quiet", "--verbose"} <= flags
    (example,) = [line.strip() for line in command.help.splitlines() if line.strip().startswith("Example: ")]
    words = example.removeprefix("Example: ").split(" > ")[0].split()
    assert words[: 1 + len(name.split())] == ["sphereflow", *name.split()]
    command.make_context(name, words[1 + len(name.split()) :])


@pytest.mark.parametrize(
    ("line", "key", "value"),
    [
        ("simulate --n 8 --t1 1 --saves 3 --tol 1e-4", "status", "The final time was reached."),
        ("staircase --n 3", "complete", True),
        ("retrieval", "shape", "U-shaped"),
        ("landscape --beta 2 --neurons 1", "place", "circle"),
        ("sweep --list", "sweeps", None),
        ("info", "precision", "float64"),
    ],
)
def test_json_is_one_object_that_says_what_the_text_says(call, line, key, value):
    code, text, errors = call(line)
    assert code == 0
    assert text
    assert not errors
    code, output, errors = call(f"{line} --json")
    assert (code, errors) == (0, "")
    told = json.loads(output, parse_constant=pytest.fail)
    assert told[key] == value if value is not None else told[key]


def test_files_are_named_in_the_json(call, tmp_path):
    code, output, _ = call("simulate --n 8 --t1 1 --saves 3 --tol 1e-4 --out run.zarr --plot run.png --json")
    assert code == 0
    assert json.loads(output)["written"] == ["run.zarr", "run.png"]
    assert {path.name for path in tmp_path.iterdir()} == {"run.zarr", "run.png"}


def test_quiet_says_nothing_but_errors(call):
    assert call("staircase --n 3 --quiet") == (0, "", "")
    code, output, errors = call("staircase --n 1 --quiet")
    assert (code, output) == (2, "")
    assert errors.count("\n") == 1
    code, output, errors = call("info --quiet --json")
    assert (code, output) == (2, "")
    assert "--quiet does not go with" in errors


def test_verbose_adds_what_a_report_needs_and_leaves_the_output_alone(call):
    code, output, errors = call("info --json -v")
    assert code == 0
    json.loads(output)
    assert "processor time" in errors
    assert "jax" in errors
    code, _, errors = call("staircase --n 1 -v")
    assert code == 2
    assert "Traceback" in errors
    assert errors.strip().splitlines()[-1].startswith("sphereflow: ")
    assert "Traceback" not in call("staircase --n 1")[2]


def test_who_hears_what(capsys):
    """Text and tables for people, asides beside JSON on the error stream, and no bars while a command is quiet."""
    silent = []

    @with_output_options
    def command():
        say("plain")
        say("aside", aside=True)
        show("table")
        silent.append(progress.silent)

    heard = {}
    for manner in ("", "as_json", "quiet"):
        command(**{"as_json": False, "quiet": False, "verbose": False} | ({manner: True} if manner else {}))
        heard[manner] = tuple(capsys.readouterr())
    be()
    assert heard == {"": ("plain\naside\ntable\n", ""), "as_json": ("", "aside\n"), "quiet": ("", "")}
    assert silent == [False, False, True]
    assert not progress.silent
