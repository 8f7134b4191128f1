"""Claims as HTML for the pages of papers and for the errata."""

from __future__ import annotations

from markupsafe import Markup, escape

from sphereflow.report.entries import Entry, entries, worst
from sphereflow.report.formula import formula, prose, typeset_number

from .record import VERDICTS, Checked, CheckedPaper, Record

_BADGES = {"holds": "✓", "refuted": "≠", "fails": "✗"}
_ROWS = 8  # comparisons of a claim that are shown


def badge(verdict: str) -> Markup:
    return Markup('<span class="badge {0}">{1} {0}</span>').format(verdict, _BADGES[verdict])


def tally(counts: dict[str, int]) -> str:
    """'12 hold, 2 are refuted': the verdicts that occurred."""
    words = {"holds": ("holds", "hold"), "refuted": ("is refuted", "are refuted"), "fails": ("fails", "fail")}
    told = [f"{counts[verdict]} {words[verdict][counts[verdict] != 1]}" for verdict in VERDICTS if counts[verdict]]
    return ", ".join(told)


def header(found: CheckedPaper) -> str:
    """Authors, year and address, in Markdown."""
    paper = found.paper
    where = f" · [arXiv:{paper.arxiv}](https://arxiv.org/abs/{paper.arxiv})" if paper.arxiv else ""
    return f'<p class="authors" markdown>{escape(", ".join(paper.authors))}, {paper.year}{where}</p>'


def overview(found: Record) -> Markup:
    """All papers with the number of claims of each verdict."""
    rows = [Markup("<tr>{}{}</tr>").format(_name(each), _counts(each)) for each in found.papers]
    heads = Markup(
        '<thead><tr><th>paper</th><th class="n">hold</th><th class="n">refuted</th><th class="n">fail</th></tr></thead>'
    )
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


def claim_table(found: CheckedPaper) -> Markup:
    """One line per claim; of several comparisons, the one that comes closest to its tolerance."""
    rows = []
    for each in found.claims:
        link = Markup('<td><a href="#{0}"><code>{0}</code></a></td>').format(each.claim.id)
        if each.measurement is None:
            numbers = Markup('<td colspan="3">{}</td>').format(each.note)
        else:
            shown = worst(entries(each.measurement, 6))
            numbers = _cells(shown.predicted, shown.measured, shown.tolerance)
        rows.append(Markup("<tr><td>{}</td>{}{}</tr>").format(badge(each.verdict), link, numbers))
    heads = Markup(
        '<thead><tr><th>verdict</th><th>claim</th><th class="n">predicted</th><th class="n">measured</th>'
        '<th class="n">tolerance</th></tr></thead>'
    )
    return _table(heads, rows)


def claim_list(found: CheckedPaper) -> Markup:
    """Every claim: the statement in sight, what belongs to it on a click; refuted ones are open."""
    return Markup("\n").join(_claim(each) for each in found.claims)


def errata_of(found: CheckedPaper) -> Markup:
    """The refuted claims of a paper."""
    return Markup("\n").join(_claim(each) for each in found.claims if each.verdict == "refuted")


def _claim(each: Checked) -> Markup:
    opened = Markup("") if each.verdict == "holds" else Markup(" open")
    parts = [
        Markup('<details class="claim {}" id="{}"{}>').format(each.verdict, each.claim.id, opened),
        Markup('<summary>{} <span class="statement">{}</span></summary>').format(
            badge(each.verdict), prose(each.claim.statement)
        ),
    ]
    if each.claim.formula:
        parts.append(Markup('<div class="formula">{}</div>').format(formula(each.claim.formula)))
    if each.measurement is not None:
        parts.append(_numbers(each))
    parts.append(_facts(each))
    parts.append(Markup("</details>"))
    return Markup("\n").join(parts)


def _numbers(each: Checked) -> Markup:
    measurement = each.measurement
    assert measurement is not None
    rows = entries(measurement)
    labelled, printed = any(row.label for row in rows), measurement.printed is not None
    first = Markup("<th></th>") if labelled else Markup("")
    last = Markup('<th class="n">printed</th>') if printed else Markup("")
    heads = Markup(
        '<thead><tr>{}<th class="n">predicted</th><th class="n">measured</th>'
        '<th class="n">tolerance</th>{}</tr></thead>'
    ).format(first, last)
    shown = _table(heads, [_row(row, labelled, printed) for row in rows[:_ROWS]])
    if len(rows) > _ROWS:
        shown += Markup('<p class="quiet">and {} more comparisons</p>').format(len(rows) - _ROWS)
    return shown


def _row(row: Entry, labelled: bool, printed: bool) -> Markup:
    label = Markup("<td>{}</td>").format(prose(row.label)) if labelled else Markup("")
    numbers = (row.predicted, row.measured, row.tolerance, *((row.printed,) if printed else ()))
    return Markup("<tr>{}{}</tr>").format(label, _cells(*numbers))


def _cells(*numbers: str) -> Markup:
    return Markup("").join(Markup('<td class="n">{}</td>').format(typeset_number(number)) for number in numbers)


def _facts(each: Checked) -> Markup:
    told = {"source": each.claim.source}
    if each.note:
        told["counterexample" if each.verdict == "refuted" else "note"] = each.note
    if each.measurement is not None:
        told["why this tolerance"] = each.measurement.because
    if each.claim.falsifier:
        told["what would falsify it"] = each.claim.falsifier
    lines = [Markup("<dt>{}</dt><dd>{}</dd>").format(name, prose(text)) for name, text in told.items()]
    name = Markup("<dt>name</dt><dd><code>{}</code></dd>").format(each.claim.id)
    return Markup("<dl>{}{}</dl>").format(Markup("").join(lines), name)


def _table(heads: Markup, rows: list[Markup]) -> Markup:
    body = Markup("\n").join(rows)
    return Markup('<div class="scroll"><table class="numbers">{}<tbody>\n{}\n</tbody></table></div>').format(
        heads, body
    )
