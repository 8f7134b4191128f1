r"""What value geometry is good for: choosing the keys that heads keep, at equal numbers of keys.

$$\alpha_i\,|W_O(v_i-z)|/r\ge\varepsilon:$$
recorded losses of two models, 24 windows each, rules matched to the same number of keys within 1 %. The statements were
settled before the runs (`benchmarks/sparsity.py`): `contribution` and `deviation` below `uniform` and below `mass` at
N = 4, 8, 16 and 32, in both models, by the upper end of a 99 % interval of the difference paired by window. That
statement fails; the claims below are what is left of it, chosen after the losses had been seen. It was asked of Gemma
3 270M later (12 windows of 192 tokens, N = 4, 8, 16), and fails there in every comparison.
"""

from __future__ import annotations

from sphereflow.claims import Check, Run, basis
from sphereflow.llm.sparse.shipped import sparsity_curve
from sphereflow.papers.attention_geometry import PAPER

LEVEL = 0.99
BECAUSE = "the 99 % interval over windows, paired, towards zero"
NOTE = "The statement settled beforehand was for both models, N = 4 to 32, and both comparisons: it fails."

LOSES = "the same interval, 12 windows; stated after it was seen"
GEMMA = "gemma3-270m-help"
CURVES = {"SmolLM2": "smollm2-help", "stories15M": "stories15m-books"}


def compare(check: Check, pairs: list[tuple[str, str, str, tuple[int, ...]]]) -> None:
    """Rows for (model, rule, other rule, numbers of keys): what the other loses more than the rule."""
    for model, rule, other, keep in pairs:
        found = sparsity_curve(CURVES[model])
        gap = found.difference(rule, other, level=LEVEL)
        for n in keep:
            k = found.keep.index(n)
            row = f"{model}, N={n}: {other} - {rule}"
            check.positive(row, measured=-gap.value[k], tolerance=gap.high[k] - gap.value[k], because=BECAUSE)


@PAPER.claim(
    "values-choose-keys-better-than-weights",
    says="At equal numbers of kept keys, 4, 8 or 16 per query and head, the rule by deviation (what the output loses "
    "without a key) costs SmolLM2-135M and stories15M less loss than top-p, which looks at weights alone. So does the "
    "rule by contribution (what a key adds to the residual stream), but for 4 keys in SmolLM2, where 24 windows do not "
    "decide. In Gemma 3 270M, where a norm follows attention that the rules know nothing of, both cost more.",
    basis=basis.Extension("a use of value geometry: recorded losses of two models"),
    formula=r"\alpha_i\,|W_Ov_i|/r\ge\varepsilon,\qquad\alpha_i\,|W_O(v_i-z)|/r\ge\varepsilon",
)
def values_better_than_weights(run: Run) -> Check:
    check = Check(parameters={"windows": 24, "level": LEVEL}, note=NOTE)
    rules = ("contribution", "deviation")
    decided = {("SmolLM2", "contribution"): (8, 16)}
    pairs: list[tuple[str, str, str, tuple[int, ...]]] = [
        (model, rule, "mass", decided.get((model, rule), (4, 8, 16))) for model in CURVES for rule in rules
    ]
    compare(check, pairs)
    behind = sparsity_curve(GEMMA)
    for rule in rules:
        gap = behind.difference(rule, "mass", level=LEVEL)
        for n, value, low in zip(behind.keep, gap.value, gap.low, strict=True):
            row = f"Gemma, N={n}: {rule} - mass"
            check.positive(row, measured=value, tolerance=value - low, because=LOSES)
    return check


@PAPER.claim(
    "values-choose-keys-better-than-equal-shares",
    says="In SmolLM2-135M the rule by deviation costs less loss than the N largest weights of every head for N = 4, "
    "8, 16 and 32, and less than the rule by contribution for N = 4 and 8; the rule by contribution costs less than "
    "equal shares for N = 8, 16 and 32, not for 4. In stories15M neither differs from equal shares.",
    basis=basis.Extension("a use of value geometry: recorded losses of two models"),
    formula=r"\alpha_i\,|W_O(v_i-z)|/r\ge\varepsilon",
)
def values_better_than_equal_shares(run: Run) -> Check:
    check = Check(parameters={"windows": 24, "level": LEVEL}, note=NOTE)
    pairs: list[tuple[str, str, str, tuple[int, ...]]] = [
        ("SmolLM2", "deviation", "uniform", (4, 8, 16, 32)),
        ("SmolLM2", "deviation", "contribution", (4, 8)),
        ("SmolLM2", "contribution", "uniform", (8, 16, 32)),
    ]
    compare(check, pairs)
    tied = sparsity_curve(CURVES["stories15M"])
    for rule in ("contribution", "deviation"):
        gap = tied.difference(rule, "uniform", level=LEVEL)
        inside = sum(low <= 0 <= high for low, high in zip(gap.low, gap.high, strict=True))
        check.same(f"stories15M: {rule} and uniform tie", predicted=4, measured=float(inside), because="a count of N")
    return check
