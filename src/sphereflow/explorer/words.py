"""The paragraph and the formula beside the sphere."""

from __future__ import annotations

from html import escape

from sphereflow.explorer.presets import BY_SLUG, matching
from sphereflow.explorer.settings import Settings
from sphereflow.report.formula import formula


def about(settings: Settings) -> str:
    """HTML about a run: that of its preset, or of its model."""
    preset = matching(settings)
    if preset is None:
        words, latex = _MODELS[settings.model]
        return f"<h2>{escape(settings.caption())}</h2><p>{escape(words)}</p>{formula(latex)}"
    source = f"From “{escape(preset.paper)}”."
    words = f"<h2>{escape(preset.title)}</h2><p>{escape(preset.words)}</p>"
    return f"{words}{formula(preset.formula)}<p class='sf-paper'>{source}</p>"


_MODELS = {
    "sa": (
        "Every token is pulled towards a softmax average of all tokens, and stays on the sphere.",
        BY_SLUG["mathematical-perspective"].formula,
    ),
    "usa": (
        "Attention without the softmax denominator: a gradient flow, slow for tokens that see little mass.",
        r"\dot x_i = P_{x_i}\Big(\frac{1}{n}\sum_{j=1}^n e^{\beta(\langle x_i, x_j\rangle - 1)} x_j\Big)",
    ),
    "causal": (
        "Each token sees itself and those before it; the first one never moves.",
        BY_SLUG["lost-in-the-middle"].formula,
    ),
    "perceptron": (
        "Unnormalised attention and three neurons with tied weights, drawn from the seed: together a gradient flow.",
        BY_SLUG["perceptrons-localization"].formula,
    ),
    "common": (
        "Layers of random weights that all tokens share, eight neurons wide, with attention of strength v.",
        r"x_i \leftarrow N\Big(x_i + \frac{h v}{Z_i}\sum_{j=1}^n e^{\beta\langle x_i, x_j\rangle} x_j"
        r" + \sqrt h\,\xi(x_i)\Big),\qquad \xi(x) = \frac{\sigma}{\sqrt 8}\sum_{k=1}^8 a_k\,(\langle w_k, x\rangle)_+",
    ),
    "own": (
        "Every token has a Brownian motion of its own: it keeps apart what attention draws together.",
        r"dx_i = P_{x_i}\Big(\frac{v}{Z_i}\sum_{j=1}^n e^{\beta\langle x_i, x_j\rangle} x_j\,dt + \sigma\,dB_i\Big)"
        r" - \frac{d-1}{2}\,\sigma^2 x_i\,dt",
    ),
    "euclid": (
        "Tokens without layer normalisation, in coordinates that shrink as fast as the tokens grow.",
        BY_SLUG["emergence-of-clusters"].formula,
    ),
}
