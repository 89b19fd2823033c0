"""OpenTuner's measurement interface: with stock OpenTuner, and as the seam of harness's driver."""

import importlib
import json
import runpy
import subprocess
import sys
from argparse import ArgumentParser

import psutil
import pytest

import harness
from harness.core.records import Config, Input, Measurement, Outcome
from harness.search import InputInterface, MeasurementInterface
from harness.space import ConstrainedSpace
from tests import ROOT
from tests.helpers.commands import analyse, merge
from tests.helpers.replays import SPACE, FormulaMeasurer, formula_s, make_spec, ran, small_space

opentuner = importlib.import_module("opentuner")
tuningrunmain = importlib.import_module("opentuner.tuningrunmain")
models = importlib.import_module("opentuner.resultsdb.models")


@pytest.fixture
def spec(tmp_path):
    return make_spec(tmp_path)


def make_interface(spec, measurer, *words):
    """The interface of the first input, with OpenTuner's options."""
    args = ArgumentParser(parents=opentuner.argparsers()).parse_args(words)
    problem = spec.inputs[0]
    space = ConstrainedSpace.of(spec, problem, None)
    return InputInterface(spec, problem, space, measurer, args)


class Stock:
    """A run of stock OpenTuner."""

    def __init__(self, interface):
        self.main = tuningrunmain.TuningRunMain(interface, interface.args)
        self.final = None
        interface.save_final_config = self.save
        self.main.main()

    def save(self, configuration):
        """Remember what is handed back, as it is then."""
        self.final = Config(configuration.data), configuration.hash

    def rows(self, model):
        """The rows of a table."""
        return self.main.Session().query(model).all()


@pytest.fixture
def on_formula(monkeypatch, tmp_path):
    """The device is the formula, and the folder that of the test."""
    measurer = FormulaMeasurer()
    monkeypatch.setattr("harness.search.interface.open_measurer", lambda *_, **__: (measurer, ""))
    monkeypatch.chdir(tmp_path)
    return measurer


@pytest.fixture
def stock(tmp_path, monkeypatch):
    """Run stock OpenTuner in an empty folder; its logging would replace pytest's."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tuningrunmain, "init_logging", lambda: None)
    return Stock


# ------------------------------------------------------------------------- stock OpenTuner


def test_a_program_in_opentuners_usual_form_tunes_and_is_analysed(
    spec, on_formula, stock, tmp_path, capsys, monkeypatch
):
    problem = dict(spec.inputs[0])
    words = [str(spec.path), json.dumps(problem), "--test-limit=3", "--no-dups"]
    monkeypatch.setattr(sys, "argv", ["tune_with_opentuner.py", *words])
    runpy.run_path(str(ROOT / "examples/tune_with_opentuner.py"), run_name="__main__")
    (file,) = tmp_path.glob("formula.*.json")
    final = json.loads(file.read_text())
    assert (final["space"], final["input"]) == ("formula", problem)
    (database,) = (tmp_path / "opentuner.db").iterdir()
    assert merge([tmp_path / "all.db", database]) == 0
    capsys.readouterr()
    assert analyse([tmp_path / "all.db", "--json"]) == 0
    (analysis,) = json.loads(capsys.readouterr().out)["analyses"]
    (report,) = analysis["results"]["inputs"]
    assert report["input"] == problem
    assert report["best"] == final["configuration"]
    assert report["time_s"] == final["time_s"]


def test_the_database_has_what_was_measured(spec, stock):
    measurer = FormulaMeasurer()
    run = stock(make_interface(spec, measurer, "--test-limit=25", "--no-dups"))
    results = run.rows(models.Result)
    problem = spec.inputs[0]
    assert len(results) == len(measurer.asked)
    for result in results:
        config = Config(result.configuration.data)
        assert result.configuration.hash == config.digest
        assert result.time == formula_s(problem, config)
    (version,) = run.rows(models.ProgramVersion)
    assert (version.project, version.name) == ("harness", "formula")
    assert version.version == spec.space_sha256
    (row,) = run.rows(models.Input)
    assert Input(json.loads(row.path)) == problem


def test_a_configuration_is_measured_once_and_handed_back_as_measured(spec, stock, monkeypatch):
    swarm = next(t for t in opentuner.search.technique.the_registry if t.name == "pso-OX1")
    monkeypatch.setattr(swarm, "N", 8)  # particles, for some generations of few tests
    measurer = FormulaMeasurer()
    words = ["--technique=pso-OX1", "--test-limit=30", "--no-dups"]
    run = stock(make_interface(spec, measurer, *words))
    asked = [config for _, config in measurer.asked]
    assert len(asked) == len(set(asked))
    final, digest = run.final
    assert final.digest == digest
    assert final == min(asked, key=lambda config: formula_s(spec.inputs[0], config))


def test_a_technique_may_change_the_configuration_that_it_asked_for(spec, stock):
    driver = stock(make_interface(spec, FormulaMeasurer(), "--test-limit=1")).main.search_driver
    proposed = driver.manipulator.random()
    stored = driver.get_configuration(proposed)
    proposed["CACHE"] = not proposed["CACHE"]
    assert Config(stored.data).digest == stored.hash


def test_requests_for_one_configuration_have_one_result(tmp_path, stock):
    small = small_space("BLOCK: {values: [16, 64, 256], default: 64}", 1)
    measurer = FormulaMeasurer(lambda _, config: config["BLOCK"])
    # Of several repeated requests in a generation, OpenTuner answers the last one for all.
    words = ["--technique=PureRandom", "--test-limit=9", "--no-dups", "--parallelism=1"]
    run = stock(make_interface(make_spec(tmp_path, small), measurer, *words))
    assert len(measurer.asked) <= 3
    requests = run.rows(models.DesiredResult)
    assert len(requests) >= 9
    assert {request.state for request in requests} == {"COMPLETE"}
    assert all(r.result.configuration_id == r.configuration_id for r in requests)


def test_builds_are_started_together_with_parallel_compile(spec, stock):
    class Expecting(FormulaMeasurer):
        expected: list[Config]

        def expect(self, space, configs):
            self.expected.extend(configs)

    measurer = Expecting()
    measurer.expected = []
    stock(make_interface(spec, measurer, "--test-limit=12", "--parallel-compile"))
    assert {config for _, config in measurer.asked} == set(measurer.expected)


# ---------------------------------------------------------------------------------- results


def test_a_failure_is_never_the_fastest(spec):
    interface = make_interface(spec, FormulaMeasurer())
    for outcome, state in ((Outcome.TIMEOUT, "TIMEOUT"), (Outcome.WRONG_RESULT, "ERROR")):
        failed = Measurement(interface.space.default, interface.problem, outcome, message="why")
        result = interface.result(None, failed)
        assert (result.state, result.time) == (state, float("inf"))
        assert interface.best is None


def test_harness_own_driver_measures_through_it(spec, tmp_path, monkeypatch):
    configs, run, measurer = [], InputInterface.run, FormulaMeasurer()

    def noting_run(self, desired_result, *words):
        configs.append(Config(desired_result.configuration.data))
        return run(self, desired_result, *words)

    monkeypatch.setattr(InputInterface, "run", noting_run)
    ran(spec, tmp_path / "r.db", measurer, test_limit=10)
    assert len(configs) == 20
    assert configs[:10] == [config for _, config in measurer.asked[:10]]


# ------------------------------------------------------------------- opening and ending it


def test_a_wrong_input_is_named_before_a_device_is_opened(spec, monkeypatch):
    cases = [
        ({"m": 16}, r"\(m=16\) .*features m, n$"),
        ({"m": 16, "n": 8, "k": 1}, r"\(m=16, n=8, k=1\)"),
        (16, "input 16 .*features m, n$"),
        ({"m": 16, "n": [8]}, r"\{'m': 16, 'n': \[8\]\}"),
    ]
    monkeypatch.setattr("harness.search.interface.open_measurer", None)
    for problem, fact in cases:
        with pytest.raises(harness.HarnessError, match=fact):
            MeasurementInterface(spec, problem)


def test_a_technique_of_harness_is_refused(spec):
    args = ArgumentParser(parents=opentuner.argparsers()).parse_args(["-t", "GaussianProcess"])
    with pytest.raises(harness.HarnessError, match="GaussianProcess"):
        MeasurementInterface(spec, spec.inputs[0], args)


def test_the_default_and_seeds_come_first(spec, on_formula):
    problem = spec.inputs[0]
    seeds = [{"BLOCK": 512, "TILE": 2}, {}]
    with MeasurementInterface(spec, problem, seed_configurations=seeds) as interface:
        default = interface.space.default
        first = interface.seed_configurations()
        assert first[::-1] == [dict(default), {**default, "BLOCK": 512, "TILE": 2}]
    for seed, message in (
        ({"BLOCK": 7}, "BLOCK=7"),
        ({"UNROLL": 2}, "UNROLL <= TILE"),
        ({"BLOCK": [1]}, r"\{'BLOCK': \[1\]\}"),
    ):
        with pytest.raises(harness.HarnessError, match=message):
            MeasurementInterface(spec, problem, seed_configurations=[seed])


def test_an_input_without_a_legal_configuration_is_refused(tmp_path, on_formula):
    text = SPACE.replace("  - UNROLL <= TILE", "  - n > 32")
    closed = []
    on_formula.close = lambda: closed.append(True)
    spec = make_spec(tmp_path, text)
    with pytest.raises(harness.HarnessError, match=r"\(m=4096, n=32\): .*n > 32"):
        MeasurementInterface(spec, {"m": 4096, "n": 32})
    assert closed == [True]


def test_the_final_file_replaces_only_that_of_harness(spec, on_formula):
    interface = MeasurementInterface(spec, spec.inputs[0])
    configuration = models.Configuration(data=dict(interface.space.default))
    interface.save_final_config(configuration)
    assert not interface.final_path.exists(), "nothing worked"
    problem, default = interface.problem, interface.space.default
    interface.result(configuration, on_formula.measure(None, problem, default, None))
    for _ in range(2):
        interface.save_final_config(configuration)
    written = json.loads(interface.final_path.read_text())
    assert written["configuration"] == configuration.data
    interface.final_path.write_text('{"BLOCK": 64}')
    with pytest.raises(harness.HarnessError, match="not written by harness"):
        MeasurementInterface(spec, spec.inputs[0])


UNCLOSED = """
import harness, psutil
interface = harness.MeasurementInterface("spaces/mvmul.yaml", {"m": 12, "n": 4001})
interface.expect([interface.space.default])
measured = interface.measurer.measure(
    interface.space, interface.problem, interface.space.default, None
)
print(measured.outcome, *[child.pid for child in psutil.Process().children(recursive=True)])
"""


@pytest.mark.slow
def test_a_program_that_does_not_close_it_leaves_no_process(opencl_of_commands):
    done = subprocess.run(
        [sys.executable, "-c", UNCLOSED], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.stderr == ""
    outcome, *processes = done.stdout.split()
    assert outcome == "ok"
    assert processes
    assert not any(psutil.pid_exists(int(process)) for process in processes)
