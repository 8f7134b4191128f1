"""The HTML file: the player's own script and style, the frames as text, a caption; it opens without a server."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sphereflow.errors import SphereflowError, writable_target
from sphereflow.evolution.webpage.shown import shown_of
from sphereflow.saving import write_bytes

if TYPE_CHECKING:
    from sphereflow.evolution.trajectory import Trajectory

Encoded = tuple[dict[str, Any], list[bytes]]
PLAYER = Path(__file__).parent / "player"
_MODULES = ("sphere.js", "charts.js", "index.js")  # each after those it imports

_STYLE = """
body { margin: 0; background: var(--sf-ground); }
.sf-page { max-width: 1180px; margin: 0 auto; padding: 20px 16px 40px; }
.sf-page h1 { font-size: 22px; margin: 0 0 4px; letter-spacing: -0.01em; }
.sf-page p { margin: 0 0 14px; color: var(--sf-quiet); font-size: 15px; line-height: 1.5; max-width: 75ch; }
.sf-page pre { overflow-x: auto; padding: 12px 14px; border-radius: 12px; border: 1px solid var(--sf-rule);
  background: var(--sf-panel); font-size: 13px; }
.sf-bottom { margin-top: 18px; }
.sf-page a { color: var(--sf-accent); }
.sf-pair { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 18px; }
.sf-pair h2 { font-size: 16px; margin: 0 0 8px; }
.sf-pair .sf-player { grid-template-columns: minmax(0, 1fr); }
@media (max-width: 700px) {
  .sf-pair { grid-template-columns: minmax(0, 1fr); }
  .sf-follower .sf-transport, .sf-pair .sf-charts { display: none; }
}
"""

_TEMPLATE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body class="sf-theme">
<main class="sf-page">
<h1>{title}</h1>
{lead}
{places}
<div class="sf-bottom">{bottom}</div>
</main>
{contents}
<script type="module">
{script}
const scheme = matchMedia("(prefers-color-scheme: dark)");
const follow = () => document.body.classList.toggle("sf-dark", scheme.matches);
scheme.addEventListener("change", follow);
follow();
const text = (id) => document.getElementById(id).textContent;
let leader = null;
for (const place of document.querySelectorAll("[data-run]")) {{
  const player = new Player(place, {{ leader }});
  const {{ run }} = place.dataset;
  player.embed(JSON.parse(text(`about${{run}}`)), text(`frames${{run}}`));
  globalThis.player = leader ??= player;
}}
</script>
</body>
</html>
"""


def assemble(about: dict[str, Any], frames: list[bytes], *, title: str, lead: str = "", code: str = "") -> bytes:
    """The file: `about` and `frames` as a `Recorder` makes them, a title, a lead (HTML) and code that makes the run."""
    return _file({"": (about, frames)}, title, lead, code)


def assemble_pair(named: Mapping[str, Encoded], *, title: str, lead: str = "", code: str = "") -> bytes:
    """The same of two runs side by side, each under its name; the first leads the second."""
    return _file(named, title, lead, code)


def _file(named: Mapping[str, Encoded], title: str, lead: str, code: str) -> bytes:
    places, contents = [], []
    for number, (name, (about, frames)) in enumerate(named.items()):
        mark = f"-{number}" if number else ""
        heading = f"<h2>{html.escape(name)}</h2>" if name else ""
        places.append(f'<div>{heading}<div id="player{mark}" data-run="{mark}"></div></div>')
        # "</" would end the script element that holds the text.
        facts = json.dumps(about | {"frames": len(frames)}).replace("</", "<\\/")
        text = base64.b64encode(b"".join(frames)).decode("ascii")
        contents.append(f'<script type="application/json" id="about{mark}">{facts}</script>')
        contents.append(f'<script type="text/plain" id="frames{mark}">{text}</script>')
    grid = '<div class="sf-pair">{}</div>' if len(named) > 1 else "{}"
    page = _TEMPLATE.format(
        title=html.escape(title),
        style=(PLAYER / "player.css").read_text("utf-8") + _STYLE,
        lead=lead,
        bottom=f"<p>The same run in Python:</p><pre>{html.escape(code)}</pre>" if code else "",
        places=grid.format("".join(places)),
        contents="\n".join(contents),
        script=_one_script(),
    )
    return page.encode("utf-8")


def write_webpage(run: Trajectory, path: str | Path, *, title: str | None = None, overwrite: bool = True) -> Path:
    """Write the first replica of a run as a page."""
    target = writable_target(path, overwrite=overwrite)
    if target.suffix.lower() not in (".html", ".htm"):
        raise SphereflowError(f"a web page is an .html file, got '{target.suffix or 'no suffix'}'.")
    write_bytes(target, page_of(run, title))
    return target


@dataclass(frozen=True, repr=False)
class Player:
    """The page of a run in a cell of a notebook, `height` pixels tall."""

    page: bytes
    height: int

    def __repr__(self) -> str:
        return f"Player({len(self.page):,} bytes; the last line of a cell of a notebook shows it)"

    def _repr_html_(self) -> str:
        inside = html.escape(self.page.decode("utf-8"), quote=True)
        return f'<iframe srcdoc="{inside}" style="width: 100%; height: {self.height}px; border: 0"></iframe>'


def page_of(run: Trajectory, title: str | None = None) -> bytes:
    """The first replica of a run as a page; of many tokens every k-th is shown, and the page says so."""
    shown = shown_of(run)
    return assemble(*shown.encoded(), title=title or "Tokens under attention", lead=shown.lead)


def _one_script() -> str:
    """The modules of the player one after the other, so that no file has to be loaded."""
    return "\n".join(re.sub(r"(?m)^import .*$", "", (PLAYER / name).read_text("utf-8")) for name in _MODULES)
