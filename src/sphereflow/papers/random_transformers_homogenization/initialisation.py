r"""Real architectures at initialisation: networks of GPT-2's and Llama's blocks against the recursion of a wide one.

$$K\mathrel{+}=HkD\sigma^2\sigma_O^2\,E[PAP^T],\qquad K\mathrel{+}=DF\sigma_{\rm down}^2\,\kappa(A)\,[\sigma^2A].$$
The paper's limit is about attention alone, without mask, and small steps; these networks have masks, MLPs, and in Llama
a first layer that is larger than what it is added to.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from sphereflow.claims import Check, Run, basis
from sphereflow.estimates import mean
from sphereflow.papers.random_transformers_homogenization import PAPER
from sphereflow.random_transformers.blocks import Blocks, read_blocks
from sphereflow.random_transformers.gram_recursion import gram_path, logistic
from sphereflow.random_transformers.initial_network import run_cosines

WIDE = 1024


def blocks_of(family: str, width: int, layers: int) -> Blocks:
    """The defaults of the family (deviation 0.02) with four heads, and an MLP of four times the width."""
    names = {"gpt2": ("n_embd", "n_head"), "llama": ("hidden_size", "num_attention_heads")}[family]
    config = {"model_type": family, names[0]: width, names[1]: 4, "intermediate_size": 4 * width}
    return read_blocks(config, layers=layers)


@PAPER.claim(
    "cosines-at-initialisation",
    says="In networks of GPT-2's and of Llama's pre-norm blocks with fresh weights (causal mask, MLP) the mean cosine "
    "of different tokens follows the recursion of the Gram matrix of a wide network; the logistic curve of "
    "homogenisation, the recursion without mask and that without MLP do not describe them.",
    basis=basis.Derived("the variance of random weights, layer by layer, at large width"),
    formula=r"K\mathrel{+}=HkD\sigma^2\sigma_O^2\,E[PAP^T],\quad K\mathrel{+}=DF\sigma_O^2\,\kappa(A)\,[\sigma^2A]",
)
def cosines_at_initialisation(run: Run) -> Check:
    width, n, repeats = (256, 16, 20) if run.quick else (512, 32, 48)
    depths = {"gpt2": (4, 12), "llama": (1, 4, 12)} if run.quick else {"gpt2": (4, 24, 200), "llama": (1, 4, 24)}
    check = Check(parameters={"width": width, "n": n, "repeats": repeats})
    rivals: dict[str, dict[str, float]] = {"logistic in tau": {}, "no mask": {}, "no MLP": {}}
    for family, layers in depths.items():
        blocks = blocks_of(family, width, layers[-1])
        first = 10_000 * run.seed + (0 if family == "gpt2" else 5_000)
        measured = mean(np.array([run_cosines(blocks, n, first + k) for k in range(repeats)]))
        path, times = gram_path(blocks, n)
        at = list(layers)
        rows = [f"{family}, layer {layer}" for layer in layers]
        check.series(
            rows,
            predicted=path[at],
            measured=measured.value[at],
            error=measured.error[at],
            repeats=repeats,
            tolerance=4 / width,
            because="error bars, and corrections of relative order 1/D of a network of finite width",
        )
        others = {
            "logistic in tau": logistic(times, n),
            "no mask": gram_path(dataclasses.replace(blocks, causal=False), n)[0],
            "no MLP": gram_path(dataclasses.replace(blocks, mlp=False), n)[0],
        }
        for name, values in others.items():
            rivals[name].update(zip(rows, values[at].tolist(), strict=True))
    for name, predicted in rivals.items():
        check.rival(name, predicted)
    return check


@PAPER.claim(
    "attention-at-initialisation-is-not-flat",
    says="In one Llama block of width 1024 with fresh weights of deviation 0.02, whose logits have deviation 0.41, "
    "tokens end less close than with flat attention: the first order in the variance of the logits, rotary positions "
    "included, gives the cosine.",
    basis=basis.Derived("the softmax expanded in Gaussian logits, about flat attention"),
    formula=r"E\,s_{ij}s_{kl}=\sigma^4A_{ik}A_{jl}\,c(i-j-k+l)",
)
def attention_is_not_flat(run: Run) -> Check:
    n, repeats = (16, 48) if run.quick else (32, 200)
    blocks = blocks_of("llama", WIDE, 1)
    check = Check(parameters={"width": WIDE, "n": n, "repeats": repeats, "logits": blocks.score_deviation})
    plain = dataclasses.replace(blocks, mlp=False)
    flat = {}
    for name, each, offset in (("with MLP", blocks, 0), ("without MLP", plain, 5_000)):
        first = 10_000 * run.seed + offset
        measured = mean(np.array([run_cosines(each, n, first + k)[1] for k in range(repeats)]))
        check.row(
            name,
            predicted=gram_path(each, n)[0][1],
            measured=measured.value,
            error=measured.error,
            repeats=repeats,
            tolerance=4 / WIDE + blocks.score_deviation**4,
            because="error bars, 1/D, and the next order of the expansion",
        )
        flat[name] = float(gram_path(each, n, order=0)[0][1])
    check.rival("flat attention", flat)
    check.rival("no update by attention or MLP", 0.0)
    return check
