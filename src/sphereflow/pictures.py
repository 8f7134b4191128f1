"""The look of every figure, applied locally so that a user's own settings stay as they are.

Figures are made with matplotlib's objects and drawn by its Agg canvas: no window, no display, and no trace in the
list of figures that pyplot keeps. Letters and formulas are set in STIX, which ships with matplotlib and has every
symbol these figures need; no TeX installation is asked for.
"""

from __future__ import annotations

import io
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import matplotlib
from cycler import cycler
from matplotlib.animation import AbstractMovieWriter, FFMpegWriter, PillowWriter
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import ScalarFormatter

from sphereflow.errors import MissingExtra, SphereflowError, one_of

# The colours of Okabe and Ito, told apart with any colour vision; the pale yellow of the set is left out.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")

# The same colours around a circle, for angles: it ends where it begins, and no part of it is white.
AROUND = LinearSegmentedColormap.from_list("around", [PALETTE[k] for k in (0, 2, 4, 1, 3, 0)])

# A scatter of many points makes an SVG of many megabytes: beyond this size a picture is kept as PNG.
_LARGEST_SVG_BYTES = 300_000
_PNG_DPI = 170

_LOOK: dict[Any, Any] = {
    "text.usetex": False,
    "font.family": ["STIXGeneral", "DejaVu Serif"],
    "font.size": 10,
    "mathtext.fontset": "stix",
    "axes.formatter.use_mathtext": True,
    "axes.formatter.limits": (-3, 4),
    "axes.prop_cycle": cycler(color=PALETTE),
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    "axes.titlesize": 11,
    "axes.labelsize": 11,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "legend.fontsize": 9,
    "legend.frameon": False,
    "lines.linewidth": 1.4,
    "lines.markersize": 4,
    "grid.linewidth": 0.4,
    "grid.color": "0.85",
    "image.cmap": "viridis",
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "svg.fonttype": "path",
    "svg.hashsalt": "sphereflow",
}


# What each format would otherwise say about the moment and the program of its making.
_NO_DATES: dict[str, dict[str, Any]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
KINDS = tuple(_NO_DATES)


def look() -> AbstractContextManager[None]:
    """A context in which figures are drawn in the house style."""
    return matplotlib.rc_context(_LOOK)


class Picture(Figure):
    """A figure that a notebook shows as the last line of a cell, without a word to matplotlib before."""

    def _repr_png_(self) -> bytes:
        return rendered(self, "png", dpi=110)


def blank(width: float = 6.4, height: float = 4.0) -> Figure:
    """An empty figure of this size in inches, laid out automatically; draw in it within `look()`."""
    figure = Picture(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


@contextmanager
def styled_figure(width: float = 6.4, height: float = 4.0) -> Iterator[Figure]:
    """An empty figure of this size, and the house style while it is drawn."""
    with look():
        yield blank(width, height)


def rendered(figure: Figure, kind: str, dpi: int = _PNG_DPI) -> bytes:
    """The figure as a png, svg or pdf file; the same figure always gives the same bytes."""
    one_of("the kind of picture", kind, KINDS)
    _plain_digits(figure)
    buffer = io.BytesIO()
    with look():
        figure.savefig(buffer, format=kind, dpi=dpi, metadata=_NO_DATES[kind])
    return buffer.getvalue()


class _PlainDigits(ScalarFormatter):
    """Numbers at ticks as text, a power of ten beside the axis as a formula."""

    def __call__(self, x: Any, pos: int | None = None) -> str:
        return super().__call__(x, pos).removeprefix(r"$\mathdefault{").removesuffix("}$")


def _plain_digits(figure: Figure) -> None:
    """Number ticks in text, which looks the same: reading each as a formula takes longer than drawing all the rest."""
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            formatter = axis.get_major_formatter()
            if type(formatter) is ScalarFormatter:
                plain = _PlainDigits()
                vars(plain).update(vars(formatter))
                axis.set_major_formatter(plain)


def compact(figure: Figure) -> tuple[str, bytes]:
    """(media type, bytes): SVG, or PNG where the SVG would be large."""
    lines = rendered(figure, "svg")
    if len(lines) <= _LARGEST_SVG_BYTES:
        return "image/svg+xml", lines
    return "image/png", rendered(figure, "png")


def movie_encoder() -> str | None:
    """The program ffmpeg that writes .mp4: that of the package imageio-ffmpeg, else that of the system, else None."""
    try:
        import imageio_ffmpeg

        return imageio_ffmpeg.get_ffmpeg_exe()
    except (ImportError, RuntimeError):  # the package is not there, or has no program for this kind of machine
        return shutil.which("ffmpeg")


def check_movie(suffix: str) -> None:
    """Say, before any work is done, why a movie with this suffix cannot be written."""
    if suffix not in (".mp4", ".gif"):
        raise SphereflowError(f"a movie is an .mp4 or a .gif file, got '{suffix or 'no suffix'}'.")
    if suffix == ".mp4" and movie_encoder() is None:
        raise MissingExtra("imageio-ffmpeg", "movie", "an .mp4 file (a .gif needs no package)")


def movie_writer(suffix: str, fps: int) -> AbstractMovieWriter:
    """What writes a movie with this suffix, .mp4 or .gif; to be used within `look()`."""
    check_movie(suffix)
    if suffix == ".gif":
        return PillowWriter(fps=fps)
    matplotlib.rcParams["animation.ffmpeg_path"] = movie_encoder()
    return FFMpegWriter(fps=fps, codec="h264", extra_args=["-pix_fmt", "yuv420p"])
