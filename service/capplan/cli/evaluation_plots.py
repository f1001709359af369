"""Pictures of an evaluation: predicted against measured, and how far off predictions are as concurrency grows.

matplotlib is an extra of the installation, so it is imported only where a picture is drawn.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from capplan.cli.failures import UsageError
from capplan.errors import CapplanError
from capplan.estimation.evaluation import Comparison, FigureFamily
from capplan.estimation.observation import Metric

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PREDICTED_FILE: Final = "predicted_against_measured.png"
RESIDUALS_FILE: Final = "residuals_by_concurrency.png"

_DPI: Final = 120
_PANEL_INCHES: Final = (5.2, 4.4)
_PANELS_A_ROW: Final = 3
_BANDS: Final = ((0.30, "#dddddd", "within ±30 %"), (0.10, "#aaaaaa", "within ±10 %"))
_SHOWN_FACTOR: Final = 8.0
"""Residuals are drawn up to this factor, up or down; what is further off stands at the edge."""

# Okabe and Ito's colours, which people of every colour vision tell apart; each goes with a marker of its own too.
_COLOURS: Final = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#f0e442", "#000000")
_MARKERS: Final = ("o", "^", "s", "D", "v", "P", "X", "*")

_METRIC_UNITS: Final = MappingProxyType(
    {
        Metric.TPOT: "ms",
        Metric.ITL: "ms",
        Metric.TTFT: "ms",
        Metric.E2E: "ms",
        Metric.OUTPUT: "tokens/s",
        Metric.TOTAL: "tokens/s",
        Metric.REQUESTS: "requests/s",
    }
)


_Kind = tuple[str, str]
"""Provenance and unit."""
_Styles = Mapping[_Kind, tuple[str, str]]
_Draw = Callable[["Axes", Sequence[Comparison], _Styles], None]


class PlotsUnavailableError(CapplanError):
    """Pictures were asked for, but what draws them is not installed."""

    reason = "PLOTS_UNAVAILABLE"


def require_plots() -> None:
    """Makes sure that pictures can be drawn, before anything that takes time.

    Raises:
        PlotsUnavailableError: matplotlib is not installed.
    """
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise PlotsUnavailableError(
            "--plots draws with matplotlib, which is not installed: pip install capplan[plots]"
        ) from None


def write_plots(directory: str, comparisons: Sequence[Comparison], basis: str) -> tuple[Path, ...]:
    """Draws both pictures, with a panel for each metric family that has something to show.

    Args:
        directory: where they go; made when it is not there.
        comparisons: what to draw.
        basis: what the predictions rest on, for the title.

    Returns:
        The files that were written; none for a picture that would be empty.

    Raises:
        UsageError: they cannot be written there.
    """
    loaded = [comparison for comparison in comparisons if comparison.concurrency is not None]
    pictures: tuple[tuple[str, str, _Draw, Sequence[Comparison]], ...] = (
        (PREDICTED_FILE, "Predicted against measured", _draw_predicted, comparisons),
        (RESIDUALS_FILE, "Predicted over measured, by concurrency", _draw_residuals, loaded),
    )
    written = []
    for name, title, draw, chosen in pictures:
        if chosen:
            path = Path(directory) / name
            _save(_panels(f"{title}; {basis}", draw, chosen), path)
            written.append(path)
    return tuple(written)


def _save(figure: Figure, path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=_DPI)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}") from None
    except ValueError as error:
        raise UsageError(f"{str(path)!r} is no path: {error}") from None


def _panels(title: str, draw: _Draw, rows: Sequence[Comparison]) -> Figure:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    families = [family for family in FigureFamily if any(row.family is family for row in rows)]
    across = min(len(families), _PANELS_A_ROW)
    down = math.ceil(len(families) / across)
    width, height = _PANEL_INCHES
    figure = Figure(figsize=(max(across, 2) * width, down * height + 0.5), layout="constrained")
    FigureCanvasAgg(figure)  # no window, whatever the environment or a configuration file says
    figure.suptitle(title, parse_math=False)
    styles = _styles(rows)
    for place, family in enumerate(families, 1):
        axes = figure.add_subplot(down, across, place)
        chosen = [row for row in rows if row.family is family]
        axes.set_axisbelow(True)
        axes.grid(visible=True, which="major", color="#eeeeee")
        draw(axes, chosen, styles)
        axes.set_title(f"{family.label} ({len(chosen):,} rows)")
        axes.legend(fontsize="x-small", loc="best")
    return figure


def _kind(row: Comparison) -> _Kind:
    return row.provenance, _METRIC_UNITS[row.metric]


def _styles(rows: Sequence[Comparison]) -> _Styles:
    """Colour and marker of each kind of row, one for the whole picture; the most frequent kinds come first."""
    frequent = Counter(map(_kind, rows)).most_common()
    return {
        kind: (_COLOURS[place % len(_COLOURS)], _MARKERS[place % len(_MARKERS)])
        for place, (kind, _) in enumerate(frequent)
    }


def _parts(rows: Sequence[Comparison], styles: _Styles) -> Iterator[tuple[str, str, str, list[Comparison]]]:
    """(label, colour, marker, rows) of every kind that occurs."""
    for kind, (colour, marker) in styles.items():
        part = [row for row in rows if _kind(row) == kind]
        if part:
            yield ", ".join(kind), colour, marker, part


def _unit_text(rows: Sequence[Comparison]) -> str:
    return " or ".join(dict.fromkeys(_METRIC_UNITS[row.metric] for row in rows))


def _draw_predicted(axes: Axes, rows: Sequence[Comparison], styles: _Styles) -> None:
    figures = np.array([(row.measured, row.predicted) for row in rows])
    ends = np.array([figures.min() / 1.5, figures.max() * 1.5])
    for share, colour, label in _BANDS:
        axes.fill_between(ends, ends * (1.0 - share), ends * (1.0 + share), color=colour, lw=0, label=label, zorder=1)
    axes.plot(ends, ends, color="#000000", lw=0.8, label="predicted = measured", zorder=2)
    for label, colour, marker, part in _parts(rows, styles):
        measured, predicted = [row.measured for row in part], [row.predicted for row in part]
        axes.plot(measured, predicted, marker, ms=3, mew=0, color=colour, alpha=0.5, label=label, zorder=4)
        spans = [(r.measured, r.lower, r.upper) for r in part if r.lower is not None and r.upper is not None]
        if spans:
            places, lower, upper = (np.array(values) for values in zip(*spans, strict=True))
            text = f"90 % interval, {label}"
            axes.vlines(places, lower, upper, color=colour, alpha=0.15, lw=0.8, label=text, zorder=3)
    axes.set(xscale="log", yscale="log", xlim=tuple(ends), ylim=tuple(ends))
    unit = _unit_text(rows)
    axes.set(xlabel=f"measured ({unit})", ylabel=f"predicted ({unit})")


def _draw_residuals(axes: Axes, rows: Sequence[Comparison], styles: _Styles) -> None:
    for share, colour, label in _BANDS:
        axes.axhspan(1.0 - share, 1.0 + share, color=colour, lw=0, label=label, zorder=1)
    axes.axhline(1.0, color="#000000", lw=0.8, zorder=2)
    for label, colour, marker, part in _parts(rows, styles):
        loads, ratios = _loads(part), _shown([row.ratio for row in part])
        axes.plot(loads, ratios, marker, ms=3, mew=0, color=colour, alpha=0.4, label=label, zorder=3)
    octaves, medians = _median_by_octave(rows)
    axes.plot(octaves, _shown(medians), color="#000000", lw=1.5, marker=".", label="median by octave", zorder=4)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    ticks = [1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8]
    axes.set_yticks(ticks, ["≤ 1/8", "1/4", "1/2", "1", "2", "4", "≥ 8"])
    axes.set_ylim(1 / (_SHOWN_FACTOR * 1.15), _SHOWN_FACTOR * 1.15)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    what = "sequences in the batch" if rows[0].family is FigureFamily.BATCH else "requests in flight"
    axes.set(xlabel=f"{what}, whole deployment", ylabel="predicted / measured")


def _loads(rows: Sequence[Comparison]) -> list[float]:
    return [row.concurrency for row in rows if row.concurrency is not None]


def _shown(ratios: Sequence[float]) -> NDArray[np.float64]:
    return np.clip(np.array(ratios, dtype=np.float64), 1.0 / _SHOWN_FACTOR, _SHOWN_FACTOR)


def _median_by_octave(rows: Sequence[Comparison]) -> tuple[list[float], list[float]]:
    """Middles of the octaves of concurrency, and the median ratio in each."""
    octaves: dict[int, list[float]] = {}
    for load, row in zip(_loads(rows), rows, strict=True):
        octaves.setdefault(round(math.log2(load)), []).append(row.ratio)
    places = sorted(octaves)
    return [2.0**place for place in places], [float(np.median(octaves[place])) for place in places]
