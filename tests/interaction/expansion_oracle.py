"""Tokens that are hard for expansions, and the errors of an answer."""

import numpy as np
from attention_oracle import attention as weighted_attention
from scipy.special import ndtri


def attention(queries, keys, values, beta, weights=None, log_p=0.0):
    """Average and log Z of every query, pair by pair."""
    w = np.full(len(keys), 1 / len(keys)) if weights is None else weights
    return weighted_attention(queries, keys, values, beta, w, log_p)


def causal(n, strict=False, slope=0.0):
    """log p(i, j) of a causal mask."""
    distance = np.arange(n)[:, None] - np.arange(n)[None, :]
    return np.where(distance > 0 if strict else distance >= 0, -slope * distance, -np.inf)


def circle(theta):
    """Points at angles."""
    return np.stack([np.cos(theta), np.sin(theta)], axis=1)


def isolated(n_cluster=1997):
    """Angles of a cluster and of three tokens far from it and from each other; not symmetric."""
    cluster = ndtri((np.arange(n_cluster) + 0.5) / n_cluster) / np.sqrt(50)
    return np.concatenate([cluster, [2.0, 3.0, -2.5]])


def worst_errors(found, average, log_z, values):
    """Errors of the average relative to the largest value, and of Z relative to itself."""
    seen = np.isfinite(log_z)
    assert np.array_equal(np.isneginf(np.asarray(found.log_partition)), ~seen)
    of_average = np.abs(np.asarray(found.average) - average).max() / np.abs(values).max()
    return of_average, np.abs(np.expm1(np.asarray(found.log_partition)[seen] - log_z[seen])).max()
