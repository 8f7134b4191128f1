"""Numerical pieces that several areas share, one idea per file: what NumPy and SciPy do not already offer."""

from sphereflow.numerics.bessel import funk_hecke as funk_hecke
from sphereflow.numerics.bessel import log_ive as log_ive
from sphereflow.numerics.overlaps import overlap_drift as overlap_drift
from sphereflow.numerics.overlaps import overlap_variance as overlap_variance
from sphereflow.numerics.quadrature import interval as interval
from sphereflow.numerics.quadrature import jacobi as jacobi
from sphereflow.numerics.quadrature import panels as panels
from sphereflow.numerics.roots import increasing_roots as increasing_roots
from sphereflow.numerics.unit_vectors import angles as angles
from sphereflow.numerics.unit_vectors import tangent_frames as tangent_frames
from sphereflow.numerics.unit_vectors import unit as unit
