"""`sphereflow measure`: the attention geometry of a language model, per layer and head."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sphereflow.cli.output import answer, say, written

if TYPE_CHECKING:
    from sphereflow.llm import KeyValueProfile
    from sphereflow.progress import Report
    from sphereflow.retrieval import FittedProfile, ShapeTest

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
    "retrieval.png",
)
# Pairs in a list of the key-value task, so as many rotations of each set of words; a test of shape needs three sets.
_PAIRS, _LEAST_SETS = 8, 3
# Of the work, the part that the documents take; the rest is the key-value task.
_DOCUMENTS_SHARE = 0.8


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
    prompts: Annotated[
        int, typer.Option(help="Lists of the key-value task, eight rotations of each set of words; 0 leaves it out.")
    ] = 24,
    seed: Annotated[int, typer.Option(help="Seed of the control, the prompts and the bootstrap.")] = 0,
) -> None:
    """Precision, recall and F of top-N selection for every head, regimes, sink, and the particle theory beside it.

    Example: sphereflow measure smollm2 --window 512 --documents 4 --out heads
    """
    from sphereflow.errors import SphereflowError, whole_number
    from sphereflow.llm import corpus as known_corpus
    from sphereflow.llm import load_model, measure_heads, read_text, windows
    from sphereflow.llm.model.loading import require_torch
    from sphereflow.progress import reporting
    from sphereflow.saving import writable_folder, write_into

    if text is not None and corpus is not None:
        raise SphereflowError("give either --text or --corpus.")
    whole_number("--repeats", repeats)
    whole_number("--prompts", prompts, least=0)
    writable_folder(out, _FILES)
    require_torch()
    words = known_corpus(corpus or "python-topics") if text is None else read_text(text)
    with reporting("loading the model", None) as report:
        loaded = load_model(model, dtype=dtype, device=device)
        tokens = windows(words, loaded.tokenizer, window=window, documents=documents)
        share = _DOCUMENTS_SHARE if prompts else 1.0

        heads = measure_heads(
            loaded.model,
            tokens,
            repeats=repeats,
            seed=seed,
            progress=lambda done, words: report(share * done, words),
        )
        retrieval = None
        if prompts:
            retrieval = _retrieval(loaded, prompts, seed, lambda done, words: report(share + (1 - share) * done, words))
        report(1.0, "writing")
        about = loaded.shape | {"text": str(text or corpus or "python-topics"), "device": device}
        files, lines = _files(heads, about, retrieval, seed)
    write_into(out, files)
    if len(tokens) < documents:
        say(f"the text has room for {len(tokens)} windows of {window} tokens; {documents} were asked for.")
    for line in lines:
        say(f"- {line}")
    written(out)
    answer(json.loads(files["summary.json"]) | {"written": out})


def _retrieval(
    loaded: Any, prompts: int, seed: int, progress: Report
) -> tuple[KeyValueProfile, ShapeTest, FittedProfile]:
    """The key-value profile, the test of its shape, and the theory's curve beside its rivals."""
    from sphereflow.llm import retrieval_profile
    from sphereflow.retrieval import fit_profile, u_shape

    sets = max(_LEAST_SETS, -(-prompts // _PAIRS))
    found = retrieval_profile(loaded, pairs=_PAIRS, sets=sets, seed=seed, progress=progress)
    return found, u_shape(found.rows(), seed=seed), fit_profile(found.rows(), seed=seed)


def _files(
    heads: Any, about: dict[str, Any], retrieval: tuple[KeyValueProfile, ShapeTest, FittedProfile] | None, seed: int
) -> tuple[dict[str, bytes], list[str]]:
    """Every file as bytes, so that nothing is written before all of it is there."""
    from sphereflow.llm.measurement import pictures, record
    from sphereflow.llm.measurement.findings import findings, retrieval_finding
    from sphereflow.llm.measurement.page import Picture, measurement_page
    from sphereflow.pictures import rendered

    png = partial(rendered, kind="png")
    told = record.summary(heads, about, seed=seed)
    lines = findings(told)
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
    if retrieval is not None:
        found, test, fit = retrieval
        lines.append(retrieval_finding(found, test.facts()[0], fit.facts()[0]))
        told["key_value"] = {
            "places": found.places.tolist(),
            "probability": found.profile().tolist(),
            "error": found.error().tolist(),
            "hit": found.profile("hit").tolist(),
            "shape": test.shape,
            "p_decreasing": test.p_decreasing,
            "p_increasing": test.p_increasing,
            "c": fit.c,
            "slope": fit.slope,
            "aicc": fit.aicc,
        }
        shown["retrieval"] = Picture(
            "Retrieval by position",
            "A list of keys and values, and a question for one of them.",
            png(
                pictures.draw_retrieval(
                    found, fit.curves["theory"], f"closed form, c = {fit.c:.2g}, slope {fit.slope:.2g}"
                )
            ),
        )
    told["findings"] = lines
    tables = {"heads": record.head_table(heads), "curves": record.curve_table(heads)}
    files = {f"{name}.csv": record.as_csv(table) for name, table in tables.items()}
    for name, table in tables.items():
        packed = record.as_parquet(table)
        if packed is not None:
            files[f"{name}.parquet"] = packed
    labelled = heads.to_xarray().assign_attrs({name: str(value) for name, value in about.items()})
    files["measurement.nc"] = bytes(labelled.to_netcdf(engine="scipy"))
    files["summary.json"] = (json.dumps(told, indent=2) + "\n").encode()
    files |= {f"{name}.png": picture.png for name, picture in shown.items()}
    files["index.html"] = measurement_page(told, lines, list(shown.values()), tables["heads"])
    return files, lines
