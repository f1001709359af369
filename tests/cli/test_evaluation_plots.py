"""Pictures of an evaluation: what is written where, what is drawn in it, and what is said when they cannot be drawn."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

import pytest
from matplotlib.collections import LineCollection

from capplan.cli import evaluation_plots
from capplan.cli.evaluation_plots import PREDICTED_FILE, RESIDUALS_FILE, write_plots
from capplan.estimation.corrections import Novelty
from capplan.estimation.evaluation import Comparison, FigureFamily
from capplan.estimation.observation import Metric

PNG = b"\x89PNG\r\n\x1a\n"
ROW = Comparison(
    row=2,
    family=FigureFamily.TPOT,
    metric=Metric.TPOT,
    concurrency=16.0,
    measured=10.0,
    predicted=12.0,
    lower=None,
    upper=None,
    group=("a", "m", "h100"),
    engine="vllm",
    model_family="llama",
    precision="fp8",
    provenance="calibrated",
    novelty=Novelty.SEEN,
    bottleneck="compute",
)
OFFLINE = replace(ROW, family=FigureFamily.OFFLINE, metric=Metric.OUTPUT, concurrency=None, measured=900.0)


@pytest.fixture
def drawn(monkeypatch, tmp_path):
    """The axes of each picture, by file name and panel title, as they were saved."""
    figures = {}

    def save(figure, path):
        figures[path.name] = {axes.get_title(): axes for axes in figure.axes}

    monkeypatch.setattr(evaluation_plots, "_save", save)

    def draw(*rows):
        write_plots(str(tmp_path), rows, "made up")
        return figures

    return draw


def points(axes, label):
    (line,) = [line for line in axes.lines if line.get_label() == label]
    return [tuple(map(float, pair)) for pair in line.get_xydata()]


def test_both_pictures_are_png_files_in_a_directory_that_is_made(tmp_path):
    directory = tmp_path / "new" / "pictures"
    written = write_plots(str(directory), [ROW, OFFLINE], "made up")
    assert written == (directory / PREDICTED_FILE, directory / RESIDUALS_FILE)
    assert all(path.read_bytes().startswith(PNG) for path in written)


def test_the_title_is_text_whatever_is_in_it(tmp_path):
    assert write_plots(str(tmp_path), [ROW], r"coefficients: catalogue ($\frac{)")


def test_nothing_compared_draws_nothing(tmp_path):
    assert write_plots(str(tmp_path / "pictures"), [], "made up") == ()
    assert not (tmp_path / "pictures").exists()


def test_rows_without_a_concurrency_have_no_residuals_by_it(tmp_path):
    assert [path.name for path in write_plots(str(tmp_path), [OFFLINE], "made up")] == [PREDICTED_FILE]


def test_every_family_has_its_panel_with_its_units(drawn):
    rate = replace(ROW, family=FigureFamily.OUTPUT_RATE, metric=Metric.REQUESTS)
    panels = drawn(ROW, rate, replace(rate, metric=Metric.OUTPUT), OFFLINE)[PREDICTED_FILE]
    assert {title: axes.get_xlabel() for title, axes in panels.items()} == {
        "TPOT (1 rows)": "measured (ms)",
        "output rate (2 rows)": "measured (requests/s or tokens/s)",
        "offline maximum (1 rows)": "measured (tokens/s)",
    }
    for axes in panels.values():
        assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
        assert axes.get_ylabel() == axes.get_xlabel().replace("measured", "predicted")
        labels = [text.get_text() for text in axes.get_legend().get_texts()]
        assert labels[:3] == ["within ±30 %", "within ±10 %", "predicted = measured"]


def test_a_point_is_a_row_and_an_interval_stands_at_its_measured_figure(drawn):
    far = replace(ROW, measured=20.0, predicted=30.0, lower=25.0, upper=36.0)
    (axes,) = drawn(ROW, far)[PREDICTED_FILE].values()
    assert points(axes, "calibrated, ms") == [(10.0, 12.0), (20.0, 30.0)]
    (spans,) = [found for found in axes.collections if isinstance(found, LineCollection)]
    assert [segment.tolist() for segment in spans.get_segments()] == [[[20.0, 25.0], [20.0, 36.0]]]


def test_bands_are_shares_of_the_measured_figure(drawn):
    (axes,) = drawn(ROW)[PREDICTED_FILE].values()
    bands = {band.get_label(): band for band in axes.collections}
    for label, share in (("within ±30 %", 0.3), ("within ±10 %", 0.1)):
        corners = bands[label].get_paths()[0].vertices
        ratios = corners[:, 1] / corners[:, 0]
        assert min(ratios) == pytest.approx(1 - share)
        assert max(ratios) == pytest.approx(1 + share)


def test_kinds_of_rows_differ_in_colour_and_marker_and_keep_them_in_every_panel(drawn):
    rows = [ROW, replace(ROW, provenance="analytic"), ROW]
    batch = [replace(row, family=FigureFamily.BATCH) for row in rows[::-1]]
    styles: dict[str, set] = {}
    for axes in drawn(*rows, *batch)[PREDICTED_FILE].values():
        for line in axes.lines:
            if line.get_label().endswith(", ms"):
                styles.setdefault(line.get_label(), set()).add((line.get_color(), line.get_marker()))
    assert set(styles) == {"calibrated, ms", "analytic, ms"}
    (calibrated,), (analytic,) = styles.values()
    assert calibrated[0] != analytic[0]
    assert calibrated[1] != analytic[1]


def test_residuals_are_ratios_over_concurrency_with_their_median(drawn):
    rows = [replace(ROW, concurrency=load, predicted=predicted) for load, predicted in ((16, 8), (17, 12), (64, 15))]
    (axes,) = drawn(*rows)[RESIDUALS_FILE].values()
    assert points(axes, "calibrated, ms") == [(16.0, 0.8), (17.0, 1.2), (64.0, 1.5)]
    # 17 is in the octave around 16; the median of 0.8 and 1.2 is 1.
    assert points(axes, "median by octave") == [(16.0, pytest.approx(1.0)), (64.0, 1.5)]
    assert axes.get_xlabel() == "requests in flight, whole deployment"


def test_a_residual_beyond_the_scale_stands_at_its_edge(drawn):
    rows = [replace(ROW, predicted=10_000.0), replace(ROW, predicted=0.01)]
    (axes,) = drawn(*rows)[RESIDUALS_FILE].values()
    assert points(axes, "calibrated, ms") == [(16.0, 8.0), (16.0, 1 / 8)]
    low, high = axes.get_ylim()
    assert low < 1 / 8 < 8 < high


@pytest.fixture
def figures_file(tmp_path):
    path = tmp_path / "figures.csv"
    path.write_text(
        "model,weight_precision,gpu,num_gpus,tp,engine,isl,osl,load_kind,load_value,metric,value\n"
        "Qwen3-8B,fp8,H100-SXM-80GB,1,1,vllm,1000,200,concurrency,16,tpot_ms,8\n"
    )
    return str(path)


def test_the_command_draws_and_names_the_files(run, figures_file, tmp_path):
    directory = tmp_path / "pictures"
    outcome = run("evaluate", "throughput", figures_file, "--plots", str(directory), "--output", "json")
    assert outcome.exit_code == 0
    expected = [str(directory / PREDICTED_FILE), str(directory / RESIDUALS_FILE)]
    assert json.loads(outcome.stdout)["plots"] == expected
    assert sorted(str(path) for path in directory.iterdir()) == expected


def test_without_matplotlib_the_command_says_what_to_install_before_it_starts(run, figures_file, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # what the import system takes for a module that is not there
    outcome = run("evaluate", "throughput", figures_file, "--plots", str(tmp_path / "pictures"))
    assert outcome.exit_code == 1
    assert "pip install capplan[plots]" in outcome.stderr
    assert not outcome.stdout
    assert run("evaluate", "throughput", figures_file).exit_code == 0


@pytest.mark.parametrize(("below", "says"), [("figures.csv/pictures", "cannot write"), ("a\x00b", "is no path")])
def test_a_directory_that_cannot_be_made_is_a_usage_error(run, figures_file, tmp_path, below, says):
    outcome = run("evaluate", "throughput", figures_file, "--plots", str(tmp_path / below))
    assert outcome.exit_code == 2
    assert says in outcome.stderr
