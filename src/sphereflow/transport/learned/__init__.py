"""Learned baselines: the same pieces, found by gradient descent."""
