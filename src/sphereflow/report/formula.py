r"""LaTeX to MathML, which browsers typeset by themselves: the page needs no script and no network.

`formula` sets a displayed formula; `prose` sets text in which $...$ marks small formulas and `...` marks code.
"""

from __future__ import annotations

import re
from xml.etree.ElementTree import tostring

from latex2mathml.converter import convert_to_element
from markupsafe import Markup, escape

_PIECES = re.compile(r"\$([^$]+)\$|`([^`]+)`")

# latex2mathml writes the letter of \mathsf{E} as U+22FF, a sign of the Z notation.
_MISPRINTS = {"&#x022FF;": "&#x1D5A4;"}


def formula(latex: str, *, display: bool = True) -> Markup:
    """A formula as MathML, with its LaTeX as the text alternative; what cannot be converted is shown as LaTeX."""
    source = Markup('<code class="latex">{}</code>').format(latex)
    try:
        tree = convert_to_element(latex, display="block" if display else "inline")
    except Exception:  # the converter has many kinds of errors, and the LaTeX itself is readable
        return source
    tree.set("alttext", latex)
    # The converter writes symbols as character references, which must not be escaped a second time.
    mathml = tostring(tree, encoding="unicode").replace("&amp;#x", "&#x")
    if "\\" in "".join(tree.itertext()):  # a command that the converter does not know is left as it is
        return source
    for wrong, right in _MISPRINTS.items():
        mathml = mathml.replace(wrong, right)
    return Markup(mathml)


def prose(text: str) -> Markup:
    """Text with its small formulas set; everything else is escaped."""
    parts, end = [], 0
    for piece in _PIECES.finditer(text):
        parts.append(escape(text[end : piece.start()]))
        latex, code = piece.groups()
        parts.append(formula(latex, display=False) if latex else Markup("<code>{}</code>").format(code))
        end = piece.end()
    parts.append(escape(text[end:]))
    return Markup("").join(parts)


def typeset_number(text: str) -> Markup:
    """'1.5e-9' as 1.5 x 10^-9 in HTML; other numbers as they are, with a true minus sign."""
    mantissa, has_power, exponent = text.partition("e")
    shown = escape(mantissa.replace("-", "\N{MINUS SIGN}"))
    if not has_power:
        return shown
    power = exponent.replace("-", "\N{MINUS SIGN}")
    return shown + Markup("\N{NO-BREAK SPACE}×\N{NO-BREAK SPACE}10<sup>{}</sup>").format(power)
