"""`sphereflow measure`: every head of a language model, and every theory beside it, on one page."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sphereflow.cli.output import answer, say, written

if TYPE_CHECKING:
    from sphereflow.llm.measurement.sections import Section

# Sections, with the forward passes of 256 tokens that each takes on SmolLM2-135M (`benchmarks/measure.py --sections`).
SECTIONS = {
    "geometry": 29,
    "normalisation": 14,
    "position": 28,
    "depth": 17,
    "initialisation": 1,
    "sparsification": 62,
}
_COSTS = ", ".join(f"{name} ({passes})" for name, passes in SECTIONS.items())
_FILES = (
    "index.html",
    "heads.csv",
    "curves.csv",
    "measurement.nc",
    "summary.json",
    "curves.png",
    "maps.png",
    "sink.png",
    "regimes.png",
    "theory.png",
    *(f"{name}.png" for name in SECTIONS),
)
# Of the work, the part that the heads take when there are sections as well.
_HEADS_SHARE = 0.4


def command(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="smollm2, a folder, a .gguf file, or a name of the model hub.")
    ] = "smollm2",
    text: Annotated[Path | None, typer.Option(metavar="FILE", help="A text file to read.")] = None,
    corpus: Annotated[
        str | None, typer.Option(metavar="NAME", help="A text that comes with Python: python-topics (the default).")
    ] = None,
    window: Annotated[int, typer.Option(help="Tokens per document.")] = 1024,
    documents: Annotated[int, typer.Option(help="Number of documents.")] = 16,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the page, tables, dataset and pictures.")] = Path(
        "measurement"
    ),
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, mps.")] = "cpu",
    dtype: Annotated[
        str,
        typer.Option(metavar="auto|float32|bfloat16|float16", help="Precision of the model; statistics use float64."),
    ] = "auto",
    repeats: Annotated[int, typer.Option(help="Random rankings of the control.")] = 16,
    sections: Annotated[
        str,
        typer.Option(
            metavar="NAME,...",
            help=f"Theories to lay beside the model: all, none, or some of {_COSTS}. A number is about how many "
            "forward passes of 256 tokens the section takes, beside those of the documents.",
        ),
    ] = "all",
    prompts: Annotated[
        int, typer.Option(help="Lists of the key-value task of position, eight for each set of words; 0: none.")
    ] = 24,
    seed: Annotated[int, typer.Option(help="Seed of the control, the prompts and the bootstrap.")] = 0,
) -> None:
    """Every head of a model (precision, recall, F, regimes, sink), and every theory beside it with a verdict.

    Example: sphereflow measure smollm2 --sections geometry,depth --out heads
    """
    from sphereflow.errors import SphereflowError, whole_number
    from sphereflow.llm import corpus as known_corpus
    from sphereflow.llm import load_model, measure_heads, read_text, windows
    from sphereflow.llm.model.loading import require_torch
    from sphereflow.model_theories import Subject, chosen_sections, make_sections
    from sphereflow.progress import reporting
    from sphereflow.saving import writable_folder, write_into

    if text is not None and corpus is not None:
        raise SphereflowError("give either --text or --corpus.")
    whole_number("--repeats", repeats)
    whole_number("--prompts", prompts, least=0)
    wanted = chosen_sections(sections)
    writable_folder(out, _FILES)
    require_torch()
    words = known_corpus(corpus or "python-topics") if text is None else read_text(text)
    with reporting("loading the model", None) as report:
        loaded = load_model(model, dtype=dtype, device=device)
        if loaded.tokenizer is None:
            raise SphereflowError(f"{model} has no tokenizer: put its tokenizer.json beside the weights.")
        tokens = windows(words, loaded.tokenizer, window=window, documents=documents)
        share = _HEADS_SHARE if wanted else 1.0
        heads = measure_heads(
            loaded.model,
            tokens,
            repeats=repeats,
            seed=seed,
            progress=lambda done, words: report(share * done, words),
        )
        subject = Subject(
            *(loaded, words, heads, window, documents, prompts, seed),
            report=lambda done, words: report(share + (1 - share) * done, words),
        )
        beside = make_sections(subject, wanted)
        report(1.0, "writing")
        about = loaded.shape | {"text": str(text or corpus or "python-topics"), "device": device}
        files, lines = _files(heads, about, beside, seed)
    write_into(out, files)
    if len(tokens) < documents:
        say(f"the text is long enough for {len(tokens)} windows of {window} tokens; {documents} were asked for.")
    for line in lines:
        say(f"- {line}")
    for section in beside:
        say(f"{section.title}: {section.verdict}")
        for each in section.statements:
            say(f"- {each.theory}: {each.verdict}. {each.measured}")
    written(out)
    answer(json.loads(files["summary.json"]) | {"written": out})


def _files(heads: Any, about: dict[str, Any], beside: list[Section], seed: int) -> tuple[dict[str, bytes], list[str]]:
    """Every file as bytes, so that nothing is written before all of it is there."""
    from sphereflow.llm.measurement import pictures, record
    from sphereflow.llm.measurement.findings import findings
    from sphereflow.llm.measurement.page import measurement_page
    from sphereflow.llm.measurement.sections import Picture
    from sphereflow.pictures import rendered

    png = partial(rendered, kind="png")
    summary = record.summary(heads, about, seed=seed)
    lines = findings(summary)
    shown = {
        "curves": Picture(
            "Precision, recall and F against N",
            "Averages over heads; bands: bootstrap over documents.",
            png(pictures.draw_curves(heads)),
        ),
        "maps": Picture("Head-by-layer maps", "Averages over documents.", png(pictures.draw_maps(heads))),
        "sink": Picture("Sink and recall; regimes by depth", "Each dot is a head.", png(pictures.draw_sink(heads))),
        "regimes": Picture(
            "Regimes", "By the rule, from features averaged over documents.", png(pictures.draw_regimes(heads))
        ),
        "theory": Picture(
            "Theory beside practice",
            "Tokens of the residual stream, normalised, without the first one; dots are heads, lines medians.",
            png(pictures.draw_theory(heads)),
        ),
    }
    summary["sections"] = {section.name: section.record() for section in beside}
    summary["findings"] = lines
    tables = {"heads": record.head_table(heads), "curves": record.curve_table(heads)}
    files = {f"{name}.csv": record.as_csv(table) for name, table in tables.items()}
    for name, table in tables.items():
        packed = record.as_parquet(table)
        if packed is not None:
            files[f"{name}.parquet"] = packed
    labelled = heads.to_xarray().assign_attrs({name: str(value) for name, value in about.items()})
    files["measurement.nc"] = bytes(labelled.to_netcdf(engine="scipy"))
    files["summary.json"] = (json.dumps(summary, indent=2) + "\n").encode()
    files |= {f"{name}.png": picture.png for name, picture in shown.items()}
    files |= {f"{section.name}.png": section.picture.png for section in beside if section.picture is not None}
    files["index.html"] = measurement_page(summary, lines, list(shown.values()), tables["heads"], beside)
    return files, lines
