"""The report as one HTML page that needs nothing else: style, formulas and pictures are inside it."""

from __future__ import annotations

import base64
import math
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from sphereflow.report.entries import Entry, entries, miss, number, worst
from sphereflow.report.formula import formula, prose, typeset_number
from sphereflow.report.results import ClaimResult, PictureResult, Report, tally

# So many comparisons of a claim are in sight; the others open on a click, up to a number that a browser likes.
_IN_SIGHT = 6
_ON_PAGE = 500

# A figure wider than this many inches takes the whole width of the page.
_WIDE = 6.9

_BADGES = {"holds": "✓", "obeyed": "≤", "refuted": "≠", "inconclusive": "?", "fails": "✗"}


def page(report: Report) -> str:
    """The whole page; the same report always gives the same text."""
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
        "embedded": _embedded,
    }
    environment.globals |= {"miss": miss, "tally": tally, "numbers": _numbers, "badges": _BADGES, "wide": _WIDE}
    style = resources.files("sphereflow.report").joinpath("template/style.css").read_text("utf-8")
    return environment.get_template("page.html").render(report=report, style=Markup(style))


def seconds(duration: float) -> str:
    """'0.04 s', '12.3 s', '4 min 05 s', '2 h 03 min'."""
    if duration < 60:
        return f"{duration:.2f} s" if duration < 1 else f"{duration:.1f} s"
    minutes, rest = divmod(round(duration), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def _numbers(result: ClaimResult) -> dict[str, Any]:
    """The comparisons of a claim, cut to what is in sight, what opens on a click, and what is only counted."""
    assert result.check is not None
    rows = entries(result.check)
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


def _used(row: Entry) -> str:
    """How much of the tolerance a deviation takes, in words."""
    if row.used == 0:
        return "none"
    if math.isinf(row.used):
        return "beyond"
    if row.used < 1e-3:
        return "< 0.1 %"
    return f"{100 * row.used:.2g} %" if row.used < 10 else f"{number(row.used, 2)} times"


def _value(value: Any) -> str:
    """A parameter as text."""
    return number(value, 6) if isinstance(value, float) else str(value)


def _embedded(picture: PictureResult) -> str:
    """A picture as a data address."""
    return f"data:{picture.media_type};base64,{base64.b64encode(picture.content).decode()}"
