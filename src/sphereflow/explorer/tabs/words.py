"""What a tab says below its heading: the answer in words, the numbers, and the meaning of the colours."""

from __future__ import annotations

from markupsafe import Markup
from nicegui import ui
from nicegui.elements.html import Html

from sphereflow.report.formula import prose, typeset_number


def answer() -> Html:
    """A line for the answer in words, announced when it changes."""
    return ui.html("", sanitize=False, tag="p").classes("tab-answer").props("role=status aria-live=polite")


def facts() -> Html:
    """A row of small boxes, each a name and a number."""
    return ui.html("", sanitize=False, tag="dl").classes("tab-facts")


def legend() -> Html:
    """A row of colours with their meaning."""
    return ui.html("", sanitize=False).classes("tab-legend")


def say(line: Html, text: str) -> None:
    """Text with $...$ for small formulas, in a line made by `answer`."""
    line.set_content(str(prose(text.replace(" %", "\N{NO-BREAK SPACE}%"))))


def list_facts(box: Html, rows: list[tuple[str, str]]) -> None:
    """Names and numbers, a number such as 1.5e-9 set as a power of ten, in a box made by `facts`."""
    one = Markup("<div><dt>{}</dt><dd>{}</dd></div>")
    box.set_content(str(Markup("").join(one.format(prose(name), _set(value)) for name, value in rows)))


def list_colours(box: Html, rows: list[tuple[str, str, str]]) -> None:
    """(colour, mark, meaning), the mark being line, dashed, dot, box or bar, in a row made by `legend`."""
    parts = []
    for colour, mark, meaning in rows:
        paint = "background" if mark in ("box", "bar") else "color"
        look = Markup('<i class="{}" style="{}:{}" aria-hidden="true"></i>').format(mark, paint, colour)
        parts.append(Markup("<span>{}<span>{}</span></span>").format(look, prose(meaning)))
    box.set_content(str(Markup("").join(parts)))


def _set(value: str) -> Markup:
    return typeset_number(value) if value[:1] in "-0123456789" else prose(value)


def short(value: float, digits: int = 3) -> str:
    """The number with so many digits; powers of ten without leading zeros, as in 1.5e-9."""
    mantissa, has_power, exponent = f"{value:.{digits}g}".partition("e")
    return f"{mantissa}e{int(exponent)}" if has_power else mantissa


def power(value: float, digits: int = 2) -> str:
    """The same for `say`: 1.5e-9 as a small formula."""
    mantissa, has_power, exponent = short(value, digits).partition("e")
    return f"${mantissa}\\cdot10^{{{exponent}}}$" if has_power else mantissa
