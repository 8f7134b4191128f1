"""`sphereflow collapse`: when the representations of a random Transformer collapse, and what delays it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from sphereflow.cli.output import answer, say

if TYPE_CHECKING:
    from sphereflow.random_transformers.collapse import Architecture, Measured, Prediction

_REGIMES = {
    "ballistic": "ballistic",
    "modified": "ballistic, corrected",
    "diffusive": "diffusive",
    "outside": "beyond the proved ones",
}


def command(
    d: Annotated[int | None, typer.Option("--d", help="Width: dimension of a token (64).")] = None,
    n: Annotated[int, typer.Option("--n", help="Context: number of tokens.")] = 32,
    layers: Annotated[int | None, typer.Option(help="Depth (1000, or the config's).")] = None,
    heads: Annotated[int | None, typer.Option(help="Heads per layer, averaged (4).")] = None,
    step: Annotated[float | None, typer.Option(help="Step eta of a layer (0.1).")] = None,
    beta: Annotated[float | None, typer.Option(help="Inverse temperature of attention (1).")] = None,
    weight_scale: Annotated[
        float | None, typer.Option(help="Scale of Q^T K: logits have size beta times it (1).")
    ] = None,
    value_scale: Annotated[float | None, typer.Option(help="Scale of V: 1, the default, is the variance 1/d.")] = None,
    repeats: Annotated[int | None, typer.Option(help="Networks to run beside the prediction (16; 4); 0: none.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of weights and tokens.")] = 0,
    config: Annotated[
        str | None, typer.Option(help="A real architecture instead: gpt2, llama, or a config.json of transformers.")
    ] = None,
    width: Annotated[int | None, typer.Option(help="With --config: another width.")] = None,
    scale: Annotated[
        float | None, typer.Option(help="With --config: factor of the projections into the residual stream.")
    ] = None,
    level: Annotated[
        float | None, typer.Option(help="With --config: advice keeps the cosine of tokens at or below this (0.5).")
    ] = None,
) -> None:
    """Say at which layer a random Transformer collapses and which knob delays it, with the network run beside.

    With --config: cosines of tokens through a real architecture at initialisation, and tested advice.

    Example: sphereflow collapse --config llama --width 512 --layers 24
    """
    from sphereflow.errors import whole_number

    whole_number("--seed", seed, least=0)
    ours = {"d": d, "heads": heads, "step": step, "beta": beta, "weight-scale": weight_scale}
    ours |= {"value-scale": value_scale}
    theirs = {"width": width, "scale": scale, "level": level}
    _refuse_unused(theirs if config is None else ours, config)
    if config is not None:
        _initial(config, n, layers, width, scale, level, repeats, seed)
        return
    from sphereflow.random_transformers.collapse import Architecture, measure, predict

    repeats = 16 if repeats is None else whole_number("--repeats", repeats, least=0)
    usual = {"d": 64, "heads": 4, "step": 0.1, "beta": 1.0, "weight-scale": 1.0, "value-scale": 1.0}
    chosen: dict[str, Any] = {name.replace("-", "_"): usual[name] if v is None else v for name, v in ours.items()}
    architecture = Architecture(n=n, layers=1000 if layers is None else layers, **chosen)
    prediction = predict(architecture)
    measured = None
    if repeats:
        measured = measure(architecture, max(repeats, 2), seed=seed)
    answer(_record(architecture, prediction, measured, seed))
    _print(architecture, prediction, measured)


def _refuse_unused(options: dict[str, Any], config: str | None) -> None:
    """Options of the other kind of network are refused, not overlooked."""
    from sphereflow.errors import SphereflowError

    for name, value in options.items():
        if value is not None:
            raise SphereflowError(f"--{name} goes {'only' if config is None else 'not'} with --config.")


def _initial(
    config: str,
    n: int,
    layers: int | None,
    width: int | None,
    scale: float | None,
    level: float | None,
    repeats: int | None,
    seed: int,
) -> None:
    from sphereflow.random_transformers import initial_collapse

    collapse = initial_collapse(
        config,
        n=n,
        layers=layers,
        width=width,
        scale=1.0 if scale is None else scale,
        level=0.5 if level is None else level,
        repeats=4 if repeats is None else repeats,
        seed=seed,
    )
    answer(collapse.record())
    b, last = collapse.blocks, collapse.blocks.layers
    say(f"{b.family}: width {b.width}, {last} layers, {b.heads} heads, {n} tokens, logits of deviation")
    say(f"{b.score_deviation:.2f}, {len(collapse.measured)} networks with fresh weights")
    if b.score_deviation > 1:
        say("(above 1 the recursion's expansion of attention is not to be trusted)")
    say()
    say(f"{'mean cosine at layer':<24}{'measured':>18}{'recursion':>12}{'flat':>8}{'logistic':>10}")
    for k in sorted({0, 1, last // 4, last // 2, last}):
        value, error = (float(each) for each in collapse.cosine(k))
        column = f"{f'{value:.3f} +- {error:.3f}':>18}"
        say(f"{k:<24}{column}{collapse.recursion[k]:>12.3f}{collapse.flat[k]:>8.3f}{collapse.logistic[k]:>10.3f}")
    say()
    if not collapse.advice:
        say(f"tokens stay apart: the cosine is to be at most {collapse.level:g} after layer {last}, and is.")
        return
    say(f"to keep the cosine at {collapse.level:g} after layer {last}, each tried on fresh networks:")
    say(f"{'multiply':<36}{'by':>8}{'predicted':>12}{'measured':>18}")
    for each in collapse.advice:
        value, error = (float(part) for part in each.measured)
        say(f"{each.change:<36}{each.factor:>8.3g}{each.predicted:>12.3f}{f'{value:.3f} +- {error:.3f}':>18}")


def _record(a: Architecture, prediction: Prediction, measured: Measured | None, seed: int) -> dict[str, Any]:
    import dataclasses

    from sphereflow.provenance import versions
    from sphereflow.random_transformers.collapse import LEVELS, predicted_overlap

    scales = a.clock
    record: dict[str, Any] = {
        "architecture": dataclasses.asdict(a),
        "sharpness": a.sharpness,
        "tau": scales.tau,
        "regime": scales.regime,
        "predicted": {
            "depth": {f"{level:g}": depth for level, depth in zip(LEVELS, prediction.depths, strict=True)},
            "folding_depth": prediction.folding,
            "final_overlap": prediction.final_overlap,
        },
        "knobs": [knob._asdict() for knob in prediction.knobs],
        "versions": versions(),
    }
    if measured is not None:
        end = measured.overlap_at_end()
        record["measured"] = {
            "repeats": measured.overlap.shape[0],
            "seed": seed,
            "depth": {
                f"{level:g}": {"mean": _number(e.value), "error": _number(e.error), "arrived": share}
                for level, e, share in zip(LEVELS, measured.passages, measured.arrived, strict=True)
            },
            "layers": measured.depths.astype(int).tolist(),
            "overlap": measured.overlap.mean(axis=0).tolist(),
            "predicted_overlap": predicted_overlap(a, measured.depths).tolist(),
            "effective_rank": measured.rank.mean(axis=0).tolist(),
            "final_overlap": {"mean": float(end.value), "error": float(end.error)},
        }
    return record


def _number(value: Any) -> float | None:
    import math

    return float(value) if math.isfinite(float(value)) else None


def _print(a: Architecture, prediction: Prediction, measured: Measured | None) -> None:
    from sphereflow.random_transformers.collapse import LEVELS, predicted_overlap

    scales = a.clock
    say(f"width {a.d}, context {a.n}, {a.layers} layers, {a.heads} heads, step {a.step:g}, beta {a.beta:g}")
    say(f"diffusive time of the whole depth: {scales.tau:.4g}; regime: {_REGIMES[scales.regime]}")
    say()
    say(f"{'layers until':<28}{'predicted':>12}" + ("" if measured is None else f"{'measured':>20}"))
    for k, (level, depth) in enumerate(zip(LEVELS, prediction.depths, strict=True)):
        say(f"{f'mean overlap {level:g}':<28}{depth:>12.0f}" + _arrival(measured, k))
    say(f"{'gaps shrink by e, after':<28}{prediction.folding:>12.0f}")
    say()
    heading = "" if measured is None else f"{'measured':>20}{'rank':>8}"
    say(f"{'mean overlap at layer':<28}{'predicted':>12}{heading}")
    if measured is None:
        say(f"{a.layers:<28}{prediction.final_overlap:>12.3f}")
    else:
        curve = predicted_overlap(a, measured.depths)
        last = len(measured.depths) - 1
        for k in sorted({0, last // 4, last // 2, 3 * last // 4, last}):
            value, error = measured.overlap[:, k].mean(), _spread(measured.overlap[:, k])
            text = f"{value:.3f} +- {error:.3f}"
            say(f"{measured.depths[k]:<28.0f}{curve[k]:>12.3f}{text:>20}{measured.rank[:, k].mean():>8.1f}")
    say()
    say(f"{'what would delay collapse':<28}{'from':>12}{'to':>12}{'depth times':>14}")
    for knob in prediction.knobs:
        say(f"{knob.name:<28}{knob.before:>12g}{knob.after:>12g}{knob.factor:>14.2f}")
    say()
    say(_verdict(a, prediction))


def _spread(values: Any) -> float:
    from sphereflow.estimates import mean

    return float(mean(values).error)


def _arrival(measured: Measured | None, k: int) -> str:
    if measured is None:
        return ""
    share = measured.arrived[k]
    if share < 1:
        return f"{f'{100 * share:.0f} % arrived':>20}"
    passage = measured.passages[k]
    return f"{f'{float(passage.value):.0f} +- {float(passage.error):.0f}':>20}"


def _verdict(a: Architecture, prediction: Prediction) -> str:
    best = prediction.knobs[0]
    if prediction.depths[1] <= a.layers:
        state = f"collapsed by layer {prediction.depths[1]:.0f} of {a.layers}"
    elif prediction.depths[0] <= a.layers:
        state = f"half collapsed at layer {prediction.depths[0]:.0f} of {a.layers}"
    else:
        state = f"no collapse within {a.layers} layers"
    same = [knob.name for knob in prediction.knobs if knob.factor > 0.99 * best.factor]
    return f"{state};\ncollapse is delayed most by {' or '.join(same)} (x {best.factor:.1f})."
