"""Energy, power and clocks in a database: tables, trees, boxes of time and power, throttling."""

from dataclasses import replace

import pytest

from harness.analysis.coverage import input_reports, reservations
from harness.analysis.explain import explain, samples
from harness.analysis.sensors import clock_lines, clock_range, input_energies, sensor_lines
from harness.api.describing import describe_results
from harness.core.cache import Cache
from harness.core.observations import HOST, HOST_RETRIES, SM_CLOCK_MHZ, THROTTLED_SAMPLES
from harness.core.records import Config
from harness.core.text import format_energy
from harness.display.sections import energy_section, front_section
from harness.models.starchart import TreeTarget, importance
from harness.report.findings import Findings
from harness.report.page import facts_of, sections
from harness.results.view import read_results, the_one
from tests.helpers.commands import analyse as main
from tests.helpers.replays import BLOCKS_AND_TILES, FormulaMeasurer, results_of, small_space
from tests.helpers.results_examples import make_ok, write

SPACE = small_space(BLOCKS_AND_TILES, 8, 16, 32, 64)
ONE_INPUT = small_space(BLOCKS_AND_TILES, 8)


def time_s(problem, config):
    """The default is the slowest, the smallest block the fastest; TILE does not matter."""
    n, block = problem["n"], config["BLOCK"]
    return 1e-5 * n * (1 + block / 256)


def power_w(config):
    """TILE=2 takes half of the power."""
    return 300.0 if config["TILE"] == 1 else 150.0 + config["BLOCK"] / 100


class PoweredMeasurer(FormulaMeasurer):
    """Measures the energy of all but one block size, and a GPU that is throttled by one."""

    def measure(self, *asked):
        measured = super().measure(*asked)
        block, power = measured.config["BLOCK"], power_w(measured.config)
        observed = {"throttled": 0.0, "launch_share": 0.1}
        if block == 16:
            observed = {"throttled": 1.0, "throttled_by_sw_power_cap": 1.0}
        if block != 64:
            energy_j = power * measured.time_s
            observed |= {"power_w": power, "energy_j": energy_j, "launch_share": 0.5}
            observed["energy_spread_j"] = energy_j / 100
        return replace(measured, observed=observed)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return results_of(tmp_path_factory.mktemp("energy"), SPACE, PoweredMeasurer(time_s))


@pytest.fixture(scope="module")
def database(results):
    return results.databases[0]


def test_the_front_goes_from_the_fastest_to_the_least_energy(tmp_path):
    class Trading(PoweredMeasurer):
        def measure(self, *asked):
            measured = super().measure(*asked)
            energy_j = {16: 4.0, 32: 2.0, 64: 3.0, 256: 1.0}[measured.config["BLOCK"]]
            observed = {"energy_j": energy_j * measured.config["TILE"]}
            return replace(measured, observed=observed)

    findings = Findings(results_of(tmp_path, ONE_INPUT, Trading(time_s)))
    rows = front_section(findings.energies, findings.default).table.rows
    assert [row[1] for row in rows] == ["BLOCK=16", "BLOCK=32", "default"]
    assert [row[4:] for row in rows] == [
        ("1.00x", "1.00x"), ("1.06x", "0.50x"), ("1.88x", "0.25x")
    ]  # fmt: skip
    (described,) = describe_results(findings).inputs
    front = [(one.config["BLOCK"], one.energy_j) for one in described.time_against_energy]
    assert front == [(16, 4.0), (32, 2.0), (256, 1.0)]


def test_energy_that_is_not_known_of_the_default_is_a_dash(results):
    (first, *_) = input_energies(results, input_reports(results))
    unknown = replace(first, default=None, best=None)
    assert energy_section([unknown]).table.rows == [("n=8", "-", "-")]


def test_energy_is_shown_in_its_unit():
    for joules, text in ((0.0, "0 J"), (12.34, "12.3 J"), (0.5, "500 mJ"), (4.2e-6, "4.20 uJ")):
        assert format_energy(joules) == text


def test_a_tree_of_power_finds_what_takes_it(results, tmp_path):
    explained = explain(samples(results), TreeTarget("power_w"), Cache(tmp_path))
    assert len(explained.tree.samples) == 24, "those with a power"
    assert importance(explained.tree)["TILE"] > 0.99
    assert explained.accuracy.r2 > 0.9


def test_the_command_says_what_throttled(database, capsys):
    assert main([database]) == 0
    out = capsys.readouterr().out
    assert "8 of 32 measurements (sw_power_cap in 8)" in out


def test_without_sensors_nothing_is_said(undrawn, tmp_path):
    plain = results_of(tmp_path, ONE_INPUT, FormulaMeasurer(time_s), test_limit=2)
    assert list(sensor_lines(plain)) == []
    assert not any("GPU" in line for line in reservations(plain))
    findings = Findings(plain)
    assert (findings.energies, findings.power) == ([], None)
    anchors = {section.anchor for section in sections(findings) if section}
    assert anchors.isdisjoint({"energy", "front", "importance-power", "tree-power"})


# ---------- clocks


def observing(folder, *observed):
    """A campaign of a measurement for each of these observations."""
    tests = []
    for number, each in enumerate(observed, start=1):
        config = Config({"THRD": 1024, "LU": number, "X_CACHE": 0})
        tests.append(replace(make_ok(number), config=config, observed=each))
    write(folder / "r.db", *tests)
    return the_one(read_results([str(folder / "r.db")]))


def test_samples_that_were_thrown_away_and_low_clocks_are_reported(tmp_path):
    found = observing(
        tmp_path,
        {SM_CLOCK_MHZ: 1980.0, THROTTLED_SAMPLES: 2},
        {SM_CLOCK_MHZ: 900.0, THROTTLED_SAMPLES: 5},
        {SM_CLOCK_MHZ: 1500.0, HOST_RETRIES: 1.0},
        {"occupancy": 1.0},
    )
    lines = list(clock_lines(found))
    for line, fact in zip(lines, ("7 timed runs", "1 timed run", "900 MHz"), strict=True):
        assert fact in line
        assert line in reservations(found)
    assert dict(facts_of(found))["GPU clock"] == "1,500 MHz (900 to 1,980)"


def test_calls_that_take_the_host_longer_than_the_device_are_reported(tmp_path):
    found = observing(tmp_path, {HOST: 1e-9}, {HOST: 1.0}, {HOST: 2.0}, {"occupancy": 1.0})
    (line,) = clock_lines(found)
    assert "2 of 3 measurements" in line
    assert "(medians of all: 1.00 s, " in line


def test_nothing_is_said_of_clocks_that_are_alike_or_unknown(tmp_path):
    for observed, shown in (({}, ""), ({SM_CLOCK_MHZ: 990.0}, "990 MHz")):
        (tmp_path / "r.db").unlink(missing_ok=True)
        found = observing(tmp_path, observed, observed)
        assert list(clock_lines(found)) == []
        assert clock_range(found) == shown
        assert ("GPU clock" in dict(facts_of(found))) == bool(observed)


def test_counts_that_nobody_can_have_counted_are_none(tmp_path):
    absurd = {HOST_RETRIES: -1e308, THROTTLED_SAMPLES: 1e308}
    found = observing(tmp_path, absurd, absurd, {HOST_RETRIES: 2.0})
    (line,) = clock_lines(found)
    assert "2 timed runs" in line
