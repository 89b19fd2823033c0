"""What `analyse`, the report and `tune` say of the clocks of measurements."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from harness.analysis.coverage import reservations
from harness.analysis.sensors import clock_lines, clock_range
from harness.core.observations import HOST_RETRIES, SM_CLOCK_MHZ, THROTTLED_SAMPLES
from harness.report.page import facts_of
from harness.results import Store, writing
from harness.results.view import Results, read_results, the_one
from tests.helpers.results_examples import begin_search, make_ok


def results_of(folder: Path, *observed: dict[str, float]) -> Results:
    """A campaign of a measurement for each of these observations."""
    database = str(folder / "r.db")
    with writing(database) as engine, Store(engine) as store:
        search = begin_search(store)
        for number, one in enumerate(observed):
            search.test(dataclasses.replace(make_ok(number), observed=one))
    return the_one(read_results([database]))


def test_samples_that_were_thrown_away_and_low_clocks_are_reported(tmp_path: Path) -> None:
    found = results_of(
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


def test_nothing_is_said_of_clocks_that_are_alike_or_unknown(tmp_path: Path) -> None:
    for name, observed in (("alike", {SM_CLOCK_MHZ: 990.0}), ("unknown", {})):
        (tmp_path / name).mkdir()
        found = results_of(tmp_path / name, observed, observed)
        assert list(clock_lines(found)) == []
        assert clock_range(found) == ("990 MHz" if observed else "")
        assert ("GPU clock" in dict(facts_of(found))) == bool(observed)


def test_counts_that_nobody_can_have_counted_are_none(tmp_path: Path) -> None:
    absurd = {HOST_RETRIES: -1e308, THROTTLED_SAMPLES: 1e308}
    found = results_of(tmp_path, absurd, absurd, {HOST_RETRIES: 2.0})
    assert list(clock_lines(found)) == [
        "The host was too slow for 2 timed runs: thrown away, and taken again."
    ]
