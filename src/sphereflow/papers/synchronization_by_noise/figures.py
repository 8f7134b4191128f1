"""The paper's pictures: which activations synchronise, tokens under one noise, energies, threshold, meeting times."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sphereflow.claims import Run
from sphereflow.papers.synchronization_by_noise import PAPER, attention, energies, meeting
from sphereflow.papers.synchronization_by_noise.chaos import PAIR
from sphereflow.papers.synchronization_by_noise.classification import covariances
from sphereflow.pictures import PALETTE, blank, look
from sphereflow.synchronisation.backward_equation import Backward, energy_decay
from sphereflow.synchronisation.covariance import of_activation, of_powers
from sphereflow.synchronisation.network import run_network, zero_crossing
from sphereflow.synchronisation.random_fields import RandomPerceptron
from sphereflow.synchronisation.two_point import TwoPoint


@PAPER.figure(
    "classification",
    caption="Activations against dimension. Each horizontal line is an activation at its ratio q; above the upper "
    "curve close tokens separate, below the lower one the gap of close tokens shrinks even in mean. "
    "Odd activations (erf, tanh, linear) make tokens meet up to sign only.",
    shows=("activation-table", "thresholds"),
)
def classification(run: Run) -> Figure:
    upper = np.geomspace(3.001, 128, 400)
    with look():
        figure = blank(7.2, 4.6)
        axes = figure.subplots()
        chaotic, coercive = (upper - 1) / (upper - 3), (upper - 3) / (upper - 1)
        axes.fill_between(upper, chaotic, 2.3, color=PALETTE[1], alpha=0.12, lw=0)
        axes.fill_between(upper, 0, coercive, color=PALETTE[2], alpha=0.15, lw=0)
        axes.plot(upper, chaotic, color=PALETTE[1])
        axes.plot(upper, coercive, color=PALETTE[2])
        rows = sorted(((law.ratio, name) for name, law in covariances().items()), reverse=True)
        places = _spread([ratio for ratio, _ in rows], 0.082)
        for (ratio, name), place in zip(rows, places, strict=True):
            axes.plot([2, 128], [ratio, ratio], color="0.45", lw=0.7)
            axes.plot([128, 145], [ratio, place], color="0.7", lw=0.6, clip_on=False)
            axes.text(150, place, f"{name.replace('He2', '$He_2$')}  {ratio:.3g}", va="center", fontsize=8)
        axes.text(30, 1.75, "tokens separate", color=PALETTE[1], ha="center")
        axes.text(2.12, 1.55, "tokens meet on\nalmost every path", fontsize=10, color="0.25")
        axes.text(30, 0.42, "energy decays also in mean", color=PALETTE[2], ha="center")
        axes.set(xscale="log", xlim=(2, 128), ylim=(0, 2.3), xlabel="dimension $d$", ylabel=r"$q=E\sigma'^2/E\sigma^2$")
        axes.set_xticks([2, 4, 8, 16, 32, 64, 128], ["2", "4", "8", "16", "32", "64", "128"])
        axes.minorticks_off()
    return figure


def _spread(values: list[float], least: float) -> list[float]:
    """Positions of labels, top to bottom: as close to the values as a least distance between them allows."""
    places = list(values)
    for _ in range(200):
        for k in range(len(places) - 1):
            overlap = least - (places[k] - places[k + 1])
            if overlap > 0:
                places[k] += overlap / 2
                places[k + 1] -= overlap / 2
        places[-1] = max(places[-1], 0.0)
    return places


@PAPER.figure(
    "one-noise-path",
    caption="Tokens on the sphere, from uniform starts, under one path of the noise each (ReLU layers with bias): "
    "attractive attention, none, repulsive attention. The exponents are -2, -1 and -1/2: in each row all tokens meet "
    "in the end, at a random place.",
    shows=("one-path-meets", "attention-shifts-the-exponent"),
)
def one_noise_path(run: Run) -> Figure:
    frames = meeting.one_path(run.quick, run.seed)[[0, 1, 2, 4, 8]]
    rows = ((0, f"$v={meeting.ATTRACTION:+g}$"), (2, "$v=0$"), (1, f"$v={meeting.REPULSION:+g}$"))
    with look():
        figure = blank(7.6, 4.9)
        panels = figure.subplots(3, 5)
        for (which, name), line in zip(rows, panels, strict=True):
            order = np.argsort(np.arctan2(frames[0, which, :, 1], frames[0, which, :, 0]))
            for axes, x, t in zip(line, frames[:, which], (0, 0.5, 1, 2, 4), strict=True):
                _globe(axes, x[order])
                if which == 0:
                    axes.set_title(f"$t={t:g}$", fontsize=10)
            line[0].text(-1.35, 0, name, rotation=90, va="center", ha="center", fontsize=11)
    return figure


def _globe(axes: Axes, x: np.ndarray) -> None:
    """Tokens seen from the direction of the third axis: those behind are pale."""
    angle = np.linspace(0, 2 * np.pi, 200)
    axes.fill(np.cos(angle), np.sin(angle), color="0.12", lw=0)
    colours = np.linspace(0, 1, len(x))
    for behind in (True, False):
        shown = (x[:, 2] < 0) == behind
        axes.scatter(
            x[shown, 0],
            x[shown, 1],
            c=colours[shown],
            cmap="hsv",
            vmin=0,
            vmax=1,
            s=9 if behind else 16,
            alpha=0.4 if behind else 1.0,
            lw=0,
        )
    axes.set(xlim=(-1.05, 1.05), ylim=(-1.05, 1.05), aspect="equal")
    axes.axis("off")


@PAPER.figure(
    "energy",
    caption="Mean energy. Left, the coercive regime: simulated clouds (dots), the exact curve without attention (line) "
    "and the bounds (dashed). Right, outside it: exact curves of uniform tokens in dimension 8, and clouds close to "
    "agreement whose mean energy grows (dots: simulated).",
    shows=("energy-curve", "energy-outside-grows", "energy-outside-plateaus"),
)
def energy(run: Run) -> Figure:
    times = np.linspace(0, 1, 26)
    with look():
        figure = blank(8.0, 3.7)
        left, right = figure.subplots(1, 2)
        found = energies.cloud_energies(energies.COERCIVE, True, None, run.quick, run.seed)
        shown = np.array([0.0, *energies.TIMES])
        left.plot(times, energy_decay(TwoPoint(6, of_powers([2.25, 0.25])), times.tolist()), color=PALETTE[0])
        for colour, v, value, error in zip(PALETTE, energies.STRENGTHS, found.value, found.error, strict=False):
            left.errorbar(shown, value, error, fmt="o", color=colour, capsize=2, label=f"$v={v:+g}$" if v else "$v=0$")
            left.plot(times, np.exp(-(6.25 - 4 * abs(v)) * times), color=colour, ls="--", lw=0.9)
        left.set(yscale="log", xlabel="$t$", ylabel=r"$E\Phi(t)/E\Phi(0)$", title=r"$c_\kappa=6.25$, $d=6$")
        left.legend(loc="lower left")
        late = np.linspace(0, 3, 31)
        for colour, name in zip(PALETTE[3:], ("relu", "tanh", "hermite2"), strict=False):
            label = {"relu": "ReLU", "tanh": "tanh", "hermite2": "He$_2$"}[name]
            right.plot(late, energy_decay(TwoPoint(8, of_activation(name)), late.tolist()), color=colour, label=label)
        outside = energies.cloud_energies(energies.OUTSIDE, False, 1e-3, run.quick, run.seed + 1)
        right.errorbar(
            shown[:3],
            outside.value[0, :3],
            outside.error[0, :3],
            fmt="o",
            color="black",
            capsize=2,
            label="near agreement, $c_\\kappa=-1.25$",
        )
        right.plot(times[:13], np.exp(1.25 * times[:13]), color="black", ls="--", lw=0.9)
        right.set(yscale="log", xlabel="$t$", ylabel=r"$E\Phi(t)/E\Phi(0)$", title=r"$c_\kappa<0$", ylim=(0.08, 4))
        right.set_yticks([0.1, 0.25, 0.5, 1, 2, 4], ["0.1", "0.25", "0.5", "1", "2", "4"])
        right.minorticks_off()
        right.legend(loc="upper right")
    return figure


@PAPER.figure(
    "threshold-against-attention",
    caption="Growth rate of the distance of two tokens against the strength of repulsive attention, for two noises: "
    "simulated (dots, with standard errors), theory (lines), and the threshold located by simulation (bars).",
    shows=("attention-shifts-the-exponent",),
)
def threshold(run: Run) -> Figure:
    v = np.linspace(-0.1, 2.1, 2)
    with look():
        figure = blank(5.8, 3.8)
        axes = figure.subplots()
        axes.axhline(0, color="0.6", lw=0.8)
        for k, (colour, case) in enumerate(zip(PALETTE, attention.CASES, strict=False)):
            found = attention.pair_rates(case, run.quick, run.seed + k)
            crossing = zero_crossing(attention.REPULSIONS, found)
            axes.plot(
                v,
                case.theory() + v,
                color=colour,
                label=f"{_named(case.constant, case.linear)}, $v_c={-case.theory():g}$",
            )
            axes.errorbar(attention.REPULSIONS, found.value, found.error, fmt="o", color=colour, capsize=3)
            axes.errorbar(
                [float(crossing.value)],
                [0],
                xerr=[3 * float(crossing.error)],
                fmt="|",
                color=colour,
                lw=3,
                ms=12,
                capsize=0,
            )
        axes.text(0.02, 0.07, "tokens separate", color="0.4", fontsize=9)
        axes.text(0.02, -0.17, "tokens meet", color="0.4", fontsize=9)
        axes.set(xlabel="repulsion $|v|$", ylabel="growth rate of the distance", xlim=(-0.1, 2.1))
        axes.legend(loc="lower right")
    return figure


def _named(constant: float, linear: float) -> str:
    return r"$\xi=a$" if linear == 0 else rf"$\xi={constant:g}\,a+{linear:g}\,Wx$"


@PAPER.figure(
    "times-to-meet",
    caption="Mean time until two ReLU tokens, orthogonal at first, are within a distance of each other, exact, with "
    "one standard deviation. The slope is the same in all dimensions, the constant is not; dashed: the slope alone.",
    shows=("meeting-times",),
)
def meeting_times(run: Run) -> Figure:
    distances = np.geomspace(1e-6, 0.5, 13)
    law = of_activation("relu")
    with look():
        figure = blank(5.8, 3.8)
        axes = figure.subplots()
        for colour, d in zip(PALETTE, (3, 8, 64), strict=False):
            table = np.array([Backward(TwoPoint(d, law), cells=400).meeting_time(float(x)) for x in distances])
            spread = np.sqrt(table[:, 1])
            axes.fill_between(distances, table[:, 0] - spread, table[:, 0] + spread, color=colour, alpha=0.1, lw=0)
            axes.plot(distances, table[:, 0], color=colour, label=f"$d={d}$")
        axes.plot(distances, 2 * np.log(1 / distances), color="0.4", ls="--", lw=1, label=r"$\log(1/\delta)/|\lambda|$")
        axes.set(xscale="log", xlabel=r"distance $\delta$", ylabel=r"time $T_\delta$", ylim=(0, 45))
        axes.invert_xaxis()
        axes.legend(loc="upper left")
        if not run.quick:
            inset = axes.inset_axes((0.62, 0.08, 0.36, 0.3))
            inset.hist(meeting.simulated_times(run.seed), bins=40, color=PALETTE[1], density=True)
            inset.set_title(r"simulated, $d=8$, $\delta=10^{-3}$", fontsize=8)
            inset.set_yticks([])
    return figure


@PAPER.figure(
    "invariant-density",
    caption="Invariant density of the overlap of two tokens under the chaotic flow of the second Hermite polynomial in "
    "dimension 8: tokens keep meeting and parting.",
    shows=("invariant-law",),
)
def invariant_law(run: Run) -> Figure:
    z, weights = Backward(PAIR).invariant
    r = np.tanh(z)
    density = weights / (z[1] - z[0]) / (1 - r**2 + 1e-300)
    seen = np.abs(r) < 0.998
    with look():
        figure = blank(5.2, 3.4)
        axes = figure.subplots()
        axes.plot(r[seen], density[seen], label="invariant density")
        uniform = (1 - r[seen] ** 2) ** 2.5
        axes.plot(
            r[seen],
            uniform / np.sum(uniform * np.gradient(r[seen])),
            color="0.6",
            ls="--",
            label="independent uniform tokens",
        )
        axes.set(xlabel=r"$r=\langle x,y\rangle$", ylabel="density", xlim=(-1, 1), ylim=(0, 2.4))
        axes.legend(loc="upper left")
    return figure


@PAPER.figure(
    "one-realisation-on-the-circle",
    caption="Density of 4000 tokens on the circle along one realisation: the stochastic transport equation carries "
    "mass to a moving random point.",
    presets=("paper",),
    shows=("law-given-the-noise", "tokens-given-the-noise"),
)
def circle(run: Run) -> Figure:
    theta = np.random.default_rng(run.seed).uniform(-np.pi, np.pi, 4000)
    x = np.stack([np.cos(theta), np.sin(theta)], axis=-1)[None]
    frames = np.asarray(
        run_network(RandomPerceptron("relu", 16, bias=1.0), x, layers=800, step=0.005, seed=run.seed, saves=100)
    )
    angles = np.arctan2(frames[:, 0, :, 1], frames[:, 0, :, 0])
    edges = np.linspace(-np.pi, np.pi, 181)
    table = np.array([np.histogram(row, edges, density=True)[0] for row in angles])
    with look():
        figure = blank(6.0, 3.6)
        axes = figure.subplots()
        image = axes.pcolormesh(
            np.linspace(0, 4, 101),
            (edges[1:] + edges[:-1]) / 2,
            np.log10(table.T + 1e-3),
            shading="nearest",
            rasterized=True,
        )
        figure.colorbar(image, ax=axes, label=r"$\log_{10}$ density")
        axes.set(xlabel="$t$", ylabel="angle")
    return figure
