"""Measurements as columns say what their records say."""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections import Counter
from typing import Any

import numpy as np
import pytest

from harness.analysis import coverage
from harness.analysis.coverage import reservations
from harness.analysis.explain import samples
from harness.constraints.expression import Expression
from harness.core.records import Config, Input, Measurement, Outcome, Timing
from harness.results import (
    MeasurementRow,
    StoredCampaign,
    as_rows,
    by_configs,
    interleaved_groups,
    reader,
)
from harness.results.columns import ConfigTable
from harness.results.fitting import fitting
from harness.results.ledger import Ledger
from harness.results.measured import MeasuredConfigs, by_input, measured_by_input
from harness.results.schema import SEARCHED
from harness.space_file import Parameter
from tests.helpers.noise import is_within_noise
from tests.helpers.results_examples import (
    ENVIRONMENT,
    KEY,
    SPEC,
    make_build,
    make_config,
    make_failed,
    make_ok,
    read_back,
    write,
)

FIRST, SECOND = SPEC.inputs[0], SPEC.inputs[1]


def assorted():
    """Measurements of two inputs, some of which failed, share a measurement or were repeated."""
    rng = random.Random(0)
    measured = []
    for number, problem in itertools.product(range(1, 9), (FIRST, SECOND)):
        samples_s = [1e-3 * rng.uniform(0.99, 1.03) for _ in range(1 + number % 4)]
        measured.append(make_ok(number, samples_s, problem))
    shared = make_config(2).digest
    measured.append(dataclasses.replace(make_ok(9, [1e-3, 1.1e-3]), shared_with=shared))
    measured.append(dataclasses.replace(make_ok(10, [1e-3]), observed={"occupancy": 0.5}))
    measured += [make_failed(outcome, 11) for outcome in (Outcome.TIMEOUT, Outcome.BUILD_FAILED)]
    measured.append(make_ok(3, [0.9e-3, 0.8e-3], SECOND))
    return list(searched(measured))


def searched(measurements):
    """Rows of a search, numbered in their order."""
    moment = "2026-01-01T00:00:00.000+00:00"
    return as_rows(
        MeasurementRow(number, "search", m, None, f"{number:032x}", "UniformRandom", moment)
        for number, m in enumerate(measurements)
    )


def test_records_come_back_from_columns():
    rows = assorted()
    assert list(as_rows(rows)) == rows
    assert list(as_rows([])) == []


def test_statistics_of_all_samples_are_those_of_each_timing():
    rows = as_rows(assorted())
    found = rows.columns.statistics
    for index, m in enumerate(rows.measurements()):
        if m.timing:
            assert found.median[index] == m.timing.median_s
            assert found.mean[index] == pytest.approx(m.timing.mean_s, rel=1e-14)
            assert found.std[index] == pytest.approx(m.timing.std_s, rel=1e-9, abs=1e-20)
        else:
            assert np.isnan(found.median[index])


def test_counts_over_columns_are_those_over_records():
    rows = [row for row in assorted() if row.measurement.input == FIRST]
    measured = {row.measurement.config: row.measurement for row in rows}
    counts, records = MeasuredConfigs.of(measured), list(measured.values())
    working = [m for m in records if m.timing]
    assert counts.fastest == min(working, key=lambda m: m.time_s)
    assert counts.rows.outcomes == Counter(m.outcome for m in records)
    assert counts.rows.is_shared.sum() == 1
    origins_last = sorted(records, key=lambda m: m.shared_with is None)
    of_code = {m.shared_with or m.config.digest: m for m in origins_last}
    for best in records:
        own = best.shared_with or best.config.digest
        others = [m for code, m in of_code.items() if code != own]
        ties = [m.timing and best.timing and is_within_noise(best.timing, m.timing) for m in others]
        assert counts.ties(best.config, 0.95) == sum(map(bool, ties))
    assert sum(counts.ties(m.config, 0.95) for m in records) > 0


def test_the_last_measurement_of_a_configuration_counts():
    expected: dict[Input, dict[Config, Measurement]] = {}
    for row in assorted():
        expected.setdefault(row.measurement.input, {})[row.measurement.config] = row.measurement
    found = measured_by_input(as_rows(assorted()))
    assert {problem: dict(known) for problem, known in found.items()} == expected
    assert [list(known) for known in found.values()] == [list(one) for one in expected.values()]
    known = found[SECOND]
    assert known[make_config(3)].time_s == pytest.approx(0.85e-3)
    assert make_config(99) not in known
    assert MeasuredConfigs.of(known) is known


def test_values_that_python_calls_equal_are_different_in_a_table():
    configs: list[Config] = [Config({"A": value}) for value in (1, 1.0, True, None, "1", 0.0, -0.0)]
    table = ConfigTable.of([*configs, Config({"B": 1})])
    assert list(table) == [*configs, Config({"B": 1})]
    assert [table.find(config) for config in configs] == list(range(7))
    assert table.find(Config({"B": 1})) == 7
    assert table.find(Config({"A": 2})) is None
    assert table.find(Config({"A": 1, "B": 1})) is None


def test_reads_of_any_size_are_the_same(tmp_path, monkeypatch):
    place = tmp_path / "r.db"
    write(place, *(row.measurement for row in assorted()))

    whole = list(read_back(place))
    monkeypatch.setattr(reader, "FETCHED", 3)
    assert list(read_back(place)) == whole
    assert [row.measurement for row in whole] == [row.measurement for row in assorted()]
    assert not read_back(place, stages=("final",))


# ------------------------------------------------------------------------------ samples


def test_a_sample_of_many_is_announced(sized, monkeypatch):
    assert not any("random samples" in line for line in reservations(dataclasses.replace(sized)))
    monkeypatch.setattr(coverage, "MOST_ROWS", 30)
    lines = reservations(dataclasses.replace(sized))
    (line,) = (line for line in lines if "random samples" in line)
    assert f" 30 of the {len(sized.searched)} " in line


def test_a_sample_keeps_the_slowdowns(sized, monkeypatch):
    def times(results):
        table: Any = samples(results).table
        return set(zip(table["time_s"], table["slowdown"], strict=True))

    whole = times(dataclasses.replace(sized))
    monkeypatch.setattr(coverage, "MOST_ROWS", 30)
    assert len(samples(dataclasses.replace(sized)).table) == 30
    assert times(dataclasses.replace(sized)) <= whole


# ---------- measurements from before the space was edited are left out, and said to be


SMALL, LARGE = Input({"n": 8}), Input({"n": 64})


def campaign(**values):
    """A campaign on a space of these parameters."""
    begun = StoredCampaign.begun(KEY, SPEC, ENVIRONMENT)
    parameters = {n: Parameter(n, "enum", some, "source", some[0]) for n, some in values.items()}
    return dataclasses.replace(begun, parameters=parameters, constraints=())


def rows_of(*measured):
    timing = Timing((1e-3, 2e-3))
    return searched(
        Measurement(Config(values), problem, Outcome.OK, timing) for problem, values in measured
    )


def test_rows_with_other_parameters_than_the_space_are_left_out_and_named():
    rows = rows_of(
        (SMALL, {"BLOCK": 16, "TILE": 1}),
        (LARGE, {"BLOCK": 16}),
        (SMALL, {"BLOCK": 32, "TILE": 2}),
        (LARGE, {"BLOCK": 16, "TILE": 1, "OLD": 3}),
    )
    found = fitting(rows, campaign(BLOCK=(16, 32), TILE=(1, 2)), {})
    assert found.names == {"BLOCK", "TILE"}
    assert [row.uuid for row in found.rows] == [rows[0].uuid, rows[2].uuid]
    assert by_input(found.others).keys() == {LARGE}
    assert "2 of 4 measurements" in found.sentence
    assert "2 with other parameters (they differ in OLD, TILE)" in found.sentence


def test_rows_with_former_values_are_left_out_and_named_by_type():
    rows = rows_of(*((SMALL, {"BLOCK": block, "TILE": 1}) for block in (16, 32, 64)))
    found = fitting(rows, campaign(BLOCK=range(16, 33), TILE=(True, 1)), {})
    assert [row.measurement.config["BLOCK"] for row in found.rows] == [16, 32]
    assert "1 of 3 measurements" in found.sentence
    assert "(BLOCK=64)" in found.sentence
    assert not fitting(rows, campaign(BLOCK=(16, 32, 64), TILE=(True, 1.0)), {}).rows


def test_constraints_leave_rows_out_by_input_and_by_the_devices_limits():
    rows = rows_of(
        *((problem, {"BLOCK": block, "TILE": 1}) for problem in (SMALL, LARGE) for block in (8, 32))
    )
    now = campaign(BLOCK=(8, 32), TILE=(1, 2))
    for constraint, limits, left in (
        ("BLOCK <= n", {}, [True, False, True, True]),
        ("TILE == 1 and BLOCK * TILE < 32", {}, [True, False, True, False]),
        ("BLOCK < max_group_size or n > 8", {"max_group_size": 32}, [True, False, True, True]),
        ("BLOCK < max_group_size", {}, [True] * 4),
        ("other > 5", {}, [True] * 4),
    ):
        edited = dataclasses.replace(now, constraints=(constraint,))
        found = fitting(rows, edited, limits)
        assert [row.id for row in found.rows] == [i for i, kept in enumerate(left) if kept]
        is_said = "that its constraints do not allow" in found.sentence
        assert is_said is (not all(left))


def test_a_parameter_that_does_not_matter_counts_at_its_default():
    rows = rows_of(*((SMALL, {"BLOCK": block, "TILE": 2}) for block in (16, 32)))
    tile = Parameter("TILE", "enum", (1, 2), "source", 1, when=Expression("BLOCK > 16"))
    now = campaign(BLOCK=(16, 32), TILE=(1, 2))
    now = dataclasses.replace(now, parameters={**now.parameters, "TILE": tile})
    assert [row.id for row in fitting(rows, now, {}).rows] == [1]


def test_inputs_and_flags_that_are_not_of_the_campaign_take_no_part():
    rows = rows_of((SMALL, {"BLOCK": 16}), (LARGE, {"BLOCK": 64}))
    of_inputs = fitting(rows, campaign(BLOCK=(16,)), {}, [SMALL])
    assert [row.id for row in of_inputs.rows] == [0]
    assert of_inputs.sentence == ""
    now = campaign(BLOCK=(16, 64), maxrregcount=(None, 32))
    of_another_compiler = fitting(rows, now, {})
    assert of_another_compiler.names == {"BLOCK"}
    assert (len(of_another_compiler.rows), of_another_compiler.sentence) == (2, "")
    given = fitting(rows, now, {}, names=frozenset(now.default))
    assert (len(given.rows), len(given.others)) == (0, 2)


# ---------- a ledger: stored columns and appended records are one table


def test_a_ledger_has_what_was_stored_and_each_record_that_was_appended():
    rows = [dataclasses.replace(row, id=number) for number, row in enumerate(assorted())]
    assert len(rows) > 6
    for count in (0, 3, len(rows) - 1):
        before = as_rows(rows[:count])
        ledger = Ledger(before, before)
        for row in rows[count:]:
            ledger.append([row])
        asked = dataclasses.replace(rows[0], requestor="another")
        ledger.append([asked])
        expected = as_rows([asked, *rows[1:]])
        assert ledger.rows == expected
        selected = ledger.rows.columns.time_s[ledger.rows.selected]
        assert list(selected) == list(expected.columns.time_s)
        for problem, measured in measured_by_input(expected.of_stages(SEARCHED)).items():
            assert dict(ledger.searched(problem)) == dict(measured)
            assert {c: r.measurement for c, r in ledger.answers(problem).items()} == dict(measured)


def test_a_ledger_groups_what_was_interleaved_and_lets_be_measured_again():
    first = [stored(number, number, "2026-01-01T00:00:00.000+00:00", "a") for number in (1, 2)]
    second = [stored(number, number, "2026-01-02T00:00:00.000+00:00", "b") for number in (3, 4)]
    ledger = Ledger(first, as_rows(first))
    ledger.append(second)
    problem, stage = first[0].measurement.input, first[0].stage
    assert ledger.interleaved(problem, stage) == [
        [row.measurement for row in group] for group in (first, second)
    ]
    assert ledger.rows == [*first, *second]
    again = MeasurementRow(9, "search", measured(8, 16))
    ledger.append([again])
    ledger.measure_again(problem, again.measurement.config)
    assert not ledger.searched(problem)
    assert again in list(ledger.rows)


# ---------- stored measurements: with their builds or without, and in their interleaved groups


BUILD = make_build(1)


def measured(n, block, *, time_s=1e-3):
    timing = Timing((time_s, 2 * time_s))
    return Measurement(Config({"BLOCK": block}), Input({"n": n}), Outcome.OK, timing, BUILD)


def test_measurements_have_their_builds_unless_these_are_left_out(tmp_path):
    place = tmp_path / "r.db"
    write(place, make_ok(1), dataclasses.replace(make_ok(2), build=BUILD))
    for builds, build in ((True, BUILD), (False, None)):
        rows = read_back(place, builds=builds)
        assert {row.measurement.build for row in rows} == {build}


def stored(number, block, moment, group=None):
    found = measured(8, block)
    return MeasurementRow(number, "final", found, group, f"{number:032x}", None, moment)


def test_interleaved_measurements_are_grouped_and_the_group_that_ended_first_comes_first():
    rows = [
        stored(1, 16, "2026-01-03T00:00:00.000+00:00", "late"),
        stored(2, 16, "2026-01-01T00:00:00.000+00:00", "early"),
        stored(3, 64, "2026-01-01T00:00:00.000+00:00", "late"),
        stored(4, 64, "2026-01-02T00:00:00.000+00:00", "early"),
        stored(5, 16, "2026-01-04T00:00:00.000+00:00"),
        stored(6, 16, "2026-01-05T00:00:00.000+00:00"),
    ]
    groups = interleaved_groups(rows)
    assert [[m.config["BLOCK"] for m in group] for group in groups] == [[16, 64]] * 2 + [[16]] * 2
    assert groups[0] == [rows[1].measurement, rows[3].measurement]
    pair = (Config({"BLOCK": 16}), Config({"BLOCK": 64}))
    assert by_configs(groups) == {pair: groups[:2], pair[:1]: groups[2:]}
