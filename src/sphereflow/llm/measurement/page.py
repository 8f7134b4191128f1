"""A measurement as one HTML page that needs nothing else."""

from __future__ import annotations

import base64
import math
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from sphereflow.llm.measurement.sections import Picture, Section

_METHOD = (
    "For every layer and head, at the last token of each window: the N tokens of largest attention weight are "
    "selected; their weighted values are summed; precision counts how many unselected tokens enter the smallest ball "
    "around the sum that holds all selected ones, recall how many selected tokens are closer than every "
    "unselected one. The control selects at random and is measured around its own sum. N = 1 says nothing in "
    "the Euclidean distance. Bands are bootstrap intervals over documents, where there are at least two. Layers and "
    "heads are counted from 0, as in the names of transformers; numbers about the first token are missing where a "
    "sliding window ends before it."
)
_SHOWN = 0.66  # pixels on the page for each of a picture
_COLUMNS = ("layer", "head", "regime", "F4_attention", "F4_random", "sink_mass", "compression", "effective_number")


def measurement_page(
    told: dict[str, Any],
    lines: list[str],
    pictures: list[Picture],
    table: dict[str, list[Any]],
    sections: list[Section],
) -> bytes:
    """The page: theories in a table and in sections, findings about heads, pictures, a few heads, settings."""
    about, protocol = told["model"], told["protocol"]
    environment = Environment(
        loader=PackageLoader("sphereflow.llm.measurement", "template"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"source": _source, "width": _width}
    columns = [name for name in _COLUMNS if name in table]
    text = environment.get_template("page.html").render(
        title=f"Theory beside {about['model']}",
        subtitle=(
            f"{about['layers']} layers of {about['heads']} heads ({about['key_value_heads']} for keys and values), "
            f"{protocol['documents']} documents of {protocol['window']} tokens"
        ),
        sections=sections,
        findings=lines,
        pictures=pictures,
        columns=columns,
        rows=[[_cell(table[name][k]) for name in columns] for k in _selected(table)],
        method=_METHOD,
        settings=[*about.items(), *protocol.items(), *told["versions"].items()],
    )
    return text.encode()


def _source(picture: Picture) -> str:
    """The picture inside the page."""
    return f"data:image/png;base64,{base64.b64encode(picture.png).decode()}"


def _width(picture: Picture) -> int:
    """Pixels on the page, so that letters are as large in small pictures as in large ones."""
    return round(int.from_bytes(picture.png[16:20]) * _SHOWN)  # the header of a PNG file


def _selected(table: dict[str, list[Any]]) -> list[int]:
    best = sorted(range(len(table["layer"])), key=lambda k: -table["f4"][k])[:5]
    seen = [k for k in range(len(table["layer"])) if not math.isnan(table["sink_mass"][k])]
    sinks = sorted(seen, key=lambda k: -table["sink_mass"][k])[:5]
    return list(dict.fromkeys(best + sinks))


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return "–" if math.isnan(value) else f"{value:.3g}"
    return str(value)
