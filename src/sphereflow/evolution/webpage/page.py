"""The HTML file: the player's own script and style, the frames as text, a caption; it opens without a server."""

from __future__ import annotations

import base64
import html
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sphereflow.errors import SphereflowError, writable_target
from sphereflow.evolution.webpage.frames import Camera, Recorder
from sphereflow.saving import write_bytes

if TYPE_CHECKING:
    from sphereflow.evolution.trajectory import Trajectory

PLAYER = Path(__file__).parent / "player"
_MODULES = ("sphere.js", "charts.js", "index.js")  # each after those it imports

# A browser holds a page of this size without effort; beyond it fewer tokens or frames are shown.
_MOST_TOKENS = 5000
_MOST_BYTES = 24_000_000

_STYLE = """
body { margin: 0; background: var(--sf-ground); }
.sf-page { max-width: 1180px; margin: 0 auto; padding: 20px 16px 40px; }
.sf-page h1 { font-size: 22px; margin: 0 0 4px; letter-spacing: -0.01em; }
.sf-page p { margin: 0 0 14px; color: var(--sf-quiet); font-size: 15px; line-height: 1.5; max-width: 75ch; }
.sf-page pre { overflow-x: auto; padding: 12px 14px; border-radius: 12px; border: 1px solid var(--sf-rule);
  background: var(--sf-panel); font-size: 13px; }
.sf-bottom { margin-top: 18px; }
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
<div id="player"></div>
<div class="sf-bottom">{bottom}</div>
</main>
<script type="application/json" id="about">{about}</script>
<script type="text/plain" id="frames">{frames}</script>
<script type="module">
{script}
const scheme = matchMedia("(prefers-color-scheme: dark)");
const follow = () => document.body.classList.toggle("sf-dark", scheme.matches);
scheme.addEventListener("change", follow);
follow();
const text = (id) => document.getElementById(id).textContent;
globalThis.player = new Player(document.getElementById("player"));
globalThis.player.embed(JSON.parse(text("about")), text("frames"));
</script>
</body>
</html>
"""


def assemble(about: dict[str, Any], frames: list[bytes], *, title: str, lead: str = "", code: str = "") -> bytes:
    """The file: `about` and `frames` as a `Recorder` makes them, a title, a lead (HTML) and code that makes the run."""
    # "</" would end the script element that holds the text.
    facts = json.dumps(about | {"frames": len(frames)}).replace("</", "<\\/")
    bottom = f"<p>The same run in Python:</p><pre>{html.escape(code)}</pre>" if code else ""
    page = _TEMPLATE.format(
        title=html.escape(title),
        style=(PLAYER / "player.css").read_text("utf-8") + _STYLE,
        lead=lead,
        bottom=bottom,
        about=facts,
        frames=base64.b64encode(b"".join(frames)).decode("ascii"),
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
    chosen = np.linspace(0, run.n - 1, min(run.n, _MOST_TOKENS)).astype(int)
    most_frames = max(2, _MOST_BYTES // (8 * len(chosen) + 104))
    moments = np.linspace(0, len(run) - 1, min(len(run), most_frames)).astype(int).tolist()
    recorder = Recorder(Camera.facing(_tokens(run, 0, chosen), run.model.traits.space == "sphere"))
    values, curve = _curve(run)
    frames = [recorder.record(float(run.ts[k]), _tokens(run, k, chosen), float(values[k])) for k in moments]
    shown = "" if len(chosen) == run.n else f", of which {len(chosen)} are shown"
    words = f"{run.n} tokens in dimension {run.d}{shown}"
    about = recorder.about(run.ts[moments], curve=curve, words=words)
    lead = f"<p>{html.escape(words)}, from t = {run.ts[0]:g} to {run.ts[-1]:g}. Drag to turn, space to pause.</p>"
    return assemble(about, frames, title=title or "Tokens under attention", lead=lead)


def _tokens(run: Trajectory, index: int, chosen: np.ndarray) -> np.ndarray:
    return run.frame(index).reshape((-1, run.n, run.d))[0][chosen].astype(float)


def _curve(run: Trajectory) -> tuple[np.ndarray, str]:
    """The energy of the model where it has one, else the length of the mean."""
    try:
        return run.energy.reshape(len(run), -1)[:, 0], "Energy"
    except SphereflowError:
        return run.order_parameter.reshape(len(run), -1)[:, 0], "Length of the mean of the tokens"


def _one_script() -> str:
    """The modules of the player one after the other, so that no file has to be loaded."""
    return "\n".join(re.sub(r"(?m)^import .*$", "", (PLAYER / name).read_text("utf-8")) for name in _MODULES)
