"""Pages of reference made from the code: the names of each area, and the commands with their options."""

from __future__ import annotations

import ast
import html
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .places import SOURCE

# Areas in the order in which they are shown; a module has all its public names, a package those that
# its __init__ re-exports.
AREAS: dict[str, str] = {
    "laboratory": "Simulate",
    "dynamics": "Dynamics",
    "solving": "Solving",
    "evolution": "Evolution",
    "figures": "Figures",
    "interaction": "Interaction",
    "observables": "Observables",
    "sphere": "Sphere",
    "kernels": "Kernels",
    "numerics": "Numerics",
    "meanfield": "Mean field",
    "metastability": "Metastability",
    "landscape": "Landscape",
    "modes": "Modes",
    "retrieval": "Retrieval",
    "random_transformers": "Random Transformers",
    "synchronisation": "Synchronisation",
    "transport": "Transport",
    "memory": "Memory",
    "drifting": "Drifting",
    "llm": "Language models",
    "normalisation": "Normalisation",
    "model_theories": "Theories beside a model",
    "sweeps": "Sweeps",
    "papers": "Papers",
    "claims": "Claims",
    "report": "Report",
    "pictures": "Pictures",
    "errors": "Errors",
}


def area_page(area: str) -> str:
    """A page that documents the public names of an area."""
    lines = [f"# {AREAS[area]}", "", f"`sphereflow.{area}`", "", _docstring(area), ""]
    for name in public_names(area):
        lines += [f"::: {home(area, name)}", ""]
    return "\n".join(lines)


def home(area: str, name: str) -> str:
    """The path by which a name is documented: that of the area, unless a module of the area has the same name."""
    if SOURCE.joinpath(*area.split("."), f"{name}.py").exists():
        return f"sphereflow.{area}.{name}.{name}"
    return f"sphereflow.{area}.{name}"


def public_names(area: str) -> list[str]:
    """`X as X` of a package's __init__, or the public definitions of a module, in the order of the file."""
    tree = _tree(area)
    exported = [
        alias.asname
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname == alias.name
    ]
    if exported:
        return exported
    return [
        node.name
        for node in tree.body
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_")
    ]


def top_level_page() -> str:
    """The names of `import sphereflow as sf`, with links to their areas."""
    import sphereflow

    lines = [
        "# `import sphereflow as sf`",
        "",
        "What a first run needs is at the top level; the areas are reached as `sf.meanfield`, `sf.memory` and so on.",
        "",
        "| name | what it is |",
        "| --- | --- |",
    ]
    for name, area in sphereflow._HOMES.items():
        about = (getattr(sphereflow, name).__doc__ or "").strip().split("\n")[0].replace("|", "\\|")
        lines.append(f"| [`sf.{name}`][{home(area, name)}] | {about} |")
    lines += ["", "## Areas", "", "| area | idea |", "| --- | --- |"]
    for area in sphereflow._AREAS:
        if area in AREAS:
            lines.append(f"| [`sf.{area}`]({area}.md) | {_docstring(area).splitlines()[0]} |")
    return "\n".join(lines) + "\n"


def _docstring(area: str) -> str:
    return ast.get_docstring(_tree(area)) or ""


def _tree(area: str) -> ast.Module:
    place = SOURCE.joinpath(*area.split("."))
    file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    return ast.parse(file.read_text("utf-8"))


# --- the command line ---------------------------------------------------------------------------------------------


def command_page() -> str:
    """Every command with its help, arguments and options, from the program itself."""
    from typer.main import get_command

    from sphereflow.cli import app

    lines = ["# Command line", "", *_paragraphs(get_command(app).help), ""]
    lines += [
        "Exit codes: 0 done; 1 a claim fails, or a run stopped before its end; 2 the request could not be served, with",
        "one sentence that says why; 130 after Ctrl-C.",
        "",
    ]
    for path, command in _commands(get_command(app), ("sphereflow",)):
        lines += [f"## {' '.join(path[1:])}", "", *_paragraphs(command.help), ""]
        lines += ["```text", _usage(path, command), "```", "", *_parameters(command), ""]
    return "\n".join(lines)


def _commands(group: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, command in group.commands.items():
        if getattr(command, "commands", None):
            yield from _commands(command, (*path, name))
        else:
            yield (*path, name), command


def _usage(path: tuple[str, ...], command: Any) -> str:
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    words = [_value_name(command, each) if each.required else f"[{_value_name(command, each)}]" for each in arguments]
    return " ".join([*path, *words, "[OPTIONS]"])


def _parameters(command: Any) -> list[str]:
    lines = ["| option | meaning | default |", "| --- | --- | --- |"]
    for each in command.params:
        if each.name == "help":
            continue
        if each.param_type_name == "argument":
            name = _code(_value_name(command, each))
        else:
            flags = ", ".join(_code(flag) for flag in [*each.opts, *each.secondary_opts])
            name = flags if each.is_flag else f"{flags} {_code(_value_name(command, each))}"
        lines.append(f"| {name} | {_cell(each.help)} | {_default(each)} |".replace("  ", " "))
    return lines if len(lines) > 2 else []


def _value_name(command: Any, parameter: Any) -> str:
    """What stands for the value: the placeholder of the option, or the kind of value from the annotation."""
    if parameter.metavar:
        return parameter.metavar
    annotated = typing.get_type_hints(command.callback)[parameter.name]
    for kind, word in ((int, "INTEGER"), (float, "NUMBER"), (str, "TEXT"), (Path, "PATH")):
        if annotated is kind or kind in typing.get_args(annotated):
            return word
    return parameter.name.upper()


def _default(parameter: Any) -> str:
    value = parameter.default
    if parameter.required or value is None or callable(value) or value is False or str(value).startswith("Sentinel"):
        return ""
    return _code(str(value)) if value is not True else "on"


def _code(text: str) -> str:
    """Code in a cell of a table, where a bar would end the cell."""
    return f"<code>{html.escape(text).replace('|', '&#124;')}</code>"


def _cell(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|")


def _paragraphs(text: str | None) -> list[str]:
    """The help of a command; an example in it is set as code."""
    told = (text or "").replace("\b", "").strip().split("\n\n")
    set_apart = [
        f"Example: `{' '.join(each.removeprefix('Example: ').split())}`" if each.startswith("Example: ") else each
        for each in told
    ]
    return "\n\n".join(set_apart).splitlines()
