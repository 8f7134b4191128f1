r"""Lines of the exact layer: spinodal, equal depth, the union of all basins, and the exact point T = 1/beta.

$$\alpha_{ed}\le\alpha_u\le\alpha_{sp},\qquad
  \alpha_u=\frac{g_{max}(n\beta)-n\,g_{max}(\beta)}{n-1},\ n=\frac1{\beta T}.$$
"""

from __future__ import annotations

import numpy as np

from sphereflow.claims import Measurement, Run, agreement, at_most
from sphereflow.memory import spherical
from sphereflow.memory.state import lse_free_energy
from sphereflow.papers.dense_associative_memory import PAPER


@PAPER.claim(
    "spinodal",
    statement="The retrieval minimum disappears where the retrieval overlap meets the noise, on two branches.",
    source="Spinodal; the branch below alpha* restores retrieval at any temperature at low load",
    formula=r"T_{sp}=\frac{\beta^2-(\alpha+g_{max})^2}{\beta(\alpha+g_{max})},\qquad "
    r"T_{sp}=\frac{e^{-2\alpha}}{\sqrt{1-e^{-2\alpha}}}\ (\alpha<\alpha^*)",
    falsifier="one branch at all loads (1.62 at load 0.1)",
)
def spinodal(run: Run) -> Measurement:
    loads = np.array([0.5, 0.1, 0.05])
    temperatures = spherical.spinodal_temperature(loads, 1.0)
    return agreement(
        [0.26227, 1.9230, 2.933, 0.240606, *loads],
        [*temperatures, spherical.load_switch(1.0), *spherical.spinodal(temperatures, 1.0)],
        absolute=[6e-6, 6e-5, 6e-4, 6e-7, 1e-12, 1e-12, 1e-12],
        because="reference values with the digits given; the line inverts its own temperature to rounding",
        labels=("T_sp at 0.5", "T_sp at 0.1", "T_sp at 0.05", "alpha*", "back to 0.5", "back to 0.1", "back to 0.05"),
        parameters={"beta": 1, "layer": "spherical"},
    )


@PAPER.claim(
    "equal-depth",
    statement="One basin is as deep as the noise on a line with two branches, which is no boundary for a chain.",
    source="Equal depth, the exact analogue of the published criterion",
    formula=r"\alpha_{ed}=\beta(1-f_{ret})-g_{max},\qquad -\tfrac12\ln(1-(1-f_{ret})^2)\ \text{below } \alpha^*",
    falsifier="the first branch at T = 1",
)
def equal_depth(run: Run) -> Measurement:
    t = np.array([0.05, 0.1, 0.2, 0.3, 1.0])
    return agreement(
        [0.5224, 0.4562, 0.3566, 0.28075, 0.07684],
        spherical.equal_depth(t, 1.0),
        absolute=[6e-5] * 3 + [6e-6] * 2,
        because="reference values with 4 and 5 decimals",
        labels=tuple(f"T={v:g}" for v in t),
        parameters={"beta": 1, "layer": "spherical"},
    )


@PAPER.claim(
    "static-line",
    statement="Counting all basins gives the static line; its thermodynamic and its moment form are the same, for two "
    "replicas it is the second-moment threshold, and it ends on the spinodal at T = 1/beta.",
    source="Union of basins",
    formula=r"\alpha_u=\frac{\beta(1-f_{ret})-g_{max}(\beta)}{1-\beta T}=\frac{g_{max}(n\beta)-n\,g_{max}(\beta)}{n-1}",
    falsifier="1 - beta T in the wrong place",
)
def static_line(run: Run) -> Measurement:
    t = np.array([0.1, 0.2, 0.5, 0.9])
    reference = [0.50688, 0.44579, 0.33639, 0.25523]
    other = [2.0, 0.5]
    forms = [spherical.static(t / b, b) - spherical.static_by_moments(t / b, b) for b in other]
    tip = float(spherical.static(1.0, 1.0) - spherical.load_switch(1.0))
    return agreement(
        [*reference, *spherical.static_by_moments(t, 1.0), *np.zeros(8), 0.0],
        [*spherical.static(t, 1.0), *spherical.static(t, 1.0), *np.concatenate(forms), tip],
        absolute=[5.1e-6] * 4 + [1e-12] * 13,
        because="reference with 5 decimals; identities to rounding",
        labels=(
            *[f"T={v:g}" for v in t],
            *[f"both forms, T={v:g}" for v in t],
            *[f"difference, beta={b:g}, beta T={v:g}" for b in other for v in t],
            "meets alpha* at T=1/beta",
        ),
        parameters={"layer": "spherical"},
    )


@PAPER.claim(
    "line-order",
    statement="Equal depth, static line and spinodal never cross.",
    source="Union of basins",
    formula=r"\alpha_{ed}\le\alpha_u\le\alpha_{sp}",
    falsifier="a temperature at which the order is broken",
)
def line_order(run: Run) -> Measurement:
    t = np.linspace(0.01, 3, 300)
    gaps = []
    for beta in (0.5, 1.0, 3.0):
        lines = [f(t, beta) for f in (spherical.equal_depth, spherical.static, spherical.spinodal)]
        gaps += [np.max(lines[0] - lines[1]), np.max(lines[1] - lines[2])]
    return at_most(
        np.zeros(6),
        gaps,
        slack=1e-10,
        because="rounding where lines touch",
        labels=tuple(f"beta={b:g}, {w}" for b in (0.5, 1.0, 3.0) for w in ("depth - static", "static - spinodal")),
    )


@PAPER.claim(
    "exact-point",
    statement="At T = 1/beta the free energy of all basins equals the noise floor, at every load above alpha*.",
    source="Exact point: the equilibrium is a mixture of von Mises-Fisher laws",
    formula=r"f_{ret}(1/\beta)-\alpha/\beta=1-(\alpha+g_{max}(\beta))/\beta",
    falsifier="bath and kernel temperatures mixed",
)
def exact_point(run: Run) -> Measurement:
    betas, loads = np.array([0.3, 1.0, 2.5, 8.0]), np.array([0.1, 0.4, 0.9])
    left = lse_free_energy(1 / betas)[:, None] - loads / betas[:, None]
    right = 1 - (loads + spherical.g_max(betas)[:, None]) / betas[:, None]
    return agreement(
        right.ravel(),
        left.ravel(),
        absolute=1e-12,
        because="an identity, to rounding",
        labels=tuple(f"beta={b:g}, load {a:g}" for b in betas for a in loads),
    )
