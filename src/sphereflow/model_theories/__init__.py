"""Every theory of the house beside one language model: the sections of the page of `sphereflow measure`.

Areas do not know each other; here those that read a model meet those that have a theory about it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sphereflow.errors import SphereflowError, one_of
from sphereflow.llm.measurement.sections import NOT_ASKED, Section, Statement
from sphereflow.model_theories import depth, geometry, initialisation, normalisation, position, sparsification
from sphereflow.model_theories.subject import Subject as Subject

_MADE: dict[str, tuple[str, Callable[[Subject], Section]]] = {
    "geometry": ("Geometry of heads", geometry.section),
    "normalisation": ("Normalisation", normalisation.section),
    "position": ("Position in the prompt", position.section),
    "depth": ("Depth", depth.section),
    "initialisation": ("Initialisation", initialisation.section),
    "sparsification": ("Sparsification", sparsification.section),
}
SECTIONS = tuple(_MADE)


def chosen_sections(names: str) -> tuple[str, ...]:
    """The sections in a list with commas, in the order of the page; "all" and "none" are lists too."""
    if names == "all":
        return SECTIONS
    wanted = [] if names == "none" else [one_of("--sections", name.strip(), SECTIONS) for name in names.split(",")]
    return tuple(name for name in SECTIONS if name in wanted)


def make_sections(subject: Subject, names: Iterable[str]) -> list[Section]:
    """The sections of these names; one that cannot be asked of this model says why."""
    sections, chosen, report = [], tuple(names), subject.report
    for k, name in enumerate(chosen):
        title, made = _MADE[name]

        def report_part(done: float, words: str, k: int = k, name: str = name) -> None:
            report((k + done) / len(chosen), f"{name}: {words}")

        subject.report = report_part
        try:
            sections.append(made(subject))
        except SphereflowError as error:
            why = f"{str(error)[:1].upper()}{str(error)[1:]}"
            sections.append(Section(name, title, (Statement(title, why, NOT_ASKED),)))
    return sections
