"""A default that fails is reported when it fails, not at the end of a search."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from harness.checking import default_run
from harness.core.errors import HostModuleError
from harness.core.records import Input, Measurement, Outcome
from tests.helpers.replays import FormulaMeasurer, make_spec, opened

INPUTS = (Input({"m": 64, "n": 4096}), Input({"m": 4096, "n": 64}))


class WrongDefault(FormulaMeasurer):
    """A measurer for which the default is wrong on some inputs."""

    def __init__(self, wrong):
        super().__init__()
        self._wrong = wrong

    def measure(self, space, problem, config, best_s):
        """Return a wrong result for the default, else the formula's time."""
        if problem in self._wrong and config == space.default:
            return Measurement(config, problem, Outcome.WRONG_RESULT, message="y[3] is 1")
        return super().measure(space, problem, config, best_s)


def warnings(folder, wrong, spec=None):
    """Tune, and return each warning with the number of tests before it."""
    found: list[str] = []
    spec = spec or make_spec(folder)
    with opened(spec, folder / "r.db", WrongDefault(wrong), test_limit=5) as (campaign, tests):
        tests.warn = lambda text: found.append(f"{len(tests)} {text}")
        campaign.run()
    return found


def test_a_wrong_default_is_told_at_once(tmp_path):
    second = INPUTS[1]
    (warning,) = warnings(tmp_path, (second,))
    assert warning == f"5 ({second}): the default failed, wrong_result: y[3] is 1"


def test_a_default_that_is_wrong_on_every_input_may_have_a_wrong_reference(tmp_path):
    first, last = warnings(tmp_path, INPUTS)  # the same reason is given once
    assert "the default failed, wrong_result: y[3] is 1" in first
    assert last.startswith("5 even the default is wrong on every input: the reference may be wrong")
    assert "the arguments in another order" in last
    assert "INOUT" in last
    assert last.endswith(f"harness check {tmp_path / 'space.yaml'} --run")


def test_a_wrong_default_of_a_space_in_python_is_run_alone_by_a_call(tmp_path):
    spec = dataclasses.replace(make_spec(tmp_path), path=Path("<space mvmul>"))
    _, last = warnings(tmp_path, INPUTS, spec)
    assert last.endswith("To run the default alone: harness.tune(space, test_limit=1)")


def run(folder, wrong, patch):
    """Run the default of `check --run`; return whether it works, and what is printed."""
    measurer = WrongDefault(wrong)
    patch.setattr(default_run, "open_measurer", lambda *_, **named: (measurer, "a test"))
    ended = default_run.run_default(make_spec(folder), "auto", (), INPUTS)
    assert [problem for problem, _ in measurer.asked] == [i for i in INPUTS if i not in wrong]
    return not ended.why_failed, "\n".join(ended.lines())


def test_check_runs_defaults_on_each_input(tmp_path, monkeypatch):
    works, printed = run(tmp_path, (), monkeypatch)
    assert works
    assert printed.count(": OK, ") == len(INPUTS)
    works, printed = run(tmp_path, INPUTS[1:], monkeypatch)
    assert not works
    assert f"({INPUTS[1]}): FAILED, wrong_result: y[3] is 1\n" in printed
    assert printed.endswith("default FAILED on 1 of 2 inputs")
    _, printed = run(tmp_path, INPUTS, monkeypatch)
    assert f"({INPUTS[0]}): FAILED, wrong_result: y[3] is 1\n  1 other input: the same" in printed
    assert printed.count("y[3] is 1") == 1
    assert "even the default is wrong on every input, so the reference may be wrong" in printed


def test_check_gives_a_host_fault_once(tmp_path, monkeypatch):
    def fail(_, space, problem, *more):
        raise HostModuleError(f"h.py: KeyError: 'q' (line 25) on the input ({problem})")

    monkeypatch.setattr(WrongDefault, "measure", fail)
    works, printed = run(tmp_path, INPUTS, monkeypatch)
    assert not works
    assert printed.count("KeyError: 'q' (line 25)") == 1
    assert "1 other input: the same\ndefault FAILED on 2 of 2 inputs" in printed


def test_check_runs_drawn_configurations_on_inputs_that_are_not_listed(tmp_path, monkeypatch):
    def times(problem, config):
        if config["TILE"] == 8:
            return float("inf")  # it does not build, which a search allows
        return 1e-3

    class ForgetsTheRest(FormulaMeasurer):
        def measure(self, space, problem, config, best_s):
            if problem["n"] % config["TILE"]:
                return Measurement(config, problem, Outcome.WRONG_RESULT, message="y[3] is 1")
            return super().measure(space, problem, config, best_s)

    def run_unseen(measurer):
        opening = lambda *_, **named: (measurer, "a test")  # noqa: E731
        monkeypatch.setattr(default_run, "open_measurer", opening)
        ended = default_run.run_default(make_spec(tmp_path), "auto", (), INPUTS, 4, seed=1)
        return ended, "\n".join(ended.lines())

    works, printed = run_unseen(FormulaMeasurer(times))
    assert not works.why_failed
    assert "legal on 4 unseen inputs:" in printed
    assert printed.count(" verified") == len(INPUTS) + 4
    fails, printed = run_unseen(ForgetsTheRest(times))
    assert not fails.failures
    assert fails.fails_unseen
    assert re.search(r"FAILED with .*TILE=[346].*, wrong_result, y\[3\] is 1", printed)
    assert fails.why_failed == printed


def test_a_default_that_works_is_silent(tmp_path):
    assert not warnings(tmp_path, ())
