"""The roofline of results: the table, its picture, the JSON, trees, and searches that it ends."""

from __future__ import annotations

import dataclasses

import pytest

from harness.analysis.explain import explain, samples
from harness.api.describing import describe_results
from harness.core.cache import Cache
from harness.display.sections import roofline_section
from harness.measure.kernels.peak import rates
from harness.models.starchart import TreeTarget, importance
from harness.report.findings import Findings
from harness.report.page import sections
from harness.search import EndReason
from tests.helpers.commands import tune
from tests.helpers.replays import (
    BLOCKS_AND_TILES,
    FormulaMeasurer,
    make_spec,
    ran,
    results_of,
    small_space,
)

SPACE = small_space(
    BLOCKS_AND_TILES, 8, 16, 32, 64, more="work: {bytes: 1000000 * n, flops: 8000000 * n}\n"
)
PEAK = {"bytes": 1e11, "flops": 2e12}  # the bytes take 10 us for each n, the operations 4 us


def time_s(problem, config):
    """The smallest block reaches 94 % of the peak, the default half, and n=64 is in a cache."""
    n, block = problem["n"], config["BLOCK"]
    return 1e-5 * n * (1 + block / 256) / (2 if n == 64 else 1)


class RatedMeasurer(FormulaMeasurer):
    """Observes what the work of the space makes of the formula's times."""

    def __init__(self, spec):
        super().__init__(time_s)
        self._work = spec.work

    def measure(self, *asked):
        return self._rated(super().measure(*asked))

    def measure_interleaved(self, *asked, **seeds):
        return list(map(self._rated, super().measure_interleaved(*asked, **seeds)))

    def _rated(self, measured):
        observed = rates(self._work.of(measured.input), PEAK, measured.time_s)
        return dataclasses.replace(measured, observed=observed)


@pytest.fixture(scope="module")
def findings(tmp_path_factory):
    folder = tmp_path_factory.mktemp("roofline")
    found = results_of(folder, SPACE, RatedMeasurer(make_spec(folder, SPACE)))
    return Findings(found, Cache(folder / "kept"))


def test_each_input_has_its_rates_and_both_fractions_of_the_peak(findings):
    section = roofline_section(findings.reports)
    assert "100 GB/s in a copy and 2000 GFLOP/s" in section.texts[0]
    assert section.table.rows[0] == ("n=8", "94.12", "752.9", "94 %", "50 %", "memory")
    assert section.table.rows[3][3:5] == ("190 %", "100 %")
    (line,) = section.lines
    assert line.startswith("1 input above the peak")


@pytest.mark.slow
def test_the_page_draws_the_roof(findings):
    of_page = {section.anchor: section for section in sections(findings) if section}
    assert "operations per byte" in of_page["roofline"].picture


def test_the_json_has_the_numbers(findings):
    first = describe_results(findings).inputs[0]
    numbers = first.gb_per_s, first.gflop_per_s, first.peak_fraction
    assert numbers == pytest.approx((94.12, 752.9, 0.9412), rel=1e-3)


def test_the_fraction_is_a_target_of_trees_and_the_peak_is_none(findings):
    taken = samples(findings.results)
    assert {name for name in taken.targets if "_per_s" in name or "peak" in name} == {
        "gb_per_s", "gflop_per_s", "peak_fraction"
    }  # fmt: skip
    tree = explain(taken, TreeTarget("peak_fraction"), findings.cache).tree
    assert importance(tree)["TILE"] < 0.01


@pytest.mark.parametrize(
    ("stop_at", "last", "ended"),
    [(0.49, 256, EndReason.PEAK), (0.9, 16, EndReason.PEAK), (1.0, None, EndReason.EXHAUSTED)],
)
def test_a_search_ends_when_the_best_reaches_the_fraction_that_the_space_asks_for(
    stop_at, last, ended, tmp_path
):
    spec = make_spec(tmp_path, SPACE.replace(", {n: 16}, {n: 32}, {n: 64}", ""))
    (problem,) = spec.inputs
    measurer, options = RatedMeasurer(spec), {"parallelism": 1, "peak_fraction": stop_at}
    first = ran(spec, tmp_path / "r.db", measurer, **options)
    blocks = [config["BLOCK"] for config in first.tested(problem)]
    if last is None:
        assert len(blocks) == 8
    else:
        assert blocks.index(last) == len(blocks) - 1
    count = len(measurer.asked)
    again = ran(spec, tmp_path / "r.db", measurer, **options)
    assert len(measurer.asked) == count, "the same command measures nothing more"
    for campaign in (first.campaign, again.campaign):
        assert campaign.searched[problem].ended is ended


def test_tune_says_that_the_space_asks_for_no_more(tmp_path, monkeypatch, capsys):
    spec = make_spec(tmp_path, f"{SPACE}search: {{stop_at: 0.9}}\n")
    opened = {"one": RatedMeasurer(spec)}, "it is a formula"
    monkeypatch.setattr("harness.api.running.open_measurers", lambda *_: opened)
    assert tune([str(spec.path), "--database", str(tmp_path / "r.db"), "--quiet"]) == 0
    assert "reached 90 %" in " ".join(capsys.readouterr().out.split())


def test_without_work_nothing_is_said(tmp_path):
    space = small_space(BLOCKS_AND_TILES, 8)
    plain = Findings(results_of(tmp_path, space, FormulaMeasurer(time_s), test_limit=2))
    assert roofline_section(plain.reports) is None
    assert describe_results(plain).inputs[0].peak_fraction is None
