"""Where the statements were read: the abstract and summaries of the paper, and the code of the base paper."""

from __future__ import annotations

from sphereflow.claims import basis

REPULSION = basis.Abstract("the two-particle surrogate is locally repulsive")
THRESHOLD = basis.Summary("summaries of the paper, which give the Laplace kernel and the threshold")
BOUND = basis.Abstract("linearly scheduled friction gives a finite-horizon bound on the error")
IDENTIFIED = basis.Abstract("for the Gaussian kernel a field that vanishes on an open set implies q = p")
NOTEBOOK = basis.AuthorCode(
    "lambertae/lambertae.github.io (base paper)",
    "commit 8e068f5",
    "projects/drifting/notebooks/drifting_model_demo.ipynb",
)
SCALED = basis.AuthorCode("lambertae/drifting (base paper)", "commit 9c58304", "torch/drift_loss.py")
LARGE = basis.AuthorCode("lambertae/drifting (base paper)", "a copy of 2026", "train.py")
MATCHING = basis.AuthorCode("Jhomanik/Optimal-Flow-Matching (baseline)", "a copy of 2026", "model_tools.py")
BRIDGE = basis.AuthorCode("ngushchin/LightSB (baseline)", "commit 5b43943", "src/light_sb.py")
ATLAS = basis.Summary("a public repository on identifiability of drifting, Dronmong/drifting-identifiability")
