"""Results as JSON: one object per paper, all numbers readable anywhere.

A number is a JSON number, an array of numbers a (nested) list. JSON has no words for what is not finite, so those are
the strings "NaN", "Infinity" and "-Infinity", which float() of Python and Number() of JavaScript both read. The
numbers of a claim that raised an error are null, and its `note` is the error.
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

from sphereflow.report.results import ClaimResult, PaperResult, PictureResult, Report


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


def report_text(report: Report) -> str:
    """The whole report as one indented JSON object."""
    record = {
        "preset": report.preset,
        "seed": report.seed,
        "date": report.date,
        "seconds": round(report.seconds, 3),
        "verdicts": {verdict: report.count(verdict) for verdict in ("holds", "refuted", "fails")},
        "papers": [paper_record(paper) for paper in report.papers],
        "missing": list(report.missing),
        "devices": list(report.devices),
        "versions": report.versions,
    }
    return json.dumps(record, allow_nan=False, indent=1) + "\n"


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


def _claim_record(result: ClaimResult) -> dict[str, Any]:
    measurement = result.measurement
    record: dict[str, Any] = {
        "id": result.claim.id,
        "statement": result.claim.statement,
        "source": result.claim.source,
        "predicted": None,
        "measured": None,
        "tolerance": None,
        "verdict": result.verdict,
        "seconds": round(result.seconds, 3),
        "note": result.error,
    }
    if measurement is not None:
        for name in ("predicted", "measured", "tolerance", "printed"):
            given = getattr(measurement, name)
            record[name] = None if given is None else plain(np.asarray(given, dtype=float))
        record |= {
            "labels": list(measurement.labels),
            "because": measurement.because,
            "note": measurement.note,
            "parameters": plain(dict(measurement.parameters)),
        }
    return record


def _figure_record(picture: PictureResult) -> dict[str, Any]:
    return {
        "id": picture.figure.id,
        "caption": picture.figure.caption,
        "seconds": round(picture.seconds, 3),
        "error": picture.error,
    }
