"""The report as a small site in one folder: an index, a page per paper, the pictures; it opens from the disk."""

from __future__ import annotations

import inspect
import math
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from sphereflow.claims import VERDICTS, Claim
from sphereflow.claims.basis import KINDS
from sphereflow.provenance import HOME
from sphereflow.report.formula import formula, prose, typeset_number
from sphereflow.report.results import PAGE, ClaimResult, PaperResult, PictureResult, Report, tally
from sphereflow.report.rows import ShownRow, miss, number, rows_of, severity, worst

FIGURES = "figures"

# So many rows of a claim are in sight; the others open on a click, up to a number that a browser likes.
_IN_SIGHT = 6
_ON_PAGE = 500

# A figure wider than this many inches takes the whole width of the page.
_WIDE = 6.9

_BADGES = {"holds": "✓", "obeyed": "≤", "refuted": "≠", "inconclusive": "?", "fails": "✗"}
_SUFFIX = {"image/svg+xml": "svg", "image/png": "png"}


def site(report: Report) -> dict[str, bytes]:
    """All files of the site by name; the same report always gives the same bytes."""
    environment = _environment()
    files = {PAGE: _rendered(environment, "index.html", report=report, kinds=_kinds(report))}
    for result in report.papers:
        files[f"{result.paper.slug}.html"] = _rendered(environment, "paper.html", report=report, result=result)
        for picture in result.pictures:
            if not picture.error:
                files[picture_file(result, picture)] = picture.content
    return files


def picture_file(result: PaperResult, picture: PictureResult) -> str:
    """Where the picture is, from the folder of the report."""
    return f"{FIGURES}/{result.paper.slug}-{picture.figure.id}.{_SUFFIX[picture.media_type]}"


def seconds(duration: float) -> str:
    """'0.04 s', '12.3 s', '4 min 05 s', '2 h 03 min'."""
    if duration < 60:
        return f"{duration:.2f} s" if duration < 1 else f"{duration:.1f} s"
    minutes, rest = divmod(round(duration), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def source_line(claim: Claim) -> str:
    """'papers/kde_modes/limit.py, line 44': where the function that checks a claim begins."""
    function = inspect.unwrap(claim.measure)
    code = getattr(function, "__code__", None)
    if code is None:
        return ""
    file = Path(code.co_filename)
    shown = file.relative_to(HOME).as_posix() if HOME in file.parents else file.name
    return f"{shown}, line {code.co_firstlineno}"


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("sphereflow.report", "template"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "formula": formula,
        "prose": prose,
        "digits": typeset_number,
        "seconds": seconds,
        "used": _used,
        "value": _value,
        "source": source_line,
        "severity": severity,
    }
    style = resources.files("sphereflow.report").joinpath("template/style.css").read_text("utf-8")
    environment.globals |= {
        "style": Markup(style),
        "miss": miss,
        "tally": tally,
        "numbers": _numbers,
        "badges": _BADGES,
        "wide": _WIDE,
        "picture_file": picture_file,
        "index": PAGE,
    }
    return environment


def _rendered(environment: Environment, template: str, **given: Any) -> bytes:
    return environment.get_template(template).render(**given).encode()


def _kinds(report: Report) -> list[tuple[str, list[int]]]:
    """Each basis that occurs, with how many of its claims have each verdict."""
    counts = report.bases
    return [(kind, [counts[kind].get(verdict, 0) for verdict in VERDICTS]) for kind in KINDS if kind in counts]


def _numbers(result: ClaimResult) -> dict[str, Any]:
    """The rows of a claim, cut to what is in sight, what opens on a click, and what is only counted."""
    assert result.check is not None
    rows = rows_of(result.check)
    in_sight = _IN_SIGHT if len(rows) > _IN_SIGHT + 2 else len(rows)
    return {
        "rows": rows[:in_sight],
        "all": rows[:_ON_PAGE],
        "hidden": len(rows) - in_sight,
        "left_out": max(len(rows) - _ON_PAGE, 0),
        "count": len(rows),
        "worst": worst(rows),
        "rivals": result.check.rivals,
    }


def _used(row: ShownRow) -> str:
    """How much of the tolerance a deviation takes, in words."""
    if row.used == 0:
        return "none"
    if math.isinf(row.used):
        return "beyond"
    if row.used < 1e-3:
        return "< 0.1 %"
    return f"{100 * row.used:.2g} %" if row.used < 10 else f"{number(row.used, 2)} times"


def _value(value: Any) -> str:
    """A parameter as text: numbers short, lists without brackets of Python."""
    if isinstance(value, (list, tuple)):
        return ", ".join(_value(each) for each in value)
    if hasattr(value, "tolist"):
        return _value(value.tolist())
    return number(value, 6) if isinstance(value, float) else str(value)
