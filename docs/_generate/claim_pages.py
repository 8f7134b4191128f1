"""Claims as HTML for the pages of papers and for the errata."""

from __future__ import annotations

import math

from markupsafe import Markup, escape

from sphereflow.claims import VERDICTS, Rival
from sphereflow.report import ClaimResult
from sphereflow.report.formula import formula, prose, typeset_number
from sphereflow.report.rows import ShownRow, miss, number, rows_of, severity, worst

from .record import CheckedPaper, Record

_BADGES = {"holds": "✓", "obeyed": "≤", "refuted": "≠", "inconclusive": "?", "fails": "✗"}
_ROWS = 8  # comparisons of a claim that are shown


def badge(verdict: str) -> Markup:
    return Markup('<span class="badge {0}">{1} {0}</span>').format(verdict, _BADGES[verdict])


def tally(counts: dict[str, int]) -> str:
    """'12 hold, 2 are refuted': the verdicts that occurred."""
    words = {
        "holds": ("holds", "hold"),
        "obeyed": ("is obeyed", "are obeyed"),
        "refuted": ("is refuted", "are refuted"),
        "inconclusive": ("is inconclusive", "are inconclusive"),
        "fails": ("fails", "fail"),
    }
    parts = [f"{counts[verdict]} {words[verdict][counts[verdict] != 1]}" for verdict in VERDICTS if counts[verdict]]
    return ", ".join(parts)


def header(found: CheckedPaper) -> str:
    """Authors, year and address, in Markdown."""
    paper = found.paper
    where = f" · [arXiv:{paper.arxiv}](https://arxiv.org/abs/{paper.arxiv})" if paper.arxiv else ""
    return f'<p class="authors" markdown>{escape(", ".join(paper.authors))}, {paper.year}{where}</p>'


def overview(found: Record) -> Markup:
    """All papers with the number of claims of each verdict."""
    rows = [Markup("<tr>{}{}</tr>").format(_name(each), _counts(each)) for each in found.papers]
    words = Markup("").join(Markup('<th class="n">{}</th>').format(verdict) for verdict in VERDICTS)
    heads = Markup("<thead><tr><th>paper</th>{}</tr></thead>").format(words)
    return _table(heads, rows)


def _name(each: CheckedPaper) -> Markup:
    return Markup('<td><a href="{}.html">{}</a><br><span class="quiet">{}, {}</span></td>').format(
        each.paper.slug, each.paper.title, ", ".join(each.paper.authors), each.paper.year
    )


def _counts(each: CheckedPaper) -> Markup:
    counts = {verdict: each.count(verdict) for verdict in VERDICTS}
    return Markup("").join(
        Markup('<td class="n {}">{}</td>').format(verdict if count else "zero", count)
        for verdict, count in counts.items()
    )


_STEPS = ((1, 1.5), (1.5, 3), (3, 10), (10, 100), (100, math.inf))


def severities(found: Record) -> Markup:
    """How many claims have which severity, and those whose nearest rival loses by least."""
    known = [
        (each.check.severity, each.check.nearest, each, paper.paper.slug)
        for paper in found.papers
        for each in paper.claims
        if each.check is not None and each.check.severity is not None and each.verdict in ("holds", "refuted")
    ]
    counts = [(f"{low:g} to {high:g}" if math.isfinite(high) else f"above {low:g}", low, high) for low, high in _STEPS]
    rows = [
        Markup("<tr><td>{}</td>{}</tr>").format(name, _cells(str(sum(low < value <= high for value, *_ in known))))
        for name, low, high in counts
    ]
    shown = _table(Markup('<thead><tr><th>severity</th><th class="n">claims</th></tr></thead>'), rows)
    nearest = [
        Markup(
            '<tr><td><a href="papers/{0}.html#{1}">{1}</a><br><span class="quiet">{0}</span></td>{2}<td>{3}</td></tr>'
        ).format(slug, each.claim.id, _cells(number(value, 2)), prose(rival.name if rival else ""))
        for value, rival, each, slug in sorted(known, key=lambda row: row[0])[:20]
    ]
    heads = Markup('<thead><tr><th>claim</th><th class="n">severity</th><th>nearest rival</th></tr></thead>')
    return shown + Markup("<p>The twenty nearest calls of the quick preset:</p>") + _table(heads, nearest)


def claim_table(found: CheckedPaper) -> Markup:
    """One line per claim; of several comparisons, the one that comes closest to its tolerance."""
    rows = []
    for each in found.claims:
        link = Markup('<td><a href="#{0}"><code>{0}</code></a></td>').format(each.claim.id)
        if each.check is None:
            numbers = Markup('<td colspan="4">{}</td>').format(each.error)
        else:
            shown = worst(rows_of(each.check, 6))
            numbers = _cells(shown.side + shown.predicted, shown.measured, shown.tolerance, severity(each.check))
        rows.append(Markup("<tr><td>{}</td>{}{}</tr>").format(badge(each.verdict), link, numbers))
    heads = Markup(
        '<thead><tr><th>verdict</th><th>claim</th><th class="n">predicted</th><th class="n">measured</th>'
        '<th class="n">tolerance</th><th class="n">severity</th></tr></thead>'
    )
    return _table(heads, rows)


def claim_list(found: CheckedPaper) -> Markup:
    """Every claim: the statement in sight, what belongs to it on a click; refuted ones are open."""
    return Markup("\n").join(_claim(each) for each in found.claims)


def errata_of(found: CheckedPaper) -> Markup:
    """The refuted claims of a paper."""
    return Markup("\n").join(_claim(each) for each in found.claims if each.verdict == "refuted")


def _claim(each: ClaimResult) -> Markup:
    opened = Markup("") if each.verdict in ("holds", "obeyed") else Markup(" open")
    claim = each.claim
    headline = prose((claim.prints and f"Printed: {claim.prints}") or claim.says)
    parts = [
        Markup('<details class="claim {}" id="{}"{}>').format(each.verdict, claim.id, opened),
        Markup('<summary>{} <span class="statement">{}</span></summary>').format(badge(each.verdict), headline),
    ]
    if claim.prints:
        parts.append(Markup("<p>Corrected: {}</p>").format(prose(claim.says)))
    if claim.formula:
        parts.append(Markup('<div class="formula">{}</div>').format(formula(claim.formula)))
    if each.check is not None:
        parts.append(_numbers(rows_of(each.check), each.check.rivals))
    parts.append(_facts(each))
    parts.append(Markup("</details>"))
    return Markup("\n").join(parts)


def _numbers(rows: list[ShownRow], rivals: list[Rival]) -> Markup:
    names = Markup("").join(Markup('<th class="n">{}</th>').format(prose(rival.name)) for rival in rivals)
    heads = Markup(
        '<thead><tr><th></th><th class="n">predicted</th><th class="n">measured</th>'
        '<th class="n">tolerance</th>{}</tr></thead>'
    ).format(names)
    shown = _table(heads, [_row(row) for row in rows[:_ROWS]])
    if len(rows) > _ROWS:
        shown += Markup('<p class="quiet">and {} more rows</p>').format(len(rows) - _ROWS)
    return shown


def _row(row: ShownRow) -> Markup:
    numbers = (row.side + row.predicted, row.measured, row.tolerance, *row.rivals)
    return Markup("<tr><td>{}</td>{}</tr>").format(prose(row.name), _cells(*numbers))


def _cells(*numbers: str) -> Markup:
    return Markup("").join(Markup('<td class="n">{}</td>').format(typeset_number(number)) for number in numbers)


def _facts(each: ClaimResult) -> Markup:
    facts = [("basis", each.claim.basis.sentence)]
    if each.error:
        facts.append(("error", each.error))
    if each.check is not None:
        if each.check.note:
            facts.append(("counterexample" if each.verdict == "refuted" else "note", each.check.note))
        facts += [("why this tolerance", text) for text in dict.fromkeys(row.because for row in each.check.rows)]
        for rival in each.check.rivals:
            excess = each.check.excess(rival)
            facts.append(("rival", f"{rival.name}: {f'loses {miss(excess)}' if excess > 1 else 'survives'}"))
    lines = [Markup("<dt>{}</dt><dd>{}</dd>").format(name, prose(text)) for name, text in facts]
    name = Markup("<dt>name</dt><dd><code>{}</code></dd>").format(each.claim.id)
    return Markup("<dl>{}{}</dl>").format(Markup("").join(lines), name)


def _table(heads: Markup, rows: list[Markup]) -> Markup:
    body = Markup("\n").join(rows)
    return Markup('<div class="scroll"><table class="numbers">{}<tbody>\n{}\n</tbody></table></div>').format(
        heads, body
    )
