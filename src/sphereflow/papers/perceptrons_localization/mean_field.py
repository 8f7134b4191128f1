r"""The mean-field limit of attention with a perceptron: N particles approach their law, at the rate of their start."""

from __future__ import annotations

from sphereflow import landscape
from sphereflow.claims import Check, Run, basis
from sphereflow.landscape import Problem
from sphereflow.papers.perceptrons_localization import PAPER
from sphereflow.papers.perceptrons_localization.stationary import INNER, OUTER


@PAPER.claim(
    "mean-field-limit",
    says="Along the descent with two gelu neurons (and relu in the paper preset) the distance $W_1$ of $N$ "
    "particles to their law falls like $N^{-1/2}$ from independent and like $1/N$ from equally spaced tokens, at "
    "$t=4$ as at the start.",
    basis=basis.Abstract("the mean-field limit of attention with perceptrons"),
    formula=r"W_1(\mu^N_t,\mu_t)\le e^{Ct}W_1(\mu^N_0,\mu_0)",
)
def mean_field_limit(run: Run) -> Check:
    sizes, repeats = ([8, 128], 48) if run.quick else ([64, 256, 1024], 64)
    reference = 512 if run.quick else 4096
    check = Check(parameters={"N": sizes, "repeats": repeats, "t": 4, "beta": 4})
    quarter, whole, none = {}, {}, {}
    for kind in ("gelu",) if run.quick else ("gelu", "relu"):
        here = Problem(4.0, OUTER, INNER, activation=kind)
        found = landscape.mean_field_limit(
            here, sizes, 4.0, repeats, reference=reference, tol=1e-4 if run.quick else 1e-7, seed=run.seed + 1
        )
        for at, when in enumerate(("$t=0$", "$t=4$")):
            name = f"exponent, independent tokens, {kind}, {when}"
            told = found.exponent(at)
            check.row(
                name,
                predicted=-0.5,
                measured=told.value,
                error=told.error,
                repeats=repeats,
                tolerance=0.02,
                because="standard error, and 0.02 for small N",
            )
            quarter[name], whole[name], none[name] = -0.25, -1.0, 0.0
        spaced = landscape.mean_field_limit(
            here, sizes, 4.0, 4, start="spaced", reference=2 * reference, tol=1e-4, seed=run.seed + 2
        )
        name = f"exponent, spaced tokens, {kind}, $t=4$"
        told = spaced.exponent(1)
        check.row(
            name,
            predicted=-1.0,
            measured=told.value,
            tolerance=0.2,
            because="between neighbours the distance oscillates",
        )
        quarter[name] = whole[name] = -0.5
        none[name] = 0.0
    check.rival(r"$N^{-1/4}$ from independent tokens", quarter)
    check.rival("$1/N$ whatever the start", {k: v for k, v in whole.items() if "independent" in k})
    check.rival("$N^{-1/2}$ whatever the start", {k: v for k, v in whole.items() if "spaced" in k})
    check.rival("no convergence", none)
    return check
