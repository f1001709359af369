"""Which estimators are found and loaded, and that a bad one costs nothing but itself."""

from __future__ import annotations

import itertools
import textwrap
from pathlib import Path

import pytest

from capplan.errors import InvalidInputError
from capplan.estimation.estimator import ANALYTIC
from capplan.server.estimators import BUILT_IN, Estimators, load_estimators
from tests.server.distributions import install

_NUMBERS = itertools.count()


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def install_module(site: Path, source: str, *points: str, distribution: str = "") -> str:
    """Install a module of a name never used before with these entry points of it; returns the module's name."""
    module = f"installed_for_test_{next(_NUMBERS)}"
    lines = "".join(f"{point.replace('MODULE', module)}\n" for point in points)
    source = textwrap.dedent(source)
    install(site, distribution or module, f"[capplan.estimators]\n{lines}", **{module: source})
    return module


GOOD = """
    class Table:
        def __init__(self, name="table"):
            self.name = name

        def estimate(self, model, replicas, request, batches):
            return []

    table = Table()

    class Fixed:
        name = "fixed"

        def estimate(self, model, replicas, request, batches):
            return []

    def make():
        return Table("made")
"""


def test_without_any_installed_the_analytic_one_is_there() -> None:
    assert load_estimators() == BUILT_IN
    assert dict(BUILT_IN.available) == {"analytic": ANALYTIC}


def test_an_object_a_class_and_a_factory_are_loaded_alike(site: Path) -> None:
    install_module(site, GOOD, "table = MODULE:table", "fixed = MODULE:Fixed", "made = MODULE:make")
    estimators = load_estimators()
    assert sorted(estimators.available) == ["analytic", "fixed", "made", "table"]
    assert {name: estimator.name for name, estimator in estimators.available.items()} == {
        name: name for name in estimators.available
    }
    assert not isinstance(estimators.available["fixed"], type)
    assert not estimators.unavailable


@pytest.mark.parametrize(
    ("source", "point", "why"),
    [
        ("raise RuntimeError('no licence')", "MODULE:x", "failed to load: RuntimeError: no licence"),
        ("import sys; sys.exit(2)", "MODULE:x", "failed to load: SystemExit: 2"),
        ("import no_such_module_at_all", "MODULE:x", "failed to load: ModuleNotFoundError: No module named"),
        ("x = 1 +", "MODULE:x", "failed to load: SyntaxError"),
        ("y = 1", "MODULE:x", "failed to load: AttributeError"),
        ("x = 7", "MODULE:x", "failed to load: TypeError: 'int' object is not callable"),
        ("def x(): return 7", "MODULE:x", "is a int without a name and an estimate method"),
        ("def x(needed): return 7", "MODULE:x", "missing 1 required positional argument"),
        ("class x:\n    estimate = len", "MODULE:x", "without a name and an estimate method"),
        (
            "class x:\n    name = 'other'\n    estimate = len",
            "MODULE:x",
            "its name is 'other', its entry point's 'bad'",
        ),
        ("x = 7", "MODULE", "failed to load: TypeError"),
    ],
)
def test_one_that_fails_to_load_is_listed_with_the_reason_and_the_others_are_there(
    site: Path, source: str, point: str, why: str
) -> None:
    install_module(site, GOOD, "table = MODULE:table")
    install_module(site, source, f"bad = {point}")
    estimators = load_estimators()
    assert sorted(estimators.available) == ["analytic", "table"]
    assert list(estimators.unavailable) == ["bad"]
    assert why in estimators.unavailable["bad"]


def test_a_name_given_twice_is_nobodys(site: Path) -> None:
    install_module(site, GOOD, "table = MODULE:table", distribution="one")
    install_module(site, GOOD, "table = MODULE:table", distribution="two")
    estimators = load_estimators()
    assert sorted(estimators.available) == ["analytic"]
    assert estimators.unavailable == {"table": "its name is given more than once, by one, two"}


def test_a_distribution_found_twice_counts_once(
    site: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_module(site, GOOD, "table = MODULE:table", distribution="one")
    other = tmp_path_factory.mktemp("other")
    install_module(other, GOOD, "table = MODULE:table", distribution="One")
    monkeypatch.syspath_prepend(other)
    assert sorted(load_estimators().available) == ["analytic", "table"]


def test_the_built_in_name_stays_the_built_in(site: Path) -> None:
    install_module(site, GOOD.replace('"fixed"', '"analytic"'), "analytic = MODULE:Fixed", distribution="one")
    estimators = load_estimators()
    assert estimators.available["analytic"] is ANALYTIC
    assert estimators.unavailable == {"analytic of one": "its name is that of a built-in estimator"}


@pytest.mark.parametrize("damage", ["[capplan.estimators\n", "no section\n", "[capplan.estimators]\nx\n", "\x00"])
def test_damaged_metadata_of_some_distribution_does_not_matter(site: Path, damage: str) -> None:
    install_module(site, GOOD, "table = MODULE:table")
    install(site, "damaged", damage)
    assert "table" in load_estimators().available


def test_a_distribution_without_a_name_does_not_matter(site: Path) -> None:
    install_module(site, GOOD, "table = MODULE:table")
    install(site, "nameless", "")
    (site / "nameless-1.0.dist-info" / "METADATA").write_text("", encoding="utf-8")
    assert "table" in load_estimators().available


def test_names_are_found_in_the_order_asked_and_unknown_ones_are_told_what_there_is() -> None:
    estimators = Estimators({"a": ANALYTIC, "b": ANALYTIC}, {"broken": "failed to load: ImportError"})
    assert list(estimators.named(["b", "a"], "second_opinions")) == ["b", "a"]
    assert not estimators.named([], "second_opinions")
    with pytest.raises(InvalidInputError) as refusal:
        estimators.named(["b", "unheard", "broken"], "second_opinions")
    assert {violation.field: violation.description for violation in refusal.value.violations} == {
        "second_opinions[1]": "the estimator 'unheard' is not known; accepted: a, b",
        "second_opinions[2]": ("the estimator 'broken' is installed, but failed to load: ImportError; accepted: a, b"),
    }
