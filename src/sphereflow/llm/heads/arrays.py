"""Statistics are written once, for NumPy and for torch: a tensor is computed with where it lies, an array by NumPy.

Names that both libraries have are used as they are (`library(x).where`); what they call differently is here. Sorting,
and places of extremes, of a tensor in main memory are NumPy's, in the same memory: they take a tenth of the time there.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

# Where tensors are computed with, since other devices lack double precision, and the size of tables there: large enough
# that starting an operation costs little, small beside the attention of a layer.
PORTION_BYTES = {"cpu": 2**23, "cuda": 2**26}
_NUMPY = (np.ndarray, np.generic)


def library(x: Any) -> Any:
    """The module that computes with this array: numpy or torch."""
    return np if isinstance(x, _NUMPY) else sys.modules["torch"]


def where_it_lies(x: Any) -> str:
    """The kind of device: "cpu" or "cuda"."""
    return "cpu" if isinstance(x, _NUMPY) else str(x.device.type)


def double(x: Any) -> Any:
    """In double precision."""
    return x.astype(float) if isinstance(x, _NUMPY) else x.double()


def single(x: Any) -> Any:
    """In single precision."""
    return x.astype(np.float32) if isinstance(x, _NUMPY) else x.float()


def beside(x: Any, array: np.ndarray) -> Any:
    """An array of main memory, put where x lies."""
    return array if isinstance(x, _NUMPY) else sys.modules["torch"].as_tensor(array, device=x.device)


def to_host(x: Any) -> np.ndarray:
    """A table that is small and final, in main memory."""
    return np.asarray(x if isinstance(x, _NUMPY) else x.cpu().numpy())


def in_order(x: Any) -> Any:
    """Sorted along the last axis."""
    return _by_numpy(x, lambda a: np.sort(a, axis=-1), lambda t: t.sort(dim=-1).values)


def rising(x: Any) -> Any:
    """Indices along the last axis by rising value; equal ones in order of their index."""
    return _by_numpy(
        x, lambda a: np.argsort(a, axis=-1, kind="stable"), lambda t: sys.modules["torch"].argsort(t, stable=True)
    )


def place_of_largest(x: Any) -> Any:
    """The first index of the largest number along the last axis."""
    return _by_numpy(x, lambda a: a.argmax(axis=-1), lambda t: t.argmax(dim=-1))


def place_of_smallest(x: Any) -> Any:
    """The first index of the smallest number along the last axis."""
    return _by_numpy(x, lambda a: a.argmin(axis=-1), lambda t: t.argmin(dim=-1))


def ranks(orders: Any) -> Any:
    """The place of each index in an order: the inverse permutation along the last axis."""
    lib = library(orders)
    place, steps = lib.empty_like(orders), beside(orders, np.arange(orders.shape[-1]))
    if lib is np:
        np.put_along_axis(place, orders, np.broadcast_to(steps, orders.shape), axis=-1)
        return place
    return place.scatter_(-1, orders, steps.expand(orders.shape))


def along(x: Any, index: Any, axis: int = -1) -> Any:
    """x at an index for each place on the other axes, which may be shared."""
    if isinstance(x, _NUMPY):
        return np.take_along_axis(x, index, axis=axis)
    return sys.modules["torch"].take_along_dim(x, index, dim=axis)


def median(x: Any) -> Any:
    """The median along the last axis, of an even number the mean of the middle two."""
    rising_numbers, count = in_order(x), x.shape[-1]
    return (rising_numbers[..., (count - 1) // 2] + rising_numbers[..., count // 2]) / 2


def _by_numpy(x: Any, by_numpy: Callable[[np.ndarray], np.ndarray], by_torch: Callable[[Any], Any]) -> Any:
    if isinstance(x, _NUMPY):
        return by_numpy(np.asarray(x))
    return sys.modules["torch"].from_numpy(by_numpy(x.numpy())) if x.device.type == "cpu" else by_torch(x)


@contextmanager
def full_precision(device: Any) -> Iterator[None]:
    """Products of matrices in the precision of their numbers, whatever is set outside; that is set again afterwards."""
    import torch

    places = (torch.backends.cuda.matmul, torch.backends.mkldnn.matmul)
    before = [place.fp32_precision for place in places]
    try:
        for place in places:
            place.fp32_precision = "ieee"
        with torch.autocast(device.type, enabled=False), torch.no_grad():
            yield
    finally:
        for place, setting in zip(places, before, strict=True):
            place.fp32_precision = setting
