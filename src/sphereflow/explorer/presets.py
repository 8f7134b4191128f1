"""Runs worth watching, each named after the paper it belongs to: what happens, in plain words, and the equation."""

from __future__ import annotations

from dataclasses import dataclass

from sphereflow.explorer.settings import Settings


@dataclass(frozen=True)
class Preset:
    """A run with a name, a paragraph and a formula (LaTeX)."""

    slug: str
    title: str
    paper: str
    words: str
    formula: str
    settings: Settings


_SA = (
    r"\dot x_i = P_{x_i}\Big(\frac{1}{Z_i}\sum_{j=1}^n e^{\beta\langle x_i, x_j\rangle} x_j\Big),"
    r"\qquad Z_i = \sum_{j=1}^n e^{\beta\langle x_i, x_j\rangle}"
)

PRESETS: tuple[Preset, ...] = (
    Preset(
        "mathematical-perspective",
        "Clusters, and then one",
        "A mathematical perspective on Transformers",
        "Each token is a unit vector, each layer a small step in time. Attention pulls a token towards those that "
        "point in similar directions, so the crowd breaks up into a few clusters, and these drift together until "
        "one is left. The energy grows all the way.",
        _SA,
        Settings(n=300, d=3, beta=4.0, t1=3000.0, seed=3),
    ),
    Preset(
        "emergence-of-clusters",
        "Corners of a polytope",
        "The emergence of clusters in self-attention dynamics",
        "Without layer normalisation tokens run off to infinity. Seen in coordinates that shrink at the same rate "
        "they settle down: most of them end in the corners of a polytope, and attention becomes a choice of one "
        "leader each.",
        r"\dot z_i = \sum_{j=1}^n P_{ij}(t)\,(z_j - z_i),\qquad "
        r"P_{ij}(t) \propto e^{\beta e^{2t}\langle z_i, z_j\rangle}",
        Settings(model="euclid", n=60, d=3, beta=1.0, t1=8.0, clock="linear", seed=2),
    ),
    Preset(
        "dynamic-metastability",
        "A staircase of mergers",
        "Dynamic metastability in the self-attention model",
        "At low temperature tokens gather in clusters within a short time, and then seem to have stopped. They have "
        "not: two clusters at distance r attract each other with a force exponentially small in beta, so mergers "
        "come one by one after ever longer rests. On logarithmic time the number of clusters is a staircase.",
        _SA,
        Settings(n=60, d=2, beta=11.0, t1=20_000.0, seed=1),
    ),
    Preset(
        "kde-modes",
        "How many clusters first?",
        "On the number of modes of Gaussian kernel density estimators",
        "A step of attention is a step of mean shift: tokens climb the density that they form themselves, blurred "
        "at the scale of one over the square root of beta. The hills of this density decide how many clusters there "
        "are at first. Raise beta and count.",
        r"\dot x_i = \frac{1}{\beta}\,P_{x_i}\nabla \log \Big(\sum_{j=1}^n e^{\beta\langle x_i, x_j\rangle}\Big)",
        Settings(n=600, d=2, beta=150.0, t1=30.0, seed=1),
    ),
    Preset(
        "lost-in-the-middle",
        "A decoder looks back only",
        "Kinetic theory for Transformers and the lost-in-the-middle phenomenon",
        "In a decoder each token sees those before it. The first one never moves, the second runs to the first, and "
        "so on: early tokens decide where everyone ends. What a token in the middle held is the hardest to find "
        "again.",
        r"\dot x_i = P_{x_i}\Big(\frac{1}{Z_i}\sum_{j\le i} e^{\beta\langle x_i, x_j\rangle} x_j\Big)",
        Settings(model="causal", n=300, d=3, beta=9.0, t1=1000.0, seed=5),
    ),
    Preset(
        "perceptrons-localization",
        "A perceptron decides where",
        "Perceptrons and localization of attention's mean-field landscape",
        "Attention alone does not care where on the sphere its clusters sit. A perceptron with tied weights adds a "
        "landscape of hills: tokens climb them while they attract each other, and end as a few points at the tops.",
        r"\dot x_i = P_{x_i}\Big(\frac{1}{n}\sum_{j=1}^n e^{\beta(\langle x_i, x_j\rangle - 1)} x_j "
        r"+ \sum_{k=1}^3 \omega\,(\langle a_k, x_i\rangle)_+\, a_k\Big)",
        Settings(model="perceptron", n=400, d=3, beta=6.0, push=0.3, t1=300.0, seed=7),
    ),
    Preset(
        "synchronization-by-noise",
        "Noise brings them together",
        "Stochastic scaling limits and synchronization by noise in deep Transformer models",
        "Here attention is switched off. Every layer has random weights, but the same ones for all tokens: they are "
        "thrown about wildly, and together. Neighbours stay neighbours and the crowd shrinks to a point that never "
        "rests. Choose independent noise instead and nothing of the kind happens.",
        r"dx_i = P_{x_i}\,\xi(dt, x_i) - \frac{d-1}{2}\,\kappa(1)\,x_i\,dt,\qquad "
        r"\xi(x) = \frac{1}{\sqrt m}\sum_{k=1}^m a_k\,(\langle w_k, x\rangle)_+",
        Settings(model="common", n=400, d=3, beta=4.0, pull=0.0, noise=1.0, t1=20.0, clock="linear", seed=1),
    ),
    Preset(
        "high-dimension",
        "Sixty-four dimensions",
        "A mathematical perspective on Transformers",
        "In high dimension random tokens are nearly orthogonal and all look alike to each other, so nothing breaks "
        "the symmetry: there is one cluster and no rest on the way. The inner products of all pairs move from 0 to "
        "1 as one sharp peak.",
        _SA,
        Settings(n=64, d=64, beta=4.0, start="orthogonal", t1=100.0, seed=0),
    ),
)
BY_SLUG: dict[str, Preset] = {preset.slug: preset for preset in PRESETS}


def matching(settings: Settings) -> Preset | None:
    """The preset with these settings, at whatever speed."""
    return next((preset for preset in PRESETS if settings.same_run(preset.settings)), None)
