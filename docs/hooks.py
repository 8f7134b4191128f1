"""What happens while the site is built: pages from code, claims into the pages of papers, formulas to MathML.

Nothing is fetched from anywhere, then or when the site is read.
"""

from __future__ import annotations

import html
import logging
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parent))

from _generate import claim_pages, gallery, reference
from _generate.places import DOCS
from _generate.record import VERDICTS, CheckedPaper, Record, record

from sphereflow.report.formula import formula

log = logging.getLogger("mkdocs.hooks.sphereflow")

_MATH = re.compile(r'<(span|div) class="arithmatex">(.*?)</\1>', re.DOTALL)
_TAG = re.compile(r"</?([A-Za-z][^\s<>/]*)[^<>]*>")
_ELEMENT = re.compile(r"[a-z][a-z0-9-]*")
# The converter does not know these, which mean nothing to a reader or have a common form.
_PLAIN = {r"\!": "", r"\tfrac": r"\frac", r"\dfrac": r"\frac", r"\big": "", r"\Big": "", r"\bigl": "", r"\bigr": ""}


@cache
def _record() -> Record:
    found = record()
    for paper in found.papers:
        for each in paper.claims:
            if each.verdict == "fails":
                log.warning("the claim %s of %s fails: %s", each.claim.id, paper.paper.slug, each.error)
    return found


def on_config(config: Any) -> Any:
    """Navigation of what is found in the code: papers and areas."""
    papers = [{paper.paper.title: f"papers/{paper.paper.slug}.md"} for paper in _record().papers]
    areas = [{title: f"api/{area}.md"} for area, title in reference.AREAS.items()]
    for section in config.nav:
        if "Papers" in section:
            section["Papers"] = ["papers/index.md", *papers]
        if "Reference" in section:
            section["Reference"] = [
                {"Command line": "cli.md"},
                {"import sphereflow as sf": "api/index.md"},
                *areas,
            ]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Pages and pictures that are made, beside those that are written."""
    made: dict[str, str | bytes] = {
        "cli.md": reference.command_page(),
        "api/index.md": reference.top_level_page(),
        "examples.md": gallery.examples_page(),
    }
    made |= {f"gallery/{name}": page for name, page in gallery.kept_pages().items()}
    made |= {f"api/{area}.md": reference.area_page(area) for area in reference.AREAS}
    made |= {f"pictures/{each.name}.png": gallery.kept_picture_of(each) for each in gallery.examples()}
    for paper in _record().papers:
        made |= {f"papers/figures/{picture.name}": picture.content for picture in paper.pictures}
        if not (DOCS / "papers" / f"{paper.paper.slug}.md").exists():
            made[f"papers/{paper.paper.slug}.md"] = f"{paper.paper.summary}\n\n<!-- claims -->\n"
    for place, content in made.items():
        files.append(File.generated(config, place, content=content))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Headings and pictures of a paper; they take part in the table of contents."""
    place = page.file.src_uri
    if place == "papers/index.md":
        counts = {verdict: _record().count(verdict) for verdict in VERDICTS}
        told = (
            f"{sum(counts.values())} claims of {len(_record().papers)} papers are checked: {claim_pages.tally(counts)}"
        )
        return markdown.replace("<!-- tally -->", told)
    if place == "errata.md":
        sections = [
            f"### {paper.paper.title}\n\n[page of the paper](papers/{paper.paper.slug}.md)\n\n"
            f"<!-- errata-of {paper.paper.slug} -->\n"
            for paper in _record().papers
            if paper.count("refuted")
        ]
        return markdown.replace("<!-- errata -->", "\n".join(sections))
    paper = _paper_of(place)
    return markdown if paper is None else _paper_page(markdown, paper)


def _paper_of(place: str) -> CheckedPaper | None:
    return next((each for each in _record().papers if place == f"papers/{each.paper.slug}.md"), None)


def _paper_page(markdown: str, found: CheckedPaper) -> str:
    counts = {verdict: found.count(verdict) for verdict in VERDICTS}
    pictures = "\n\n".join(f"![{_alt(each.caption)}](figures/{each.name})\n*{each.caption}*" for each in found.pictures)
    measured = f"""## Claims

{len(found.claims)} claims are checked: {claim_pages.tally(counts)}. Of several rows the table shows the one
closest to its tolerance; the list below it has the rest.

<!-- claim-table -->

## Every claim

<!-- claim-list -->

## Figures

{pictures}

## Make it again

```bash
sphereflow reproduce {found.paper.slug}                  # claims and figures, seconds
sphereflow reproduce {found.paper.slug} --preset paper   # at the sizes of the paper or beyond
```

## Cite the paper

```text
{found.paper.bibtex.strip()}
```
"""
    written = markdown.replace("<!-- claims -->", measured)
    if written == markdown:
        log.warning("docs/papers/%s.md has no place for its claims: <!-- claims -->", found.paper.slug)
    return f"# {found.paper.title}\n\n{claim_pages.header(found)}\n\n{written}"


def _alt(caption: str) -> str:
    return re.sub(r"[\[\]$`]", "", caption)


def on_page_content(content: str, page: Any, config: Any, files: Files) -> str:
    """Tables of claims, and every formula as MathML."""
    content = _MATH.sub(lambda found: _typeset(found, page.file.src_uri), content)
    place = page.file.src_uri
    if place == "papers/index.md":
        content = content.replace("<!-- overview -->", str(claim_pages.overview(_record())))
    elif place == "independence.md":
        content = content.replace("<!-- severity -->", str(claim_pages.severities(_record())))
    elif place == "errata.md":
        for each in _record().papers:
            content = content.replace(f"<!-- errata-of {each.paper.slug} -->", str(claim_pages.errata_of(each)))
    elif (paper := _paper_of(place)) is not None:
        content = content.replace("<!-- claim-table -->", str(claim_pages.claim_table(paper)))
        content = content.replace("<!-- claim-list -->", str(claim_pages.claim_list(paper)))
    # In prose <x, y> is an inner product, which a browser would take for an element and hide.
    return _TAG.sub(lambda found: found[0] if _ELEMENT.fullmatch(found[1]) else html.escape(found[0]), content)


def _typeset(found: re.Match[str], place: str) -> str:
    latex = html.unescape(re.sub(r"<[^>]+>", "", found[2])).strip()
    display = latex.startswith(r"\[")
    latex = latex[2:-2].strip()
    for command, plain in _PLAIN.items():
        latex = re.sub(re.escape(command) + r"(?![A-Za-z])", lambda _, plain=plain: plain, latex)
    shown = str(formula(latex, display=display))
    if shown.startswith("<code"):
        log.warning("%s: this formula cannot be set: %s", place, latex)
    return f'<div class="formula">{shown}</div>' if display else shown
