"""The exhibits, by name: what is seen, why, and the lines that make it."""

from __future__ import annotations

from sphereflow.figures.exhibits.exhibit import (
    Exhibit,
    as_density,
    by_number,
    by_start,
    by_three_ends,
    coloured,
    of_run,
    of_runs,
)

EXHIBITS: dict[str, Exhibit] = {
    "clusters": Exhibit(
        "Clusters on the sphere",
        "Two hundred tokens attend to each other. Each is drawn towards those it resembles, and a few clusters "
        "are left.",
        "2312.10794",
        """import sphereflow as sf
run = sf.simulate(n=200, d=3, beta=9.0, t1=30.0, saves=151)""",
        of_run,
        moment=0.1,
    ),
    "metastability": Exhibit(
        "Clusters that rest",
        "On the circle clusters form by time ten, then stand almost still. The farther apart two of them are, the "
        "longer they wait before they merge. Time runs on a logarithmic scale, up to a hundred thousand.",
        "2410.06833",
        """import sphereflow as sf
times = [0.0] + [10 ** (k / 24) for k in range(-24, 121)]
run = sf.evolve(sf.SA(36.0), sf.draw("uniform", 60, 2), saveat=times)""",
        of_run,
        moment=0.55,
    ),
    "with-and-without-softmax": Exhibit(
        "With and without softmax",
        "The same tokens by two models. Softmax divides by the sum of all weights. Without that every token is "
        "slower, and one with few tokens near it is slowest.",
        "2312.10794",
        """import sphereflow as sf
x0, times = sf.draw("uniform", 120, 3, seed=2), [0.0] + [10 ** (k / 50) for k in range(-50, 111)]
models = {"With softmax (SA)": sf.SA(9.0), "Without (USA)": sf.USA(9.0)}
runs = {name: sf.evolve(model, x0, saveat=times) for name, model in models.items()}""",
        of_runs,
        moment=0.65,
    ),
    "causal": Exhibit(
        "Tokens that look back only",
        "In a decoder a token sees those before it. The first one sees no other and never moves, and clusters "
        "form around early tokens. Colours are places in the prompt.",
        "2605.09213",
        """import sphereflow as sf
run = sf.simulate(n=120, d=3, beta=9.0, t1=40.0, causal=True, seed=3, saves=151)""",
        coloured(by_number),
        moment=0.25,
    ),
    "perceptron": Exhibit(
        "A perceptron steers",
        "Beside attention there are two neurons. Each pushes the tokens on its side of the sphere in one "
        "direction, and attention gathers what comes together.",
        "2601.21366",
        """import sphereflow as sf
neurons = sf.Perceptron(outer=[1.0, 1.0], inner=[[0.0, 0.0, 2.0], [2.0, 0.0, -1.0]], bias=[-0.5, -0.5])
run = sf.evolve(sf.USA(4.0) + neurons, sf.draw("uniform", 150, 3), 20.0, saveat=151)""",
        of_run,
        moment=0.35,
    ),
    "random-layers": Exhibit(
        "One random layer for all",
        "No attention at all: layers are random perceptrons, new at every depth, but the same for all tokens. The "
        "noise that they share carries them about, and brings them together. Colours say where tokens began.",
        "2604.26898",
        """import sphereflow as sf
layer = sf.synchronisation.random_fields.RandomPerceptron("tanh", width=64, bias=1.0)
x0, depth = sf.draw("uniform", 150, 3)[None], dict(layers=3000, step=0.004, saves=150)
ts, xs = [k * 0.08 for k in range(151)], sf.synchronisation.run_network(layer, x0, **depth)[:, 0]""",
        coloured(by_start),
        moment=0.2,
        trail=0.12,
    ),
    "repulsion": Exhibit(
        "Tokens that avoid each other",
        "With the opposite sign of the values, tokens leave those that they resemble. From one half of the sphere "
        "they spread as far apart as they can. Colours say where tokens began.",
        "2312.10794",
        """import sphereflow as sf
model = sf.USA(16.0, value=[[-1.0, 0.0, 0.0], [0.0, -1.0, 0.0], [0.0, 0.0, -1.0]])
run = sf.evolve(model, sf.draw("hemisphere", 150, 3), 300.0, saveat=151)""",
        coloured(by_start),
        moment=0.3,
    ),
    "vortex": Exhibit(
        "Values that turn",
        "Here the value matrix also turns what it is given. Tokens gather in clusters, and the clusters go round.",
        "2305.05465",
        """import sphereflow as sf
model = sf.SA(9.0, value=[[1.0, -1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 0.3]])
run = sf.evolve(model, sf.draw("uniform", 150, 3), 20.0, saveat=151)""",
        of_run,
        moment=0.2,
        trail=0.12,
    ),
    "corners": Exhibit(
        "Corners without normalisation",
        "Without a sphere tokens grow for ever. Seen in coordinates that grow along, each goes to a corner of a "
        "polygon that a few leading tokens span. Colours say where tokens began.",
        "2305.05465",
        """import sphereflow as sf
model = sf.dynamics.RescaledAttention(sf.dynamics.EuclideanAttention(), d=2)
run = sf.evolve(model, 2 * sf.draw("uniform", 90, 4)[:, :2], 6.0, saveat=121)""",
        coloured(by_start, bare=True),
        trail=1.0,
    ),
    "transport": Exhibit(
        "A measure moved by neurons",
        "Two hundred and forty neurons, one after the other, each move half of the plane. Together they carry a "
        "Gaussian cloud to three smaller ones. Colours say where points end; t counts neurons.",
        "2412.19366",
        """import sphereflow as sf
target = sf.transport.Mixture([[1.5, 0.0], [-0.75, 1.3], [-0.75, -1.3]], 0.25).sample(4000)
schedule = sf.transport.gaussianise(target, frames=12).schedule
ts, xs = range(0, 241, 10), schedule.frames(sf.transport.gaussian(2).sample(600), 24)""",
        coloured(by_three_ends, bare=True),
        trail=0.3,
    ),
    "density": Exhibit(
        "A crowd as a density",
        "Twenty thousand tokens, spread evenly over the circle but for chance. Attention makes that noise grow, "
        "some waves faster than others, until clusters stand where the waves had their crests.",
        "2312.10794",
        """import sphereflow as sf
run = sf.simulate(n=20_000, d=2, beta=16.0, t1=10.0, saves=81, tol=1e-6)""",
        as_density,
        trail=0.0,
    ),
    "many-dimensions": Exhibit(
        "Sixty-four dimensions",
        "In high dimension random tokens are almost at right angles to each other, and all of them go to one "
        "cluster. Three directions are shown. Colours say where tokens began.",
        "2312.10794",
        """import sphereflow as sf
run = sf.simulate(n=150, d=64, beta=4.0, t1=12.0, saves=151)""",
        coloured(by_start),
        moment=0.3,
    ),
}
