r"""Identities of the equation itself, which any correct integration obeys."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import scipy.linalg

from sphereflow.claims import Measurement, Run, agreement, at_most
from sphereflow.dynamics import EuclideanAttention, RescaledAttention
from sphereflow.evolution import SOLVERS, evolve
from sphereflow.papers.emergence_of_clusters import PAPER
from sphereflow.papers.emergence_of_clusters.flow import PLANAR, attention, original, rescaled, start


@PAPER.claim(
    "rescaling",
    statement="Integrating x and rescaling at the end, or integrating z = exp(-tV) x, gives the same tokens.",
    source="Definition of the rescaled tokens",
    formula=r"z_i(t)=e^{-tV}x_i(t)",
    falsifier="logits of z in place of exp(tV) z, or V in place of its transpose",
)
def rescaling(run: Run) -> Measurement:
    sizes, deviations = (1.0, 5.0), []
    for size in sizes:
        z = rescaled(start(20, 2, size), (0.0, 3.0), value=PLANAR, tol=1e-10)[-1]
        x = original(start(20, 2, size), (0.0, 3.0), value=PLANAR, tol=1e-10)[-1]
        deviations.append(np.abs(x @ scipy.linalg.expm(-3 * PLANAR).T - z).max())
    return at_most(
        np.zeros(2),
        deviations,
        slack=1e-7,
        because="both solves are accurate to 1e-10; exp(-tV) expands the negative direction by 1.2 and attention "
        "amplifies errors by a few orders",
        labels=tuple(f"S(20,2,{size:g})" for size in sizes),
        parameters={"n": 20, "d": 2, "t1": 3},
    )


@PAPER.claim(
    "single-token",
    statement="One token alone attends to itself and follows the linear flow.",
    source="The equation with n = 1",
    formula=r"n=1:\quad x(t)=e^{tV}x(0)",
    falsifier="a token that does not see itself",
)
def single_token(run: Run) -> Measurement:
    x0 = np.array([[0.6, -0.4]])
    exact = x0 @ scipy.linalg.expm(3 * PLANAR).T
    x = original(x0, (0.0, 3.0), value=PLANAR, tol=1e-13)[-1]
    return agreement(
        0.0,
        np.abs(x - exact).max() / np.abs(exact).max(),
        absolute=1e-10,
        because="the solver's tolerance is 1e-13",
        parameters={"n": 1, "d": 2, "t1": 3},
    )


@PAPER.claim(
    "equal-tokens",
    statement="Equal tokens stay equal, follow the linear flow, and attend to each other evenly.",
    source="The equation with equal tokens",
    formula=r"x_i=x_1:\quad x_i(t)=e^{tV}x_1(0),\quad P_{ij}=1/n",
    falsifier="an attention matrix whose rows do not sum to one",
)
def equal_tokens(run: Run) -> Measurement:
    n = 12
    x0 = np.repeat([[0.6, -0.4]], n, axis=0)
    exact = x0 @ scipy.linalg.expm(3 * PLANAR).T
    x = original(x0, (0.0, 3.0), value=PLANAR, tol=1e-13)[-1]
    return agreement(
        [0.0, 0.0],
        [np.abs(x - exact).max() / np.abs(exact).max(), np.abs(attention(x) - 1 / n).max()],
        absolute=1e-10,
        because="the solver's tolerance is 1e-13",
        labels=("tokens", "attention"),
        parameters={"n": n, "d": 2, "t1": 3},
    )


@PAPER.claim(
    "scaling-symmetry",
    statement="Tokens c times larger with Q and K divided by c move in the same way, c times larger.",
    source="The equation has no temperature and no factor 1/sqrt(d)",
    formula=r"(Q,K,x_0)\mapsto(Q/c,K/c,c\,x_0):\quad x\mapsto c\,x,\ P\mapsto P",
    falsifier="a stray 1/sqrt(d), beta or normalisation",
)
def scaling_symmetry(run: Run) -> Measurement:
    c, x0 = 3.0, start(12, 2, 1.0)
    shrink = np.eye(2) / c
    x = original(x0, (0.0, 2.0), value=PLANAR, tol=1e-13)[-1]
    y = original(c * x0, (0.0, 2.0), value=PLANAR, query=shrink, key=shrink, tol=1e-13)[-1]
    return agreement(
        [0.0, 0.0],
        [
            np.abs(y - c * x).max() / np.abs(c * x).max(),
            np.abs(attention(y, query=shrink, key=shrink) - attention(x)).max(),
        ],
        absolute=1e-9,
        because="the solver's tolerance is 1e-13; attention amplifies it through the logits",
        labels=("tokens", "attention"),
        parameters={"n": 12, "d": 2, "c": c, "t1": 2},
    )


@PAPER.claim(
    "order-of-convergence",
    statement="Halving a fixed step divides the error by 2^p, p being the order of the solver.",
    source="Discretisation; the scheme of the original code freezes attention and is of order one",
    formula=r"\frac{\|z^{(h)}-z\|}{\|z^{(h/2)}-z\|}\to 2^p",
    falsifier="a stage that uses the attention matrix of another stage: the factor is then 1.96",
)
def order_of_convergence(run: Run) -> Measurement:
    names = ("bosh3",) if run.quick else ("heun", "bosh3", "tsit5")
    model = RescaledAttention(EuclideanAttention(), 2)
    x0 = start(12, 2, 1.0)
    exact = rescaled(x0, (0.0, 1.0), tol=1e-13)[-1]
    ratios, predicted, labels = [], [], []
    for name in names:
        errors = [
            np.abs(evolve(model, jnp.asarray(x0), saveat=(0.0, 1.0), solver=name, dt=dt).final - exact).max()
            for dt in (1 / 20, 1 / 40, 1 / 80)
        ]
        ratios += [errors[0] / errors[1], errors[1] / errors[2]]
        predicted += [2.0 ** SOLVERS[name][1]] * 2
        labels += [f"{name}, steps 1/20 to 1/40", f"{name}, steps 1/40 to 1/80"]
    return agreement(
        predicted,
        ratios,
        relative=0.15,
        because="at these steps the next term of the error is within 15 per cent of the leading one",
        labels=tuple(labels),
        parameters={"n": 12, "d": 2, "t1": 1},
    )
