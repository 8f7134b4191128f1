"""Wrong values of every argument of every dynamics; run as a script, it prints those that get no clear sentence."""

import sys

import numpy as np

import sphereflow as sf
from sphereflow.dynamics import RescaledFeedForward, Scaled, Sum

WRONG_NUMBERS = ["two", None, [1.0, 2.0], np.nan, np.inf, 1j, "1", {}, object()]
RAGGED = [[1.0], [1, 2]]
WRONG_ARRAYS = ["three", 1.0, np.ones(3), np.ones((2, 2, 2, 2)), np.full((3, 3), np.nan), 1j * np.eye(3), RAGGED]
WRONG_MASSES = [[0.5, 0.5, 0.5, -0.5], np.ones(4), np.full(4, np.nan), np.ones((2, 2)) / 4, "equal", 0.25]
ORIGINAL = sf.EuclideanAttention(np.eye(3))

# Dynamics: (how to make it with one argument replaced, wrong values of each argument)
ATTENTION = {
    "beta": [*WRONG_NUMBERS, -1.0],
    "normalise": ["max", 3, None],
    "query": [*WRONG_ARRAYS, np.ones((0, 3))],
    "key": WRONG_ARRAYS,
    "value": [*WRONG_ARRAYS, np.ones((1, 3)), np.ones((2, 1, 3))],
    "mask": ["causal", np.ones((4, 4)), sf.Causal],
    "weights": WRONG_MASSES,
    "kernel_scale": ["huge", 2, None],
    "engine": ["fourier", None, sf.interaction.Fourier],
    "kernel": ["gauss", 3.0, None, lambda s: s],
}
CASES = {
    "Attention": (lambda **k: sf.Attention(**{"beta": 1.0, **k}), ATTENTION),
    "SA": (
        lambda **k: sf.SA(**{"beta": 1.0, **k}),
        {"causal": ["yes", 2], "mask": ATTENTION["mask"]},
    ),
    "Perceptron": (
        lambda **k: sf.Perceptron(**{"outer": [1.0], "inner": [[1.0, 0, 0]], **k}),
        {
            "outer": [1.0, [np.nan], [1.0, 2.0], "one", [1j]],
            "inner": [[1.0, 0, 0], [[np.inf, 0, 0]], np.ones((2, 3)), "one"],
            "bias": [1.0, [1.0, 2.0], [np.nan], "zero"],
            "activation": ["swish", 3, None],
        },
    ),
    "EuclideanAttention": (
        lambda **k: sf.EuclideanAttention(**k),
        {
            "value": [*WRONG_ARRAYS, np.ones((2, 3))],
            "query": WRONG_ARRAYS,
            "key": WRONG_ARRAYS,
            "weights": WRONG_MASSES,
        },
    ),
    "LayerNormAttention": (
        lambda **k: sf.LayerNormAttention(**{"beta": 1.0, **k}),
        {
            "beta": [*WRONG_NUMBERS, -1.0],
            "scheme": ["rms", None],
            "tau": ["one", np.nan, [1.0]],
            "alpha": ["one", np.nan, [1.0]],
            "value": WRONG_ARRAYS,
            "weights": WRONG_MASSES,
        },
    ),
    "RescaledAttention": (
        lambda **k: sf.RescaledAttention(**{"original": ORIGINAL, "d": 3, **k}),
        {"original": [sf.SA(1.0), 3], "d": [2, 0, "three", 3.5], "directions": ["shrinking", None]},
    ),
    "RescaledFeedForward": (
        lambda **k: RescaledFeedForward(**{"original": ORIGINAL, "d": 3, **k}),
        {
            "original": [sf.SA(1.0), 3],
            "d": [2, 0, "three", 3.5],
            "activation": ["swish", None],
            "output": [*WRONG_ARRAYS, np.eye(2)],
        },
    ),
    "PiecewiseConstant": (
        lambda **k: sf.PiecewiseConstant(**{"switches": [1.0], "pieces": [sf.SA(1.0), sf.SA(2.0)], **k}),
        {
            "switches": [[np.nan], 1.0, [1.0, 2.0], "one", [[1.0]]],
            "pieces": [[], [sf.SA(1.0)], [1.0, 2.0], [sf.SA(1.0), sf.EuclideanAttention()], 3],
        },
    ),
    "Sum": (Sum, {"terms": [(), (1.0,), (sf.SA(1.0), ORIGINAL), 3]}),
    "Scaled": (
        lambda **k: Scaled(**{"factor": 2.0, "original": sf.SA(1.0), **k}),
        {"factor": ["two", np.nan, [1.0, 2.0], None, 1j], "original": [3, None]},
    ),
    "Alibi": (sf.Alibi, {"slope": ["one", -1.0, np.nan, [1.0]]}),
}


def fault(make, name, value):
    """What is wrong with the answer, None if it is one sentence that names the argument or what it must be."""
    try:
        make(**{name: value})
    except sf.SphereflowError as refusal:
        message = str(refusal)
        return None if "\n" not in message and len(message) < 250 else f"no sentence: {message}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "accepted"


if __name__ == "__main__":
    tried = [
        (f"{kind}({name}={str(value)[:40]!r})", fault(make, name, value))
        for kind, (make, wrong) in CASES.items()
        for name, values in wrong.items()
        for value in values
    ]
    print(len(tried), "tried")
    faults = [f"{call}: {found}" for call, found in tried if found]
    print("\n".join(faults))
    sys.exit(bool(faults))
