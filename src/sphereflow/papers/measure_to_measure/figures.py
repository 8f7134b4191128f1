"""The paper's pictures, which it draws by hand: measures on the sphere at every stage, and what the bounds say."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from sphereflow.claims import Run
from sphereflow.papers.measure_to_measure import PAPER, gates
from sphereflow.papers.measure_to_measure.clustering import RADII, clustering_times
from sphereflow.papers.measure_to_measure.disentangling import in_cap
from sphereflow.papers.measure_to_measure.perceptrons import lower_bound, trained
from sphereflow.papers.measure_to_measure.test_measures import atomic, dirac, shared_atom
from sphereflow.pictures import PALETTE, blank, look
from sphereflow.transport.sphere.disentangling import shrink, smallest_sine
from sphereflow.transport.sphere.pictures import draw_clouds, draw_gate, draw_sphere, draw_stages, view_along


@PAPER.figure(
    "stages",
    caption="Three overlapping caps on the two-sphere carried to three points (crosses) by one schedule. Above: after "
    "each phase; hollow dots are on the far side. Below: radius of each measure, and the distance of its nearest "
    "foreign particle, after every piece; grey lines separate the phases.",
    shows=("dirac-targets", "held-out"),
)
def stages(run: Run) -> Figure:
    return dirac(3, 3, 50 if run.quick else 150, run.seed).plot()


@PAPER.figure(
    "one-round",
    caption="How attention disentangles (Lemma 3.3). The blue measure has its mean orthogonal to alpha and rests while "
    "attention takes the others to plus and minus alpha; a gate (black rim) that only the blue measure is inside "
    "shrinks it; attention with the other sign brings the others back exactly.",
    shows=("orthogonal-mean-rests", "others-restored"),
)
def one_round(run: Run) -> Figure:
    route = in_cap(3, 3, 60 if run.quick else 150, run.seed)
    shown = [route.clouds]
    base = len(route.pieces)
    radius = 0.4 * float(np.arcsin(smallest_sine(route.means)))
    shrink(route, 0, radius, np.random.default_rng(run.seed))
    for piece in route.pieces[base:]:
        shown.append([piece.flow(x, m) for x, m in zip(shown[-1], route.masses, strict=True)])
    titles = (
        "three measures in one cap",
        r"attention, $V=\alpha\alpha^\top$",
        "the gate",
        r"attention, $V=-\alpha\alpha^\top$",
    )
    alpha = route.pieces[base].matrices()["V"] @ np.ones(3)
    eye = np.concatenate(shown[0]).mean(axis=0) + 0.35 * alpha / np.linalg.norm(alpha)
    with look():
        figure = blank(11.0, 3.3)
        for axes, clouds, title, index in zip(figure.subplots(1, 4), shown, titles, range(4), strict=True):
            frame = view_along(eye)
            draw_sphere(axes, frame)
            if index in (1, 2):
                draw_gate(axes, route.pieces[base + 1], frame)
            draw_clouds(axes, clouds, frame)
            axes.set_title(title, fontsize=10)
    return figure


@PAPER.figure(
    "two-atoms",
    caption="Three overlapping caps of 60 particles each become two atoms of mass one half each: gates cut off half of "
    "each cluster, then the six groups are matched one after another with the six atoms (crosses).",
    shows=("atomic-targets",),
)
def two_atoms(run: Run) -> Figure:
    found = atomic(2, 60, run.seed)
    with look():
        figure = blank(11.5, 3.1)
        draw_stages(figure, found)
    return figure


@PAPER.figure(
    "perceptrons",
    caption="Two measures that share an atom, sent to two points. Training without attention stops at the lower bound, "
    "whatever the number of pieces; with attention it passes it; the construction, which is not trained at all, "
    "is below by five orders of magnitude.",
    shows=("perceptron-lower-bound", "training-stops-at-the-bound", "shared-atom"),
)
def perceptrons(run: Run) -> Figure:
    cases = (2,) if run.quick else (2, 4, 8)
    with look():
        figure = blank(6.6, 3.8)
        axes = figure.subplots()
        for style, k in zip(("-", "--", ":"), cases, strict=False):
            for attention, colour, name in ((False, PALETTE[1], "perceptrons"), (True, PALETTE[0], "with attention")):
                curve = np.sqrt(trained(k, attention, 0).losses)
                axes.semilogy(np.arange(1, len(curve) + 1), curve, style, color=colour, label=f"{name}, {k} pieces")
        axes.axhline(lower_bound(), color="black", lw=0.8, ls="--", label="lower bound without attention")
        found = shared_atom()
        axes.axhline(found.w2.max(), color=PALETTE[2], label=f"construction, {found.n_pieces} pieces")
        axes.set(xlabel="steps of training", ylabel=r"root mean square of $W_2$", xlim=(0, None), ylim=(1e-7, 5))
        axes.legend(loc="center right")
    return figure


@PAPER.figure(
    "relay-of-balls",
    caption="A relay of five balls. Left: particles of the first ball after each of the four hops (time 200 each). "
    "Right: the share that has arrived in the last ball against the time of each hop; dots are from Runge-Kutta steps. "
    "With the sign printed in Lemma B.2 no particle inside the balls moves.",
    shows=("chain-of-balls", "dropped-mass-rate", "gate-sign"),
)
def relay_of_balls(run: Run) -> Figure:
    rng = np.random.default_rng(run.seed)
    centres = gates.chain_centres()
    first = gates.uniform_cap(rng, centres[0], 200 if run.quick else 300)
    everywhere = np.concatenate([gates.uniform_cap(rng, c, 60 if run.quick else 120) for c in centres])
    times = np.array([5, 20, 35, 50, 65, 75, 80, 85, 90, 100, 120, 160, 240, 330])
    frame = view_along(centres[2] + np.array([0.0, 0.0, 0.35]))
    with look():
        figure = blank(9.4, 3.9)
        left, right = figure.subplots(1, 2, width_ratios=(1, 1.25))
        draw_sphere(left, frame)
        draw_clouds(left, gates.hops(first, 200.0), frame, size=5)
        for centre in centres:
            draw_gate(left, gates.ball_gate(centre), frame)
        for start, colour, name in (
            (everywhere, PALETTE[0], "mass in all balls"),
            (first, PALETTE[1], "mass in the first ball"),
        ):
            right.plot(times, [gates.arrived(gates.chain(start, float(t))) for t in times], color=colour, label=name)
            stepped = [
                gates.arrived(gates.stepped_chain(start, t, 200 if run.quick else 400)) for t in (40.0, 80.0, 110.0)
            ]
            right.plot((40, 80, 110), stepped, "o", color=colour)
        right.set(xlabel="time of each hop", ylabel="share in the last ball", ylim=(-0.02, 1.03), xlim=(0, 340))
        right.legend(loc="center right")
    return figure


@PAPER.figure(
    "rates",
    caption="Left: time for attention with V = I to gather a cap of radius one to a given diameter; the line has slope "
    "one. Right: pieces that disentangle N measures, with a basis of directions as printed and with one direction.",
    shows=("clustering-rate", "time-for-accuracy", "one-direction-is-enough"),
)
def rates(run: Run) -> Figure:
    times = clustering_times(run.seed)
    dimensions = np.arange(3, 17)
    with look():
        figure = blank(8.8, 3.4)
        left, right = figure.subplots(1, 2)
        left.semilogx(1 / np.array(RADII), times, "o", label="measured")
        left.semilogx(
            1 / np.array(RADII), times[-1] + np.log(RADII[-1] / np.array(RADII)), color="0.5", label="slope one"
        )
        left.set(xlabel=r"$1/\varepsilon$", ylabel="time to diameter $\\varepsilon$")
        left.legend()
        right.plot(dimensions, 8 * (2 * (dimensions - 1) + 1), "s-", ms=3, label=r"basis, $N(2(d-1)+1)$")
        right.plot(dimensions, np.full(len(dimensions), 24), "o-", ms=3, label=r"one direction, $3N$")
        right.set(xlabel="$d$", ylabel="pieces to disentangle $N=8$ measures", ylim=(0, None))
        right.legend()
    return figure
