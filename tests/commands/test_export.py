"""Exports: they are read back equal, and other tools' schema accepts them."""

import json
import weakref
from dataclasses import replace

import jsonschema
import pytest

from harness.core.records import (
    Config,
    Input,
    Measurement,
    Outcome,
    Timing,
)
from harness.options.others import ENDINGS
from harness.recordings.csv_file import csv_lines
from harness.recordings.json_file import t4_texts
from harness.recordings.replay import read_recording
from harness.space_file import Parameter
from tests import DATA
from tests.helpers.commands import export
from tests.helpers.results_examples import (
    ENVIRONMENT,
    SPEC,
    begin_search,
    make_failed,
    make_ok,
    make_plan,
    opened,
    write,
)

FORMATS = ("t4", "csv")
T4_SCHEMA = DATA / "t4_schema.json"


LINES = 'error: "x",\r\nline 2\n'


def measurements():
    """Every outcome, several inputs and samples that no short decimal is."""
    failures = [outcome for outcome in Outcome if outcome is not Outcome.OK]
    failed = [make_failed(outcome, number) for number, outcome in enumerate(failures, start=2)]
    lines = replace(make_failed(Outcome.BUILD_FAILED, 20), message=LINES)
    first, last = make_ok(1, (1 / 3e3, 2e-3, 0.1 + 0.2)), make_ok(1, (5e-324, 1e-3), SPEC.inputs[1])
    return [first, *failed, lines, last]


def exported(database, format_, *options):
    path = database.with_name(f"out{ENDINGS[format_]}")
    assert export([database, "--format", format_, "--output", path, *options]) == 0
    return path


def comparable(measurements):
    """What an export keeps of measurements."""
    return [
        (m.input, m.config, m.outcome, m.timing.samples_s if m.timing else (), m.message)
        for m in measurements
    ]


def spec_of(measurements):
    """The spec with the parameters and values that were measured, and no constraint."""
    parameters = []
    for name in measurements[0].config:
        values = [m.config[name] for m in measurements]
        parameters.append(Parameter(name, "enum", values, "source", values[0]))
    return replace(SPEC, parameters=tuple(parameters), constraints=())


def record(database, measurements):
    """Write a database of these measurements."""
    with opened(database) as store:
        for problem in dict.fromkeys(m.input for m in measurements):
            search = begin_search(store, make_plan(problem, spec=spec_of(measurements)))
            for m in measurements:
                if m.input == problem:
                    search.test(m)


@pytest.mark.parametrize("format_", FORMATS)
def test_an_export_is_read_back_equal(tmp_path, format_):
    found = measurements()
    record(tmp_path / "r.db", found)
    recorded = read_recording(exported(tmp_path / "r.db", format_))
    assert comparable(recorded.measurements.values()) == comparable(found)
    assert recorded.device == "a device"
    assert recorded.features == SPEC.features


def test_shared_measurements_are_written_and_counted(tmp_path, capsys):
    shared = replace(make_ok(1), config=make_ok(2).config, shared_with="ab" * 32)
    record(tmp_path / "r.db", [make_ok(1), shared])
    recorded = read_recording(exported(tmp_path / "r.db", "t4"))
    written = comparable(recorded.measurements.values())
    assert written == comparable([make_ok(1), shared])
    message = capsys.readouterr().out
    assert "2 measurements of mvmul" in message
    assert "1 of them shared" in message


def of_value(value):
    config = Config({"P": value, "Q": 1})
    return Measurement(config, SPEC.inputs[0], Outcome.OK, Timing((1e-3,)))


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize(
    "values",
    [[1, 2, 4], [0.5, 1.0, 2.5], [1, 2.5], [True, False], ["row", "a, b\"c'", "é"],
     [None, 16, 32], [None, "ca"], ["1", "2"], ["true", "no"], [64]],
)  # fmt: skip
def test_values_keep_their_types(tmp_path, format_, values):
    found = [of_value(value) for value in values]
    record(tmp_path / "r.db", found)
    recorded = read_recording(exported(tmp_path / "r.db", format_))
    assert comparable(recorded.measurements.values()) == comparable(found)


@pytest.mark.parametrize("values", [[1, "1"], [True, "true"], [None, "absent"]])
def test_values_that_look_alike_in_csv_are_refused(tmp_path, capsys, values):
    record(tmp_path / "r.db", list(map(of_value, values)))
    path = tmp_path / "out.csv"
    assert export([tmp_path / "r.db", "--format", "csv", "--output", path]) == 2
    assert "look alike in CSV; export with --format t4" in capsys.readouterr().err
    assert list(tmp_path.glob("out*")) == []


def test_t4_has_the_published_shape(tmp_path):
    record(tmp_path / "r.db", measurements())
    data = json.loads(exported(tmp_path / "r.db", "t4").read_text())
    jsonschema.validate(data, json.loads(T4_SCHEMA.read_text()))
    assert data["metadata"]["compute_api"] == "OpenCL"
    assert [r["invalidity"] for r in data["results"]] == [
        "correct", "constraints", "compile", "runtime", "runtime", "correctness", "correctness",
        "timeout", "runtime", "compile", "correct",
    ]  # fmt: skip
    assert data["results"][0]["times"]["compilation_time"] == 0.25


def test_last_campaign_is_exported_beside_its_database(tmp_path, capsys):
    write(tmp_path / "r.db", make_ok(1), plan=make_plan(campaign=1))
    write(tmp_path / "r.db", make_ok(2), plan=make_plan(campaign=2))
    assert export([tmp_path / "r.db"]) == 0
    path = tmp_path / "mvmul.t4.json"
    assert capsys.readouterr().out.startswith(f"{path}: 1 measurements of mvmul on a device")
    ((given, config),) = read_recording(path).measurements
    assert (given, config) == (SPEC.inputs[0], make_ok(2).config)


def test_an_export_names_the_environments_it_leaves_out(tmp_path, capsys):
    write(tmp_path / "r.db", make_ok(1))
    assert export([tmp_path / "r.db"]) == 0
    assert "Left out" not in capsys.readouterr().out
    cold = replace(ENVIRONMENT, cache="cold")
    write(tmp_path / "r.db", make_ok(2), plan=make_plan(environment=cold))
    assert export([tmp_path / "r.db"]) == 0
    left_out = f"one environment: mvmul on {ENVIRONMENT}"
    assert capsys.readouterr().out.rstrip().endswith(left_out)


@pytest.mark.parametrize(
    "options, message",
    [
        (["r.db", "--space", "other"], "no results of a space `other`; there is mvmul"),
        (["r.db", "--output", "r.db"], "r.db already exists and was not written by harness"),
        (["r.db", "--output", "none/x.json"], "x.json cannot be written: the folder none does"),
        (["none.db"], "none.db"),
    ],
)
def test_what_cannot_be_exported_is_one_clear_error(
    tmp_path, monkeypatch, capsys, options, message
):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "r.db", make_ok(1))
    assert export(options) == 2
    assert message in capsys.readouterr().err


def test_measurements_are_written_as_they_come():
    """One at a time is in memory, however many there are."""
    alive = weakref.WeakSet()
    most = 0

    def measured():
        nonlocal most
        for number in range(20):
            given, config = Input({"m": number}), Config({"B": 1})
            made = Measurement(config, given, Outcome.CRASHED, message="it")
            alive.add(made)
            most = max(most, len(alive))
            yield made
            del made

    for text in (csv_lines(measured(), ["m"], {"B": [1]}), t4_texts("x", ENVIRONMENT, measured())):
        assert len(list(text)) > 20
    assert most <= 3
