"""Random compositions of dynamics, each beside a transcription in plain NumPy that shares no code with the library.

A composition is drawn as a pair: the model, and a function (t, x) -> velocity written from the formulas of the papers
with dense matrices and loops over heads.
"""

import numpy as np
from scipy.linalg import expm

import sphereflow as sf
from sphereflow.dynamics import RescaledFeedForward
from sphereflow.interaction import PositionWeights

N, D = 5, 3


def tangent(x, v):
    return v - np.sum(x * v, axis=1, keepdims=True) * x


def averages(scores, visible, masses):
    """(softmax average of the rows of x, logarithm of the sum of masses times exp(scores)), row by row."""
    with np.errstate(divide="ignore"):
        logits = np.where(visible > 0, scores + np.log(np.where(visible > 0, visible, 1.0)), -np.inf) + np.log(masses)
    highest = np.max(logits, axis=1, keepdims=True)
    weights = np.where(np.isfinite(logits), np.exp(logits - highest), 0.0)
    total = weights.sum(axis=1, keepdims=True)
    return weights / total, (np.log(total) + highest)[:, 0]


def pull(x, beta, softmax, heads, visible, masses, raw):
    out = np.zeros_like(x)
    for q, k, v in heads:
        scores = beta * (x @ q.T @ (x @ k.T).T - 1)
        share, log_sum = averages(scores, visible, masses)
        mean = share @ x
        if not softmax:
            seen = np.log((visible * masses).sum(axis=1))
            mean = mean * np.exp(log_sum - seen + (beta if raw else 0.0))[:, None]
        out += mean @ v.T
    return out


def draw_attention(rng, kind=None):
    softmax = rng.random() < 0.5 if kind is None else kind == "softmax"
    beta, raw = rng.choice([0.0, rng.uniform(0.1, 4.0)], p=[0.1, 0.9]), bool(rng.random() < 0.3)
    options, heads = {}, rng.integers(1, 4)
    stacked = heads > 1 or rng.random() < 0.5
    matrices = {}
    for name in ("query", "key", "value"):
        if rng.random() < 0.4:
            matrices[name] = rng.normal(size=(heads, D, D)) / 1.5
    if "query" in matrices and "key" in matrices and rng.random() < 0.3:
        matrices["query"], matrices["key"] = matrices["query"][:, :2], matrices["key"][:, :2]
    if not matrices:
        heads = 1
    options |= {name: m if stacked else m[0] for name, m in matrices.items()}
    masses = np.full(N, 1 / N)
    if rng.random() < 0.4:
        masses = rng.dirichlet(np.ones(N))
        options["weights"] = masses
    i, j = np.meshgrid(np.arange(N), np.arange(N), indexing="ij")
    visible = np.ones((N, N))
    choice = rng.integers(5)
    if choice == 1:
        options["mask"], visible = sf.Causal(), (j <= i).astype(float)
    elif choice == 2:
        options["mask"], visible = sf.Alibi(0.3), np.where(j <= i, np.exp(-0.3 * (i - j)), 0.0)
    elif choice == 3:
        options["mask"], visible = PositionWeights(lambda a, b: -0.1 * (a - b) ** 2), np.exp(-0.1 * (i - j) ** 2)
    elif choice == 4:
        options |= {"mask": PositionWeights(lambda a, b: -0.2 * (a - b) ** 2), "causal": True}
        visible = np.where(j <= i, np.exp(-0.2 * (i - j) ** 2), 0.0)
    eye = np.eye(D)
    plain = [
        tuple(matrices[name][h] if name in matrices else eye for name in ("query", "key", "value"))
        for h in range(heads)
    ]
    model = (sf.SA if softmax else sf.USA)(beta, kernel_scale="raw" if raw else "peak", **options)
    return model, lambda t, x: tangent(x, pull(x, beta, softmax, plain, visible, masses, raw))


ACTIVATIONS = {"tanh": np.tanh, "relu": lambda s: np.maximum(s, 0), "softplus": lambda s: np.logaddexp(0, s)}


def draw_perceptron(rng):
    count = rng.integers(1, 4)
    outer, inner, bias = rng.normal(size=count), rng.normal(size=(count, D)) / 1.5, rng.normal(size=count) / 3
    # Kinks of relu cost any solver its order; they are tried on their own.
    name = str(rng.choice(["tanh", "softplus"]))

    def field(t, x):
        hidden = ACTIVATIONS[name](x @ inner.T + bias)
        return tangent(x, (hidden * outer) @ inner)

    return sf.Perceptron(outer, inner, bias, name), field


def draw_euclidean(rng):
    value = rng.normal(size=(D, D)) / 2
    query, key = (rng.normal(size=(2, D)) / 1.5 for _ in range(2))
    masses = rng.dirichlet(np.ones(N)) if rng.random() < 0.5 else np.full(N, 1 / N)
    matrices = {"query": query, "key": key} if rng.random() < 0.7 else {}
    q, k = (query, key) if matrices else (np.eye(D), np.eye(D))

    def share(x):
        return averages(x @ q.T @ (x @ k.T).T, np.ones((N, N)), masses)[0]

    model = sf.EuclideanAttention(value, weights=masses, **matrices)
    kind = rng.integers(3)
    if kind == 0:
        return model, lambda t, x: share(x) @ x @ value.T

    def rescaled(t, z):
        return (share(z @ expm(t * value).T) @ z - z) @ value.T

    if kind == 1:
        return sf.RescaledAttention(model, D), rescaled
    output = rng.normal(size=(D, D)) / 2
    return RescaledFeedForward(model, D, "tanh", output=output), lambda t, z: np.tanh(rescaled(t, z)) @ output.T


def draw_layernorm(rng):
    scheme = str(rng.choice(["post", "pre", "mix", "peri", "ngpt", "sqrt", "ln-scaling"]))
    beta, tau, alpha, value = rng.uniform(0.2, 3.0), 0.37, 0.8, rng.normal(size=(D, D)) / 2
    masses = rng.dirichlet(np.ones(N))
    heads, visible = [(np.eye(D), np.eye(D), value)], np.ones((N, N))

    def field(t, x):
        r = np.linalg.norm(x, axis=1, keepdims=True)
        theta = x / r
        a = pull(theta, beta, True, heads, visible, masses, False)
        along, size = np.sum(theta * a, axis=1, keepdims=True), np.linalg.norm(a, axis=1, keepdims=True)
        now = ("post" if t < tau else "pre") if scheme == "mix" else scheme
        s, growth = {
            "post": (1.0, 0.0),
            "pre": (r, along),
            "peri": (r * size, along / size),
            "ngpt": (size / alpha, 0.0),
            "sqrt": (np.sqrt(t + 1), 0.0),
            "ln-scaling": (r * np.sqrt(t + 1), along / np.sqrt(t + 1)),
        }[now]
        return growth * theta + r / s * tangent(theta, a)

    model = sf.LayerNormAttention(beta, scheme, tau=tau, alpha=alpha, value=value, weights=masses)
    return model, field


def draw_base(rng, space):
    kinds = [draw_attention, draw_attention, draw_perceptron] if space == "sphere" else [draw_euclidean, draw_layernorm]
    return kinds[rng.integers(len(kinds))](rng)


def draw_composition(rng, space, depth=2):
    """(model, NumPy field): a base dynamics, or a sum, difference, multiple, negation or schedule of compositions."""
    kind = rng.integers(6) if depth else 0
    if kind == 0:
        return draw_base(rng, space)
    model, field = draw_composition(rng, space, depth - 1)
    if kind == 1:
        return -model, lambda t, x: -field(t, x)
    if kind == 2:
        c = float(rng.uniform(-1.5, 1.5))
        return c * model, lambda t, x: c * field(t, x)
    other, second = draw_composition(rng, space, depth - 1)
    if kind == 3:
        return model + other, lambda t, x: field(t, x) + second(t, x)
    if kind == 4:
        return model - other, lambda t, x: field(t, x) - second(t, x)
    switch = float(rng.uniform(0.1, 0.9))
    schedule = sf.PiecewiseConstant([switch], [model, other])
    return schedule, lambda t, x: field(t, x) if t < switch else second(t, x)
