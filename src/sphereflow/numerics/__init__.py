"""Numerical pieces that several areas share, one idea per file: what NumPy and SciPy do not already offer."""
