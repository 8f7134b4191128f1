"""The files of the gallery: an index, and a page of its own for each run, with its text, the player and the code."""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path

from sphereflow.errors import SphereflowError, one_of
from sphereflow.evolution.webpage import assemble, assemble_pair
from sphereflow.figures.exhibits.card import card
from sphereflow.figures.exhibits.exhibit import Exhibit
from sphereflow.figures.exhibits.works import EXHIBITS
from sphereflow.progress import Progress, progress_bar
from sphereflow.saving import writable_folder, write_bytes

_INDEX = "index.html"

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Tokens in motion</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
<main>
<h1>Tokens in motion</h1>
<p class="lead">In a Transformer tokens are particles on a sphere, layers are time, and attention is the force between
them. Each picture opens a run to turn and to play. The pages need no server and no network.</p>
<ul>
{cards}
</ul>
<p class="lead">Made with sphereflow. Each page ends with the lines of Python that make its run.</p>
</main>
</body>
</html>
"""

_STYLE = """
:root { color-scheme: light dark; --ground: #f6f7fb; --panel: #fff; --ink: #161c2d; --quiet: #5b6780; --rule: #e4e8f0;
  --accent: #2f5fd0; --dust: #8793a8; --ball: #eef2f9; --edge: #c9d3e6; }
@media (prefers-color-scheme: dark) { :root { --ground: #0c1120; --panel: #131a2c; --ink: #edf1fa; --quiet: #9aa7c2;
  --rule: #26304a; --accent: #7ea6ff; --dust: #8d9ab5; --ball: #1a2338; --edge: #33415f; } }
body { margin: 0; background: var(--ground); color: var(--ink);
  font-family: system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }
main { max-width: 1180px; margin: 0 auto; padding: 28px 16px 40px; }
h1 { font-size: 28px; letter-spacing: -0.01em; margin: 0 0 6px; }
.lead { color: var(--quiet); line-height: 1.5; max-width: 70ch; margin: 0 0 20px; }
ul { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 260px), 1fr)); gap: 18px; padding: 0;
  margin: 0 0 24px; list-style: none; }
li a { display: block; height: 100%; box-sizing: border-box; padding: 12px 16px 16px; border: 1px solid var(--rule);
  border-radius: 16px; background: var(--panel); color: inherit; text-decoration: none; }
li a:hover, li a:focus-visible { border-color: var(--accent); }
h2 { font-size: 17px; margin: 8px 0 4px; }
li p { margin: 0; font-size: 14px; line-height: 1.45; color: var(--quiet); }
svg { display: block; width: 100%; }
path { fill: none; stroke-width: 1; stroke-linejoin: round; opacity: 0.45; }
.ball { fill: var(--ball); stroke: var(--edge); }
.ring { fill: none; stroke: var(--edge); stroke-width: 1.5; }
"""


def write_gallery(
    out: str | Path, only: str | Sequence[str] | None = None, *, overwrite: bool = False, progress: Progress = None
) -> Path:
    """Write the pages of all runs, or of those named, and an index of them into a folder; returns the index.

    Each page is one file that opens without a server or a network. `sf.figures.EXHIBITS` has the runs by name.

    ```python
    sf.figures.write_gallery("site", only=["causal", "vortex"])
    ```
    """
    names = [only] if isinstance(only, str) else list(EXHIBITS if only is None else only)
    if not names:
        raise SphereflowError(f"only must name at least one of {', '.join(EXHIBITS)}.")
    chosen = {one_of("only", name, tuple(EXHIBITS)): EXHIBITS[name] for name in names}
    files = (_INDEX, *(f"{name}.html" for name in chosen))
    folder = writable_folder(out, files)
    there = [name for name in files if (folder / name).exists()]
    if there and not overwrite:
        raise SphereflowError(f"{folder / there[0]} exists already; choose another folder or ask to overwrite.")
    folder.mkdir(parents=True, exist_ok=True)
    with progress_bar("running", progress, total=len(chosen)) as bar:
        for name, exhibit in chosen.items():
            write_bytes(folder / f"{name}.html", page(exhibit))
            bar.advance()
    write_bytes(folder / _INDEX, index(chosen))
    return folder / _INDEX


def page(exhibit: Exhibit) -> bytes:
    """One run as a file."""
    paper = f'<a href="https://arxiv.org/abs/{exhibit.arxiv}">arXiv:{exhibit.arxiv}</a>'
    lead = f'<p>{html.escape(exhibit.says)}</p><p><a href="{_INDEX}">All runs</a> · {paper}</p>'
    named = exhibit.players
    if len(named) > 1:
        encoded = {name: shown.encoded() for name, shown in named.items()}
        return assemble_pair(encoded, title=exhibit.title, lead=lead, code=exhibit.code)
    (shown,) = named.values()
    return assemble(*shown.encoded(), title=exhibit.title, lead=lead + shown.lead, code=exhibit.code)


def index(chosen: dict[str, Exhibit]) -> bytes:
    """The page with a picture of each run."""
    cards = "\n".join(
        f'<li><a href="{name}.html">{card(next(iter(each.players.values())), each.moment, each.trail)}'
        f"<h2>{html.escape(each.title)}</h2><p>{html.escape(each.says)}</p></a></li>"
        for name, each in chosen.items()
    )
    return _PAGE.format(style=_STYLE, cards=cards).encode("utf-8")
