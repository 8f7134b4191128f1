"""Results as JSON: one object per paper, all numbers readable anywhere.

A number is a JSON number, an array of numbers a (nested) list. JSON has no words for what is not finite, so those are
the strings "NaN", "Infinity" and "-Infinity", which float() of Python and Number() of JavaScript both read. A claim
that raised an error has no rows, and its `error` says why.
"""

from __future__ import annotations

import base64
import json
import math
from dataclasses import replace
from typing import Any

import numpy as np

from sphereflow.claims import VERDICTS, Check, Claim, Figure, Rival, Row
from sphereflow.report.results import ClaimResult, PaperResult, PictureResult, Report

_NUMBERS = ("predicted", "measured", "tolerance", "false_alarm")


def paper_record(result: PaperResult) -> dict[str, Any]:
    """One paper as plain dictionaries, lists, strings and numbers."""
    return {
        "paper": result.paper.slug,
        "preset": result.preset,
        "seconds": round(result.seconds, 3),
        "claims": [_claim_record(claim) for claim in result.claims],
        "figures": [_figure_record(picture) for picture in result.pictures],
        "title": result.paper.title,
        "seed": result.seed,
        "versions": result.versions,
    }


def report_record(report: Report) -> dict[str, Any]:
    """The whole report as plain dictionaries, lists, strings and numbers."""
    return {
        "preset": report.preset,
        "seed": report.seed,
        "date": report.date,
        "seconds": round(report.seconds, 3),
        "false_alarm": report.false_alarm,
        "bases": report.bases,
        "verdicts": {verdict: report.count(verdict) for verdict in VERDICTS},
        "papers": [paper_record(paper) for paper in report.papers],
        "missing": list(report.missing),
        "devices": list(report.devices),
        "versions": report.versions,
    }


def report_text(report: Report) -> str:
    """The whole report as one indented JSON object."""
    return json.dumps(report_record(report), allow_nan=False, indent=1) + "\n"


def plain(value: Any) -> Any:
    """A value in terms JSON knows: arrays become lists, what is not finite becomes a word, the rest its text."""
    if isinstance(value, dict):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    if hasattr(value, "__array__"):
        return plain(np.asarray(value).tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def result_record(result: ClaimResult | PictureResult) -> dict[str, Any]:
    """One claim, or one figure with its picture, whole: `read_result` gives it back."""
    if isinstance(result, ClaimResult):
        return _claim_record(result)
    content = base64.b64encode(result.content).decode()
    return _figure_record(result) | {"media_type": result.media_type, "content": content, "width": result.width}


def read_result(entry: Claim | Figure, record: dict[str, Any]) -> ClaimResult | PictureResult:
    """The result of a claim or figure from its record."""
    if isinstance(entry, Figure):
        content = base64.b64decode(record["content"])
        return PictureResult(entry, record["seconds"], record["media_type"], content, record["width"])
    return read_claim(entry, record)


def read_claim(claim: Claim, record: dict[str, Any]) -> ClaimResult:
    """The result of a claim from its record, with the words that were recorded."""
    check = None
    if record["rows"]:
        rows = [Row(**row | {name: float(row[name]) for name in _NUMBERS}) for row in record["rows"]]
        rivals = [_read_rival(rival) for rival in record["rivals"]]
        check = Check(record["note"], record["parameters"], rows, rivals)
    claim_as_stated = replace(claim, says=record["says"], prints=record["prints"])
    return ClaimResult(claim_as_stated, record["verdict"], record["seconds"], check, record["error"])


def _read_rival(record: dict[str, Any]) -> Rival:
    values = {name: float(value) for name, value in record["values"].items()}
    return Rival(record["name"], values, record["of_data"], record["as_printed"])


def _claim_record(result: ClaimResult) -> dict[str, Any]:
    check = result.check
    record: dict[str, Any] = {
        "id": result.claim.id,
        "says": result.claim.says,
        "basis": result.claim.basis.record(),
        "prints": result.claim.prints,
        "verdict": result.verdict,
        "seconds": round(result.seconds, 3),
        "error": result.error,
        "severity": None,
        "rows": [],
        "rivals": [],
    }
    if check is not None:
        record |= {
            "severity": plain(check.severity),
            "rows": [plain(vars(row)) for row in check.rows],
            "rivals": [{**plain(vars(rival)), "loses_by": plain(check.excess(rival))} for rival in check.rivals],
            "note": check.note,
            "parameters": plain(dict(check.parameters)),
        }
    return record


def _figure_record(picture: PictureResult) -> dict[str, Any]:
    return {
        "id": picture.figure.id,
        "caption": picture.figure.caption,
        "seconds": round(picture.seconds, 3),
        "error": picture.error,
    }
