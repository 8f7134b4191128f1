"""Where the statements of the paper were read: its LaTeX source, and those of the authors' follow-up drafts."""

from __future__ import annotations

from sphereflow.claims import basis

SOURCE = "the LaTeX source in the authors' repository epolyach/DenseAM-GPU"
DRAFT = "a follow-up draft on saddle-dominated capacity in the authors' repository epolyach/DenseAM-GPU"

STATE = basis.Equation("of the retrieval state", via=SOURCE)
LSE_LINE = basis.Equation("of the critical line of the Gaussian kernel", via=SOURCE)
LSR_LINE = basis.Equation("of the critical line of the Epanechnikov kernel", via=SOURCE)
ENTROPY = basis.Abstract("a geometric entropy that depends on the sphere only, not on the kernel")
CAPACITY = basis.Abstract("a maximum capacity of 0.5 at zero temperature for sharp kernels")
HOT = basis.Abstract("the Gaussian kernel retrieves at arbitrarily high temperature when the load is small enough")
BATH = basis.Figure("of overlap against temperature at load 0.1 and N = 50", via=SOURCE)
NOISE_SUM = basis.Equation("of the mean noise sum on the sphere", via=DRAFT)
