r"""Normalisation: does selection fade with the length of the context, and how sharp does softmax become?

Rules: independent keys have distances that fall like $L^{-1/2}$, and the exponent agrees if it is below
$-1/4$ (four keys, all heads that see all tokens); the separable share agrees with that of independent values if it is
within .1 of it at 16 keys; sensitivity agrees with its bound 1/T if its mean grows, from the first temperature to
the last, by more than half of the bound's factor.
"""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from sphereflow.llm import LengthRecording
from sphereflow.llm.measurement.sections import Picture, Section, asked, decide, plain, words
from sphereflow.model_theories.subject import Answer, Subject, drawn_again, mean_of
from sphereflow.pictures import PALETTE, rendered, styled_figure


def section(subject: Subject) -> Section:
    """The section of the page."""
    made = subject.lengths
    resolved = np.isfinite(made.jacobian).all(axis=(0, 3, 4))
    statements = (
        asked("distances of selected keys collapse with length", lambda: _distance(made, resolved, subject)),
        asked("the separable share is that of independent values", lambda: _share(subject)),
        asked("sensitivity grows like 1/T", lambda: _sensitivity(made, resolved, subject)),
    )
    caption = "Means over heads and documents. Left: distance of four selected keys; right: sensitivity of softmax."
    picture = Picture("Length and temperature", caption, rendered(_drawn(made, resolved), "png"))
    return Section("normalisation", "Normalisation", statements, picture)


def _of(made: LengthRecording, name: str, size: int, resolved: np.ndarray, sink: int = 0) -> np.ndarray:
    """(document, length), means over the heads that see all tokens."""
    rows = made.selection[name][..., sink, :, made.sizes.tolist().index(size)]
    return np.asarray(rows[:, resolved].astype(float).mean(axis=1))


def _distance(made: LengthRecording, resolved: np.ndarray, subject: Subject) -> Answer:
    exponents = []
    for sink in range(2):
        rows = _of(made, "distance", 4, resolved, sink)

        def exponent(at: np.ndarray, rows: np.ndarray = rows) -> float:
            return float(np.polyfit(np.log(made.lengths), np.log(rows[at].mean(axis=0)), 1)[0])

        exponents.append(drawn_again(len(rows), exponent, subject.seed))
    return (
        f"From {made.lengths[0]} to {made.lengths[-1]} tokens the distance between four selected keys and the rest "
        f"goes like the length to the power {words(exponents[0])}, without the first token {words(exponents[1])}; "
        f"independent keys have about -0.5. {made.layers_asked[-1]} of {made.jacobian.shape[1]} layers see all tokens.",
        decide(exponents[0], below=-0.25),
        {"exponent": plain(exponents[0]), "exponent_without_sink": plain(exponents[1])},
    )


def _share(subject: Subject) -> Answer:
    made = subject.independent
    size, resolved = int(made.sizes[-1]), np.isfinite(made.selection["expected_recall"][..., 0, -1, -1]).all(axis=0)
    measured, expected = (_of(made, name, size, resolved)[:, -1] for name in ("recall", "expected_recall"))
    gap = mean_of(measured - expected, subject.seed)
    share = mean_of(measured, subject.seed)
    return (
        f"Of {size} selected keys among {made.lengths[-1]} the share {words(share)} is separable; independent values "
        f"with the same weights would have {expected.mean():.2f}: model minus theory {words(gap)}.",
        decide(gap, above=-0.1, below=0.1),
        {"share": plain(share), "independent": float(expected.mean()), "difference": plain(gap)},
    )


def _sensitivity(made: LengthRecording, resolved: np.ndarray, subject: Subject) -> Answer:
    rows = made.jacobian[:, resolved][:, :, -1].astype(float).mean(axis=1)
    bound = float(made.temperatures[0] / made.temperatures[-1])
    growth = drawn_again(len(rows), lambda at: rows[at, -1].mean() / rows[at, 0].mean(), subject.seed)
    return (
        f"Cooling softmax from T = {made.temperatures[0]:g} to {made.temperatures[-1]:g} raises the mean sensitivity "
        f"to its logits {words(growth)} times; the bound, 1/T, rises {bound:g} times.",
        decide(growth, above=bound / 2),
        {"growth": plain(growth), "bound": bound},
    )


def _drawn(made: LengthRecording, resolved: np.ndarray) -> Figure:
    with styled_figure(8.4, 3.2) as figure:
        left, right = figure.subplots(1, 2)
        for sink, label in enumerate(("with the first token", "without it")):
            level = _of(made, "distance", 4, resolved, sink).mean(axis=0)
            left.plot(made.lengths, level, "o-", color=PALETTE[sink], label=label)
        start = _of(made, "distance", 4, resolved).mean(axis=0)[0]
        left.plot(made.lengths, start * (made.lengths / made.lengths[0]) ** -0.5, ":", color="0.4", label="$L^{-1/2}$")
        left.set(xlabel="tokens seen, $L$", ylabel="distance / length of a value", xscale="log", yscale="log")
        left.set_xticks(made.lengths, [str(n) for n in made.lengths])
        left.minorticks_off()
        left.legend()
        rows = made.jacobian[:, resolved][:, :, -1].astype(float).mean(axis=(0, 1))
        right.plot(1 / made.temperatures, rows, "o-", color=PALETTE[0], label="mean over heads")
        right.plot(1 / made.temperatures, rows[0] / made.temperatures, ":", color="0.4", label="proportional to $1/T$")
        right.set(xlabel="$1/T$", ylabel="sensitivity of softmax", xscale="log", yscale="log")
        right.legend()
    return figure
