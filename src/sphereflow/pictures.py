"""The look of every figure, applied locally so that a user's own settings stay as they are."""

from __future__ import annotations

from contextlib import AbstractContextManager

import matplotlib

_LOOK = {
    "font.family": "serif",
    "font.serif": ["cmr10", "DejaVu Serif"],
    "mathtext.fontset": "cm",
    "axes.formatter.use_mathtext": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.labelsize": 10,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.frameon": False,
}


def look() -> AbstractContextManager[None]:
    """A context in which figures are drawn in the house style."""
    return matplotlib.rc_context(_LOOK)
