r"""Train a small network of the GPT-2 architecture with softmax at several temperatures and with other normalisers.

    python benchmarks/normaliser_training.py OUT [SECONDS]

Six layers, six heads, width 384, context 256, bytes as tokens (10.7 million parameters), on the sources of the Python
that runs this: 95 % of the files to train on, the rest to score. AdamW, 600 steps of 128 windows, clipped at norm 1.
Attention weights are $\nu(\langle q,k\rangle/\sqrt{d_h})$ with $\nu$ softmax at temperature T in .03, .1, .3, 1, 3,
scalable softmax $e^{\ln(L)\,l}$ for L visible keys, entmax of order 1.5, sparsemax. One seed after the other, all
normalisers each, until SECONDS have passed: every seed that is written has all of them. Needs PyTorch and a GPU.

Writes OUT/training.npz (losses, norms of the gradient before clipping, sizes of logits, entropies, by run) and the
weights of the first run at T = 1, in bfloat16, in three parts.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
import sys
import sysconfig
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

LAYERS, HEADS, WIDTH, CONTEXT, BATCH, STEPS, WARMUP = 6, 6, 384, 256, 128, 600, 100
RATE, LOWEST_RATE, CLIP = 1e-3, 1e-4, 1.0
SCORED = (50, 100, 200, STEPS)  # steps after which the held-out loss is taken
VARIANTS = (
    "softmax .03",
    "softmax .1",
    "softmax .3",
    "softmax 1",
    "softmax 3",
    "scalable softmax",
    "entmax 1.5",
    "sparsemax",
)
TEMPERATURES, SEEDS, OTHER_SEEDS = 5, 5, 2  # softmax comes first, and with more seeds


def corpus() -> tuple[Tensor, Tensor, dict[str, object]]:
    """(bytes to train on, bytes to score, where they come from), split by file."""
    library = Path(sysconfig.get_paths()["stdlib"])
    files = sorted(p for p in library.rglob("*.py") if not {"site-packages", "dist-packages"} & set(p.parts))
    random.Random(0).shuffle(files)
    held = len(files) // 20
    texts = [b"\n".join(p.read_bytes() for p in part) for part in (files[held:], files[:held])]
    told = {"python": sys.version.split()[0], "files": len(files), "bytes": [len(t) for t in texts]}
    told["digests"] = [hashlib.sha256(t).hexdigest()[:32] for t in texts]
    train, scored = (torch.frombuffer(bytearray(t), dtype=torch.uint8) for t in texts)
    return train, scored, told


class Entmax(torch.autograd.Function):
    r"""$[(a-1)l-\tau]_+^{1/(a-1)}$ for a = 2 (sparsemax) or 1.5, with the threshold from sorted logits."""

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, logits: Tensor, order: float) -> Tensor:
        x = (order - 1) * (logits - logits.amax(-1, keepdim=True))
        top = x.sort(-1, descending=True).values
        k = torch.arange(1, x.shape[-1] + 1, device=x.device, dtype=x.dtype)
        hidden = torch.isinf(top)
        top = top.masked_fill(hidden, 0.0)
        mean = top.cumsum(-1) / k
        if order == 2.0:
            tau = mean - 1 / k
        else:
            variance = (top**2).cumsum(-1) / k - mean**2
            tau = mean - ((1 / k - variance).clamp(min=0)).sqrt()
        support = ((tau <= top) & ~hidden).sum(-1, keepdim=True)
        weights = (x - tau.gather(-1, support - 1)).clamp(min=0)
        weights = weights if order == 2.0 else weights**2
        ctx.save_for_backward(weights)
        ctx.order = order
        return weights

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, gradient: Tensor) -> tuple[Tensor, None]:
        (weights,) = ctx.saved_tensors
        s = (weights > 0).to(weights.dtype) if ctx.order == 2.0 else weights.sqrt()
        along = s * gradient
        return along - s * (along.sum(-1, keepdim=True) / s.sum(-1, keepdim=True)), None


def normaliser(variant: str) -> Callable[[Tensor, Tensor], Tensor]:
    """Logits (..., query, key) with -inf where hidden, and the number of visible keys, to weights."""
    name, _, number = variant.partition(" ")
    if variant == "scalable softmax":
        return lambda logits, visible: torch.softmax(logits * visible.clamp(min=2).log()[:, None], -1)
    if name == "softmax":
        temperature = float(number)
        return lambda logits, visible: torch.softmax(logits / temperature, -1)
    order = 2.0 if name == "sparsemax" else float(number)
    return lambda logits, visible: Entmax.apply(logits, order)


class Attention(nn.Module):
    """Causal attention with a normaliser of one's own."""

    def __init__(self, variant: str):
        super().__init__()
        self.variant, self.weights = variant, normaliser(variant)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.size = self.entropy = torch.zeros(())
        self.observed = False

    def forward(self, x: Tensor) -> Tensor:
        b, n, _ = x.shape
        q, k, v = (part.view(b, n, HEADS, -1).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        root = math.sqrt(q.shape[-1])
        if self.variant.startswith("softmax") and not self.observed:
            scale = 1 / (root * float(self.variant.split()[1]))
            z = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale)
        else:
            logits = (q @ k.transpose(-1, -2)).float() / root
            hidden = torch.ones(n, n, dtype=torch.bool, device=x.device).triu(1)
            visible = torch.arange(1, n + 1, device=x.device, dtype=torch.float32)
            weights = self.weights(logits.masked_fill(hidden, -torch.inf), visible)
            if self.observed:
                self.size = (q.float().norm(dim=-1).mean() * k.float().norm(dim=-1).mean()) / root
                entropy = -torch.xlogy(weights, weights).sum(-1)
                self.entropy = (entropy[..., 1:] / visible[1:].log()).mean()
            z = weights.to(v.dtype) @ v
        return self.out(z.transpose(1, 2).reshape(b, n, WIDTH))


class Block(nn.Module):
    def __init__(self, variant: str):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = Attention(variant)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Network(nn.Module):
    """GPT-2: learned positions, norms before the layers, the table of tokens used again at the end."""

    def __init__(self, variant: str):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(256, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(Block(variant) for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        for name, weight in self.named_parameters():
            if weight.ndim > 1:
                last = name.endswith(("out.weight", "down.weight"))
                nn.init.normal_(weight, std=0.02 / (math.sqrt(2 * LAYERS) if last else 1))
            elif name.endswith("bias"):
                nn.init.zeros_(weight)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids) + self.positions.weight[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.norm(x) @ self.tokens.weight.T


def loss_of(network: Network, ids: Tensor) -> Tensor:
    """Mean -log probability of the next byte, in nats."""
    with torch.autocast("cuda", torch.bfloat16):
        logits = network(ids[:, :-1])
    return F.cross_entropy(logits.float().flatten(0, 1), ids[:, 1:].flatten())


def draw(text: Tensor, count: int, generator: torch.Generator) -> Tensor:
    starts = torch.randint(len(text) - CONTEXT - 1, (count, 1), generator=generator, device=text.device)
    return text[starts + torch.arange(CONTEXT + 1, device=text.device)].long()


@torch.no_grad()
def held_out(network: Network, text: Tensor) -> tuple[float, float, float]:
    """(loss, mean |q||k|/sqrt(d_h), mean entropy of rows relative to its largest value), on fixed windows."""
    same = torch.Generator(text.device).manual_seed(1)
    losses = [float(loss_of(network, draw(text, BATCH, same))) for _ in range(4)]
    attentions = [block.attention for block in network.blocks]
    for attention in attentions:
        attention.observed = True
    loss_of(network, draw(text, 8, same))
    for attention in attentions:
        attention.observed = False
    seen = [[float(getattr(a, name)) for a in attentions] for name in ("size", "entropy")]
    return float(np.mean(losses)), float(np.mean(seen[0])), float(np.mean(seen[1]))


def train(variant: str, seed: int, text: Tensor, scored: Tensor) -> tuple[dict[str, np.ndarray], Network]:
    torch.manual_seed(seed)
    network = Network(variant).cuda()
    windows = torch.Generator(text.device).manual_seed(1000 + seed)  # all normalisers see the same windows
    decayed = [w for w in network.parameters() if w.ndim > 1]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": [w for w in network.parameters() if w.ndim == 1]}]
    optimiser = torch.optim.AdamW(groups, lr=RATE, betas=(0.9, 0.95), weight_decay=0.0, fused=True)
    losses, norms, marks = [], [], [held_out(network, scored)]
    begun = time.perf_counter()
    for step in range(STEPS):
        share = min(1.0, max(0.0, (step - WARMUP) / (STEPS - WARMUP)))
        rate = (
            RATE * (step + 1) / WARMUP
            if step < WARMUP
            else LOWEST_RATE + (RATE - LOWEST_RATE) * 0.5 * (1 + math.cos(math.pi * share))
        )
        for group in optimiser.param_groups:
            group["lr"] = rate
        loss = loss_of(network, draw(text, BATCH, windows))
        loss.backward()
        norms.append(nn.utils.clip_grad_norm_(network.parameters(), CLIP).detach())
        losses.append(loss.detach())
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        if step + 1 in SCORED:
            marks.append(held_out(network, scored))
    torch.cuda.synchronize()
    found = {"loss": torch.stack(losses), "gradient_norm": torch.stack(norms)}
    series = {name: row.float().cpu().numpy() for name, row in found.items()}
    return series | {"held_out": np.array(marks), "seconds": np.array(time.perf_counter() - begun)}, network


def main(out: Path, limit: float) -> None:
    begun = time.perf_counter()
    torch.set_float32_matmul_precision("high")
    text, scored, told = corpus()
    text, scored = text.cuda(), scored.cuda()
    runs: dict[tuple[int, str], dict[str, np.ndarray]] = {}
    for seed in range(SEEDS):
        for variant in VARIANTS if seed < OTHER_SEEDS else VARIANTS[:TEMPERATURES]:
            if time.perf_counter() - begun > limit:
                break
            found, network = train(variant, seed, text, scored)
            runs[seed, variant] = found
            last = found["held_out"][-1]
            print(
                f"seed {seed} {variant:17s} loss {last[0]:.4f} |q||k|/root d {last[1]:.2f} entropy {last[2]:.3f} "
                f"gradient {np.median(found['gradient_norm']):.3f} {np.quantile(found['gradient_norm'], 0.99):.3f} "
                f"{found['seconds']:.1f} s",
                flush=True,
            )
            if seed == 0 and variant == "softmax 1":
                save(network, out)
    told |= {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
    told["parameters"] = sum(w.numel() for w in network.parameters())
    every = {name: np.array([run[name] for run in runs.values()]).astype(np.float32) for name in found}
    np.savez_compressed(
        out / "training.npz",
        seed=np.array([seed for seed, _ in runs]),
        variant=np.array([variant for _, variant in runs]),
        scored=np.array((0, *SCORED)),
        source=json.dumps(told),
        **every,
    )


def save(network: Network, out: Path) -> None:
    """The weights as bfloat16, in three files."""
    state = {name: w.detach().to(torch.bfloat16).cpu() for name, w in network.state_dict().items()}
    names = sorted(state, key=lambda name: state[name].numel())
    for part in range(3):
        torch.save({name: state[name] for name in names[part::3]}, out / f"weights{part}.pt")


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 480.0)
