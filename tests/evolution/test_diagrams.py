"""Phase diagrams: every replica has its own matrices, and what is counted is what plain loops count."""

import threading

import jax
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.sparse.csgraph import connected_components

import sphereflow as sf
from sphereflow.errors import SphereflowError
from sphereflow.evolution import phase_diagram
from sphereflow.evolution.diagrams import observed
from sphereflow.evolution.ensembles import draw_matrices
from sphereflow.evolution.equiangular import collapse_time

N, TIMES, BETAS = 6, [0.5, 1.5], [0.7, 2.0]
START = np.asarray(sf.sphere.fibonacci(N))  # the same for every replica, so that only matrices differ


def law(key):
    return tuple(np.asarray(m) for m in jax.random.normal(key, (3, 3, 3)))


class Recorded:
    """A law that remembers what it drew, in order."""

    def __init__(self):
        self.drawn = []

    def __call__(self, key):
        self.drawn.append(law(key))
        return self.drawn[-1]


def followed(matrices, beta, times, x0, softmax):
    """Tokens at the times by SciPy, for a list of matrices that take over from one another at equal intervals."""
    x, t, frames, stops = x0, 0.0, [], np.arange(1, len(matrices) + 1) * (times[-1] / len(matrices))
    for (q, k, v), stop in zip(matrices, stops, strict=True):

        def field(_, flat, q=q, k=k, v=v):
            x = flat.reshape(N, -1)
            kernel = np.exp(beta * (x @ q.T) @ (x @ k.T).T)
            average = kernel @ x / (kernel.sum(axis=1, keepdims=True) if softmax else N)
            pull = average @ v.T
            return (pull - np.sum(pull * x, axis=1, keepdims=True) * x).ravel()

        inside = [s for s in times if t < s <= stop]
        asked = np.union1d(inside, [stop])
        found = solve_ivp(field, (t, stop), x.ravel(), "DOP853", t_eval=asked, rtol=1e-10, atol=1e-10)
        frames += [found.y[:, i].reshape(N, -1) for i in range(len(inside))]
        x, t = found.y[:, -1].reshape(N, -1), stop
    return frames


def by_loops(observable, x, threshold):
    products = x @ x.T
    pairs = products[~np.eye(N, dtype=bool)]
    if observable == "overlap":
        return pairs.mean()
    return {"close": np.mean(pairs > threshold), "clusters": connected_components(products > threshold)[0]}[observable]


def test_replicas_agree_with_plain_loops_and_have_their_own_matrices():
    kept = Recorded()
    found = phase_diagram(
        TIMES, BETAS, n=N, d=3, matrices=kept, start="fibonacci", observable="overlap", repeats=3, tol=1e-8
    )
    assert found.samples.shape == (3, 2, 2)
    assert len(kept.drawn) == 3
    others = {
        name: phase_diagram(
            TIMES, BETAS, n=N, d=3, matrices=law, start="fibonacci", observable=name, threshold=0.4, repeats=3, tol=1e-8
        )
        for name in ("close", "clusters")
    }
    for r, matrices in enumerate(kept.drawn):
        for b, beta in enumerate(BETAS):
            for t, x in enumerate(followed([matrices], beta, TIMES, START, softmax=True)):
                assert found.samples[r, b, t] == pytest.approx(by_loops("overlap", x, 0.4), abs=1e-6)
                for name, diagram in others.items():
                    assert diagram.samples[r, b, t] == pytest.approx(by_loops(name, x, 0.4))
    np.testing.assert_allclose(found.value, found.samples.mean(axis=0))
    np.testing.assert_allclose(found.error, found.samples.std(axis=0, ddof=1) / np.sqrt(3))
    assert len({round(float(s), 9) for s in found.samples[:, 0, 0]}) == 3
    assert "its own matrices" in found.facts()[2]


@pytest.mark.slow
def test_fresh_matrices_take_over_and_usa_runs_on_the_raw_kernel():
    kept = Recorded()
    options = {"n": N, "d": 3, "start": "fibonacci", "observable": "overlap", "repeats": 2, "tol": 1e-9}
    found = phase_diagram(TIMES, BETAS, matrices=kept, resample=0.5, **options)
    assert len(kept.drawn) == 6
    raw = phase_diagram(TIMES, BETAS, matrices=law, model="usa", kernel_scale="raw", **options)
    for r in range(2):
        for b, beta in enumerate(BETAS):
            frames = followed(kept.drawn[3 * r : 3 * r + 3], beta, TIMES, START, softmax=True)
            assert found.samples[r, b] == pytest.approx([by_loops("overlap", x, 0) for x in frames], abs=1e-6)
    again = Recorded()
    phase_diagram([0.1], [0.0], matrices=again, **options)
    frames = followed(again.drawn[:1], BETAS[0], TIMES, START, softmax=False)
    assert raw.samples[0, 0] == pytest.approx([by_loops("overlap", x, 0) for x in frames], abs=1e-6)


def test_equal_inner_products_cross_the_level_on_the_curve():
    expected = [collapse_time(4, beta, 0.5) for beta in (1.0, 3.0)]
    for index, t in enumerate(expected):
        found = phase_diagram([t], [1.0, 3.0], n=4, d=4, start="orthogonal", observable="overlap", repeats=2, tol=1e-9)
        assert found.value[index, 0] == pytest.approx(0.5, abs=1e-7)
        np.testing.assert_allclose(found.curve, expected)
    higher = phase_diagram(
        [expected[0]], [1.0, 3.0], n=4, d=9, start="orthogonal", observable="overlap", repeats=2, tol=1e-9
    )
    assert higher.value[0, 0] == pytest.approx(0.5, abs=1e-7)  # followed in the span


def test_a_chain_is_one_cluster_of_rank_three():
    angles = np.array([0.0, 0.3, 0.6, 2.0])
    x = np.stack([np.cos(angles), np.sin(angles)], axis=1)[None, None]
    assert observed("rank", x, np.cos(0.4)) == 4  # the chain counts three times
    assert observed("rank", x, np.cos(0.7)) == 2
    assert observed("span", x, 1e-3) == 2
    lost = np.full_like(x, np.nan)
    assert np.isnan(observed("rank", lost, 0.5)).all()
    assert np.isnan(observed("one", np.full((1, 1, 3), np.nan), 0.5)).all()


def test_the_laws_of_random_matrices():
    rng, d = np.random.default_rng(0), 40
    for form, diagonal in (("gaussian", 1.0), ("goe", 2.0)):
        products = [q.T @ k for q, k, _ in (draw_matrices(form, "identity", d, rng) for _ in range(40))]
        off = np.array([m[~np.eye(d, dtype=bool)] for m in products])
        assert off.std() == pytest.approx(1.0, rel=0.02)
        assert np.var([np.diag(m) for m in products]) == pytest.approx(diagonal, rel=0.15)
        symmetric = np.allclose(products[0], products[0].T)
        assert symmetric == (form == "goe")
    q, k, v = draw_matrices("goe", "-form", d, rng)
    np.testing.assert_allclose(v, -q.T @ k / np.sqrt(d + 1))
    q, k, v = draw_matrices("gaussian", "form", d, rng)
    np.testing.assert_allclose(v, q.T @ k / np.sqrt(d))
    assert np.linalg.eigvalsh(draw_matrices("identity", "gaussian", d, rng)[2]).min() > -1e-9
    assert np.array_equal(draw_matrices("identity", "-form", d, rng)[2], -np.eye(d))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"betas": [-1.0, 1.0]}, "none of them negative"),
        ({"times": [1.0, 1.0]}, "increasing"),
        ({"times": [0.0]}, "above 0"),
        ({"matrices": "wigner"}, "matrices must be"),
        ({"matrices": "goe", "value": "qk"}, "value must be"),
        ({"matrices": (np.eye(2), None, None), "value": "form"}, "your matrices bring their own V"),
        ({"matrices": (np.eye(3), None, None)}, "d=2, got d=3"),
        ({"matrices": lambda key: [np.eye(2)]}, "three matrices"),
        ({"observable": "entropy"}, "observable must be"),
        ({"repeats": 1}, "repeats must be"),
        ({"resample": 0.0, "matrices": "goe"}, "resample must be"),
        ({"threshold": 1.0}, "threshold must be"),
        ({"n": 1}, "n must be"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(change, words):
    with pytest.raises(SphereflowError, match=words) as told:
        phase_diagram(**({"times": [1.0], "betas": [1.0]} | change))
    assert str(told.value).count(". ") == 0


def test_progress_is_reported_by_the_thread_that_called():
    threads = set()
    phase_diagram(
        [0.0, 0.5],
        np.linspace(0.1, 2, 6),
        n=4,
        repeats=2,
        progress=lambda share, words: threads.add((threading.get_ident(), share <= 1)),
    )
    assert threads == {(threading.get_ident(), True)}


def test_the_picture_names_the_mean_and_stays_in_the_data():
    """The line of 0.5 through a value that rises from 0 to 1 over two times lies in the middle; error bars shift it."""
    times, betas = np.array([0.0, 2.0]), np.array([1.0, 4.0])
    rising = np.array([[[0.0, 0.8], [0.0, 0.8]], [[0.0, 1.2], [0.0, 1.2]]])
    found = sf.evolution.diagrams.ClusterDiagram(times, betas, rising, "close", 0.999, True, None)
    figure = found.plot()
    axes, bar = figure.axes
    assert (axes.get_xlim(), axes.get_ylim()) == ((0.0, 2.0), (1.0, 4.0))
    assert "mean of 2 replicas" in bar.get_ylabel()
    # Standard error 0.2 at t=2: the mean plus and minus it reach 0.5 at 1/1.2 and 1/0.8.
    places = [path.vertices[:, 0].mean() for each in axes.collections[1:] for path in each.get_paths()]
    np.testing.assert_allclose(sorted(places), [1 / 1.2, 1.0, 1 / 0.8])
