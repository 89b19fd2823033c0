"""The project's own techniques: what they test, in which order, how many, and how they end."""

from __future__ import annotations

import random
from typing import Any

import pytest

from harness import tune
from harness.core.errors import UsageError
from harness.core.records import Config, Measurement, Outcome
from harness.search import EndReason, driver
from harness.search.techniques import steps_up
from harness.space import ConstrainedSpace
from tests.helpers.replays import FormulaMeasurer, make_spec, ran, small_space
from tests.helpers.results_examples import query

# G-ADAPT's table of programs: the configurations that hill climbing tried per input.
TRANSPOSE = """\
name: transpose
kernel: {function: kernel, source: kernel.cl, host: kernel.py}
parameters:
  BLOCK: {values: [16, 64, 256], role: launch, default: 256}
launch: {group: [BLOCK], grid: [m]}
inputs:
  features: [m, n]
  values: [{m: 64, n: 4096}, {m: 4096, n: 64}, {m: 512, n: 512}]
"""
REDUCTION = small_space(
    "BLOCK: {type: power_of_two, min: 32, max: 512, role: launch, default: 128}",
    *(1000, 100000, 10000000),
)
GRID = small_space(
    "A: {values: [1, 2, 4], default: 4}, B: {values: [1, 2, 3, 4], default: 4}",
    1,
    more="constraints: [CONSTRAINT]\n",
    group="A",
)
Point = tuple[int, int]


def grid(folder, constraint="A <= 4"):
    return make_spec(folder, GRID.replace("CONSTRAINT", constraint))


def by_table(times_ms):
    """A measurer of the grid; points that the table lacks take 1 s."""
    return FormulaMeasurer(lambda _, c: times_ms.get((c["A"], c["B"]), 1e3) * 1e-3)  # type: ignore[index]


def points(tests):
    return [(t.measurement.config["A"], t.measurement.config["B"]) for t in tests]


def block_s(problem, config):
    """The best block depends on the input's shape, where it has one."""
    block, best = config["BLOCK"], 128
    if "m" in problem:
        best = 64 if problem["n"] == 64 else 256
    assert isinstance(block, int)
    return 1e-3 * (1 + abs(block.bit_length() - best.bit_length()))


OWN = ("GaussianProcess", "HillClimb", "UniformRandom")


# ------------------------------------------------------------------------------ HillClimb


def climbed(spec, folder, measurer=None):
    return ran(spec, folder / "r.db", measurer, technique=["HillClimb"])


@pytest.mark.parametrize(("text", "published"), [(TRANSPOSE, 3.0), (REDUCTION, 5.0)])
def test_hill_climbing_tests_as_many_configurations_an_input_as_published(
    text, published, tmp_path
):
    done = climbed(make_spec(tmp_path, text), tmp_path, FormulaMeasurer(block_s))
    (message,) = done.campaign.describe_tests()
    assert message.startswith(f"HillClimb tested {published} configurations an input")
    assert [s.ended for s in done.campaign.searched.values()] == [EndReason.EXHAUSTED] * 3
    asked = "select count(*), requestor from desired_result group by tuning_run_id, requestor"
    assert query(tmp_path / "r.db", asked) == [(published, "HillClimb")] * 3
    best = [report.best for report in done.reports]
    assert all(m and block_s(m.input, m.config) == 1e-3 for m in best)


def test_the_climb_goes_to_the_best_step_even_where_that_is_worse(tmp_path):
    times = {(1, 1): 1, (2, 1): 9, (1, 2): 5, (2, 2): 7, (1, 3): 8, (2, 3): 2, (4, 2): 6}
    spec = grid(tmp_path)
    done = climbed(spec, tmp_path, by_table(times))
    pairs = [(2, 1), (1, 2), (2, 2), (1, 3), (4, 2), (2, 3), (4, 3), (2, 4)]
    assert points(done.tests) == [(1, 1), *pairs, (4, 4)]
    assert done.campaign.searched[spec.inputs[0]].ended is EndReason.TECHNIQUE


def test_the_climb_skips_values_that_are_illegal_where_it_stands(tmp_path):
    """B = 3 divides no A, and B = 2, 4 only some."""
    spec = grid(tmp_path, "A % B == 0")
    space = ConstrainedSpace.of(spec, spec.inputs[0], None)

    def steps(a, b):
        return [(c["A"], c["B"]) for c in steps_up(space, Config({"A": a, "B": b}))]

    assert steps(4, 2) == [(4, 4)]
    assert steps(2, 1) == [(4, 1), (2, 2)]
    assert steps(1, 1) == [(2, 1)]
    assert steps(4, 4) == []


def test_the_climb_begins_beside_a_lowest_corner_that_is_illegal(tmp_path):
    spec = grid(tmp_path, "A * B >= 2")
    tests = climbed(spec, tmp_path, by_table({})).tests
    space = ConstrainedSpace.of(spec, spec.inputs[0], None)
    nearest = space.nearest_legal(Config({"A": 1, "B": 1}), random.Random(0))
    assert tests[0].measurement.config == nearest
    assert points(tests)[0] in [(2, 1), (1, 2)]
    assert points(tests)[-1] == (4, 4)


def test_the_default_and_winners_elsewhere_are_measured_outside_the_climb(tmp_path):
    spec = make_spec(tmp_path)
    done = climbed(spec, tmp_path)
    default = done.campaign.space(spec.inputs[0]).default
    assert default not in [test.measurement.config for test in done.tests]
    assert all(default in done.campaign.ledger.searched(problem) for problem in spec.inputs)
    assert all(report.best and report.baseline for report in done.reports)


def test_a_climb_beside_another_alternates_and_starts_from_the_default(tmp_path):
    spec = make_spec(tmp_path)
    done = ran(spec, tmp_path / "r.db", technique=["HillClimb", "PureRandom"], test_limit=12)
    assert done.tests[0].measurement.config == done.campaign.space(spec.inputs[0]).default
    asked = query(tmp_path / "r.db", "select distinct requestor from desired_result")
    assert set(asked) >= {("seed",), ("HillClimb",), ("PureRandom",)}


@pytest.mark.parametrize("name", OWN)
def test_an_own_technique_that_was_killed_goes_on_where_it_was(name, tmp_path):
    spec, database = make_spec(tmp_path), tmp_path / "r.db"
    whole, cut, rest = FormulaMeasurer(), FormulaMeasurer(stop_after=9), FormulaMeasurer()
    options: dict[str, Any] = {"technique": [name], "test_limit": 12}
    ran(spec, tmp_path / "whole.db", whole, **options)
    with pytest.raises(KeyboardInterrupt):
        ran(spec, database, cut, **options)
    tests = ran(spec, database, rest, **options).tests
    assert cut.asked + rest.asked == whole.asked
    assert [test.replayed for test in tests][:10] == [True] * 9 + [False]


@pytest.mark.parametrize("name", ["HillClimb", "UniformRandom"])
def test_a_users_seed_is_refused_by_techniques_with_their_own(name, tmp_path):
    spec, seeds = make_spec(tmp_path), {"seed_configurations": [{"BLOCK": 64}]}
    with pytest.raises(UsageError, match=name):
        tune(spec, database=tmp_path / "r.db", technique=name, **seeds)


# -------------------------------------------------------------------------- UniformRandom


TWO_BLOCKS = small_space(
    "BLOCK: {type: integer, min: 1, max: 20, default: 1}, CACHE: {type: boolean, default: false}", 1
)
SAMPLED: dict[str, Any] = {"technique": ["UniformRandom"], "test_limit": 10}


class Refusing(FormulaMeasurer):
    """Ends every measurement of a configuration with CACHE in one outcome."""

    def __init__(self, outcome, everything=False):
        super().__init__(lambda *_: 1e-3)
        self._outcome = outcome
        self._everything = everything

    def measure(self, space, problem, config, best_s):
        measured = super().measure(space, problem, config, best_s)
        if config["CACHE"] or self._everything:
            return Measurement(config, problem, self._outcome, message="so it is")
        return measured


@pytest.mark.parametrize("outcome", [o for o in Outcome if o is not Outcome.OK])
def test_refusals_are_not_counted_and_failures_are(outcome, tmp_path, monkeypatch):
    monkeypatch.setattr(driver, "MAX_FREE_IN_A_ROW", 5)  # one that counts begins anew
    spec = make_spec(tmp_path, TWO_BLOCKS)
    tests = ran(spec, tmp_path / "r.db", Refusing(outcome), **SAMPLED).tests
    works = sum(test.measurement.outcome is Outcome.OK for test in tests)
    is_refusal = outcome in (Outcome.ILLEGAL, Outcome.BUILD_FAILED, Outcome.LAUNCH_FAILED)
    assert works < len(tests)
    assert (works if is_refusal else len(tests)) == 10
    assert tests[-1].ordinal == tests[-1].total == 10


def test_a_device_that_refuses_everything_ends_the_sampling(tmp_path, monkeypatch):
    monkeypatch.setattr(driver, "MAX_FREE_IN_A_ROW", 5)
    spec, measurer = make_spec(tmp_path, TWO_BLOCKS), Refusing(Outcome.LAUNCH_FAILED, True)
    campaign = ran(spec, tmp_path / "r.db", measurer, **SAMPLED).campaign
    (searched,) = campaign.searched.values()
    assert (searched.ended, searched.tests) == (EndReason.REFUSED, 0)
    assert len(measurer.asked) < 20
    assert campaign.has_ended
