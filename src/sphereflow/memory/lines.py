"""Every named line of the phase diagrams, with the layer of the theory it belongs to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from sphereflow.errors import one_of, real_number
from sphereflow.memory import compact, gaussian, spherical

PLANES = ("lse", "lsr")
LAYERS = ("gaussian", "spherical")


@dataclass(frozen=True)
class Line:
    """A load for every temperature; NaN where the line does not exist."""

    name: str
    layer: str
    meaning: str
    temperatures: Float[np.ndarray, " t"]
    loads: Float[np.ndarray, " t"]


def check_plane(kernel: str, sharpness: float) -> float:
    """The sharpness as a number, if the kernel has a phase diagram for it."""
    one_of("kernel", kernel, PLANES)
    if kernel == "lse":
        return real_number("beta", sharpness, above=0, most=1e3)
    return real_number("beta (the number b of the lsr kernel)", sharpness, above=1, most=1e3)


def named_lines(
    kernel: str, sharpness: float, temperatures: Float[np.ndarray, " t"], sizes: tuple[int, ...] = ()
) -> list[Line]:
    """All lines of the kernel, in both layers; `sizes` adds the finite-N thresholds."""
    sharpness = check_plane(kernel, sharpness)
    make = _lse if kernel == "lse" else _lsr
    return [
        Line(name, layer, meaning, temperatures, np.broadcast_to(np.asarray(loads, dtype=float), temperatures.shape))
        for name, layer, meaning, loads in make(sharpness, temperatures, sizes)
    ]


Row = tuple[str, str, str, np.ndarray | float]


def _lse(beta: float, t: np.ndarray, sizes: tuple[int, ...]) -> list[Row]:
    return [
        ("critical line", "gaussian", "retrieval iff f_ret <= u_noise, Gaussian overlaps", gaussian.lse_line(t, beta)),
        (
            "equal depth",
            "spherical",
            "one basin as deep as the noise; nothing singular",
            spherical.equal_depth(t, beta),
        ),
        ("static line", "spherical", "union of all basins against the noise", spherical.static(t, beta)),
        ("spinodal", "spherical", "the retrieval minimum disappears", spherical.spinodal(t, beta)),
        ("capacity", "spherical", "zero temperature: one-step weight 1/2", float(spherical.capacity(beta))),
        ("separation bound", "spherical", "retrieval guaranteed by distances", spherical.separation_bound(beta)),
        *[
            (f"capacity at N={n}", "spherical", "mean noise sum equal to 1", spherical.finite_capacity(n, beta))
            for n in sizes
        ],
    ]


def _lsr(b: float, t: np.ndarray, sizes: tuple[int, ...]) -> list[Row]:
    return [
        ("line as published", "gaussian", "printed; contradicts the printed noise floor",
         gaussian.lsr_line_as_published(t, b)),
        ("line from the noise floor", "gaussian", "retrieval iff f_ret <= u_noise, Gaussian overlaps",
         gaussian.lsr_line(t, b)),
        ("gaussian threshold", "gaussian", "no other pattern in the support below it", gaussian.lsr_threshold(b)),
        ("threshold", "spherical", "retrieval is lost at every temperature above it", compact.threshold(b)),
        ("absolute stability", "spherical", "no neighbour within reach below it", compact.absolute_stability(t, b)),
        ("deeper centroids", "spherical", "pairs whose centroid is deeper at T = 0 exist above it",
         compact.centroid_load(b) if compact.centroid_rival(b) > 0 else 0.0),
        *[
            (f"threshold at N={n}", "spherical", "one pattern expected in the support", compact.finite_threshold(n, b))
            for n in sizes
        ],
    ]  # fmt: skip
