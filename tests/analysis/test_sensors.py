"""Energy, power and clocks in a database: tables, trees, boxes of time and power, throttling."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

from harness.analysis.coverage import input_reports, reservations
from harness.analysis.explain import explain, samples
from harness.analysis.sensors import clock_lines, clock_range, input_energies, sensor_lines
from harness.api.describing import describe_results
from harness.core.cache import Cache
from harness.core.observations import HOST, HOST_RETRIES, SM_CLOCK_MHZ, THROTTLED_SAMPLES
from harness.core.records import Config, Input, Measurement
from harness.core.text import format_energy
from harness.display.sections import energy_section, front_section
from harness.models.starchart import TreeTarget, importance
from harness.report.findings import Findings
from harness.report.page import facts_of, sections
from harness.results import Store, writing
from harness.results.view import Results, read_results, the_one
from tests.helpers.commands import analyse as main
from tests.helpers.replays import BLOCKS_AND_TILES, FormulaMeasurer, results_of, small_space
from tests.helpers.results_examples import begin_search, make_ok

Capture = pytest.CaptureFixture[str]

SPACE = small_space(BLOCKS_AND_TILES, 8, 16, 32, 64)


def time_s(problem: Input, config: Config) -> float:
    """The default is the slowest, the smallest block the fastest; TILE does not matter."""
    n, block = problem["n"], config["BLOCK"]
    return 1e-5 * n * (1 + block / 256)


def power_w(config: Config) -> float:
    """TILE=2 takes half of the power."""
    return 300.0 if config["TILE"] == 1 else 150.0 + float(config["BLOCK"]) / 100


class PoweredMeasurer(FormulaMeasurer):
    """Measures the energy of all but one block size, and a GPU that is throttled by one."""

    def measure(self, space: Any, problem: Input, config: Config, best_s: float | None) -> Any:
        found: Measurement = super().measure(space, problem, config, best_s)
        observed = {"throttled": float(config["BLOCK"] == 16)}
        if config["BLOCK"] == 16:
            observed["throttled_by_sw_power_cap"] = 1.0
        if config["BLOCK"] == 64:
            observed["launch_share"] = 0.1
        else:
            power = power_w(config)
            energy_j = power * found.time_s
            observed |= {"power_w": power, "energy_j": energy_j, "launch_share": 0.5}
            observed |= {"energy_spread_j": energy_j / 100}
        return dataclasses.replace(found, observed=observed)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return results_of(tmp_path_factory.mktemp("energy"), SPACE, PoweredMeasurer(time_s))


@pytest.fixture(scope="module")
def database(results: Results) -> str:
    return results.databases[0]


def test_an_input_has_the_energy_of_the_default_of_the_best_and_the_least(results: Results) -> None:
    found = input_energies(results, input_reports(results))
    assert [one.problem["n"] for one in found] == [8, 16, 32, 64]
    for one in found:
        n = float(str(one.problem["n"]))
        assert one.default.observed["energy_j"] == pytest.approx(300 * 2e-5 * n)
        assert one.front[-1].config == Config({"BLOCK": 16, "TILE": 2})
        assert one.count == 6, "two blocks of 64 have no energy"


def test_the_front_has_what_none_beats_in_time_and_energy(results: Results) -> None:
    first, *_ = input_energies(results, input_reports(results))
    times_s = [1e-5 * 8 * (1 + 16 / 256)]  # TILE=2 is as fast, and takes half of the power
    assert [m.time_s for m in first.front] == pytest.approx(times_s)
    assert first.front[0].config == Config({"BLOCK": 16, "TILE": 2})


def test_the_front_goes_from_the_fastest_to_the_least_energy(tmp_path: Path) -> None:
    class Trading(PoweredMeasurer):
        def measure(self, *asked: Any) -> Any:
            found = super().measure(*asked)
            energy_j = {16: 4.0, 32: 2.0, 64: 3.0, 256: 1.0}[found.config["BLOCK"]]
            return dataclasses.replace(
                found, observed={"energy_j": energy_j * found.config["TILE"]}
            )

    findings = Findings(results_of(tmp_path, SPACE, Trading(time_s)))
    rows = front_section(findings.energies, findings.default).table.rows
    assert [row[:2] for row in rows[:3]] == [("n=8", f"BLOCK={block}") for block in (16, 32)] + [
        ("n=8", "default")
    ]
    assert [row[4:] for row in rows[:3]] == [
        ("1.00x", "1.00x"), ("1.06x", "0.50x"), ("1.88x", "0.25x")
    ]  # fmt: skip
    assert len(rows) == 12
    (first, *_) = describe_results(findings).inputs
    front = [(one.config["BLOCK"], one.energy_j) for one in first.time_against_energy]
    assert front == [(16, 4.0), (32, 2.0), (256, 1.0)]


def test_energy_that_is_not_known_of_the_default_is_a_dash(results: Results) -> None:
    (first, *_) = input_energies(results, input_reports(results))
    unknown = dataclasses.replace(first, default=None, best=None)
    assert energy_section([unknown]).table.rows == [("n=8", "-", "-")]


@pytest.mark.parametrize(
    ("joules", "text"), [(0.0, "0 J"), (12.34, "12.3 J"), (0.5, "500 mJ"), (4.2e-6, "4.20 uJ")]
)
def test_energy_is_shown_in_its_unit(joules: float, text: str) -> None:
    assert format_energy(joules) == text


def test_a_tree_of_power_finds_what_takes_it(results: Results, tmp_path: Path) -> None:
    found = explain(samples(results), TreeTarget("power_w"), Cache(tmp_path))
    assert len(found.tree.samples) == 24, "those with a power"
    assert importance(found.tree)["TILE"] > 0.99
    assert found.accuracy.r2 > 0.9


def test_boxes_of_time_and_power_count_only_what_has_both(database: str, capsys: Capture) -> None:
    assert main([database, "--below", "time_s=1e-3", "--below", "power_w=200"]) == 0
    out = capsys.readouterr().out
    assert "Settings with time_s <= 0.001 and power_w <= 200" in out
    regions = re.findall(r"^ .*TILE = 2.* (\d+) +(\d+)$", out, flags=re.M)
    wanted = [
        (n, block) for n in (8, 16, 32, 64) for block in (16, 32, 256)
        if 1e-5 * n * (1 + block / 256) <= 1e-3
    ]  # fmt: skip
    assert sum(int(count) for count, _ in regions) == len(wanted)
    assert all(count == met for count, met in regions)
    assert "TILE = 1" not in out


def test_the_command_prints_the_table(database: str, capsys: Capture) -> None:
    assert main([database, "--target", "energy_j", "--per", "n"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"n=8 +48\.0 mJ \+- 480 uJ, 300 W", out)
    assert "The GPU held its clocks back in 8 of 32 measurements (sw_power_cap in 8)" in out
    assert "The energy of 8 of 32 measurements is unknown: the launches take less than" in out
    assert "Importance of parameters and inputs for energy_j / n" in out


def test_without_sensors_nothing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Findings, "picture", lambda *_: "")
    plain = results_of(tmp_path, SPACE, FormulaMeasurer(time_s), test_limit=2)
    assert list(sensor_lines(plain)) == []
    assert not any("GPU" in line for line in reservations(plain))
    findings = Findings(plain)
    assert (findings.energies, findings.power) == ([], None)
    anchors = {section.anchor for section in sections(findings) if section}
    assert anchors.isdisjoint({"energy", "front", "importance-power", "tree-power"})


# ---------- clocks


def observing(folder: Path, *observed: dict[str, float]) -> Results:
    """A campaign of a measurement for each of these observations."""
    database = str(folder / "r.db")
    with writing(database) as engine, Store(engine) as store:
        search = begin_search(store)
        for number, one in enumerate(observed, start=1):
            config = Config({"THRD": 1024, "LU": number, "X_CACHE": 0})
            search.test(dataclasses.replace(make_ok(number), config=config, observed=one))
    return the_one(read_results([database]))


def test_samples_that_were_thrown_away_and_low_clocks_are_reported(tmp_path: Path) -> None:
    found = observing(
        tmp_path,
        {SM_CLOCK_MHZ: 1980.0, THROTTLED_SAMPLES: 2},
        {SM_CLOCK_MHZ: 900.0, THROTTLED_SAMPLES: 5},
        {SM_CLOCK_MHZ: 1500.0, HOST_RETRIES: 1.0},
        {"occupancy": 1.0},
    )
    thrown, late, low = clock_lines(found)
    assert late == "The host was too slow for 1 timed run: thrown away, and taken again."
    assert thrown.startswith("7 timed runs met a GPU clock under 75 % of the full one")
    assert low.startswith("In 1 of 3 measurements the GPU's clock was low (900 MHz at the lowest, ")
    assert [thrown, late, low] == [
        line for line in reservations(found) if "clock" in line or "host" in line
    ]
    assert dict(facts_of(found))["GPU clock"] == "1,500 MHz (900 to 1,980)"


def test_calls_that_take_the_host_longer_than_the_device_are_reported(tmp_path: Path) -> None:
    found = observing(tmp_path, {HOST: 1e-9}, {HOST: 1.0}, {HOST: 2.0}, {"occupancy": 1.0})
    (line,) = clock_lines(found)
    assert line.startswith("In 2 of 3 measurements the host took longer for a call than the device")
    assert "(medians of all: 1.00 s, " in line
    assert line in reservations(found)


def test_nothing_is_said_of_clocks_that_are_alike_or_unknown(tmp_path: Path) -> None:
    for name, observed in (("alike", {SM_CLOCK_MHZ: 990.0}), ("unknown", {})):
        (tmp_path / name).mkdir()
        found = observing(tmp_path / name, observed, observed)
        assert list(clock_lines(found)) == []
        assert clock_range(found) == ("990 MHz" if observed else "")
        assert ("GPU clock" in dict(facts_of(found))) == bool(observed)


def test_counts_that_nobody_can_have_counted_are_none(tmp_path: Path) -> None:
    absurd = {HOST_RETRIES: -1e308, THROTTLED_SAMPLES: 1e308}
    found = observing(tmp_path, absurd, absurd, {HOST_RETRIES: 2.0})
    assert list(clock_lines(found)) == [
        "The host was too slow for 2 timed runs: thrown away, and taken again."
    ]
