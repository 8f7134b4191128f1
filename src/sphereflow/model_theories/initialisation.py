"""Initialisation: the same architecture with fresh weights, beside what theory says of wide random networks.

Rule: a curve agrees if the mean cosine of fresh networks after the last layer, with its 95 % interval,
is within .05 of it.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import t as student

from sphereflow.llm.measurement.sections import Picture, Section, asked, decide, interval, plain, words
from sphereflow.model_theories.subject import Answer, Subject
from sphereflow.pictures import rendered
from sphereflow.random_transformers import InitialCollapse, initial_collapse

_TOKENS, _NETWORKS, _NEAR = 32, 4, 0.05


def section(subject: Subject) -> Section:
    """The section of the page."""
    subject.decoder("no theory of encoders at initialisation is known here")
    config = subject.loaded.model.config.get_text_config().to_dict()
    collapse = initial_collapse(
        config, n=_TOKENS, level=1.0, repeats=_NETWORKS, seed=subject.seed, progress=subject.report
    )
    trained = subject.heads.by_depth("mean_cosine").mean(axis=0)[-1]
    statements = (
        asked("fresh networks follow the recursion of wide ones", lambda: _beside(collapse, "recursion", trained)),
        asked("fresh networks follow the homogenised curve", lambda: _beside(collapse, "logistic", trained)),
    )
    caption = "Grey: networks with fresh weights; lines: three predictions without a fitted number."
    picture = Picture("Cosines at initialisation", caption, rendered(collapse.plot(), "png"))
    return Section("initialisation", "Initialisation", statements, picture)


def _beside(collapse: InitialCollapse, name: str, trained: float) -> Answer:
    value, error = (float(each) for each in collapse.cosine())
    reach = float(student.ppf(0.975, len(collapse.measured) - 1)) * error
    measured, curve = interval(value, value - reach, value + reach), getattr(collapse, name)
    away = float(np.max(np.abs(collapse.measured.mean(axis=0) - curve)))
    beside = f", where the trained model has {trained:.2f}" if name == "recursion" else ""
    return (
        f"With fresh weights the mean cosine of {collapse.n} tokens after {collapse.blocks.layers} layers is "
        f"{words(measured)}{beside}; predicted {curve[-1]:.2f}, at most {away:.2f} away at any layer.",
        decide(measured, above=curve[-1] - _NEAR, below=curve[-1] + _NEAR),
        {"measured": plain(measured), "predicted": float(curve[-1]), "farthest": away, "trained": float(trained)},
    )
