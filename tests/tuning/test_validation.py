"""Validation by uniform samples: what it draws, what its tree predicts, and when it stops."""

import math
import random
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from harness.core.errors import UsageError
from harness.core.records import Config, Input, Measurement, Outcome, SampleRole
from harness.measure.sensors.energy import POWER
from harness.tuning.validation import (
    RESERVED,
    UniformSampling,
    Validation,
    describe_validation,
    validate,
)
from tests.helpers.replays import FormulaMeasurer, make_spec, opened, ran, recorded, small_space
from tests.helpers.results_examples import query

SPACE = small_space(
    "BLOCK: {type: power_of_two, min: 16, max: 1024, role: launch, default: 256}, "
    "TILE: {type: integer, min: 1, max: 20, default: 1}, "
    "LAYOUT: {values: [row, column, block], role: choice, default: row}",
    *(16, 4096, 1048576),
)


def steps_s(problem, config):
    """A tree of depth three: its leaves are 1, 3, 4 and 40 ms."""
    n, block, tile = problem["n"], config["BLOCK"], config["TILE"]
    if n > 100_000:
        return 40e-3
    if config["LAYOUT"] == "column":
        return 4e-3
    return 3e-3 if tile > 8 and block > 64 else 1e-3


def noise_s(problem, config):
    """Nothing but noise, over a factor of 20."""
    return 1e-3 * 20 ** random.Random(problem.json + config.json).random()


def run(folder, measurer, text=SPACE, **options):
    """The campaign of one validation."""
    chosen = {"technique": ["UniformRandom"], "test_limit": 100, "target": 0.15} | options
    return ran(make_spec(folder, text), folder / "r.db", measurer, **chosen).campaign


def validation(folder, measurer, **options):
    return run(folder, measurer, **options).validation


def of_part(folder, part):
    """The pairs that were tested for a part, by the ids of their rows."""
    return query(
        folder / "r.db",
        "select m.input_id, m.configuration_id from desired_result d "
        "join runs r on r.id = d.tuning_run_id join result m on m.id = d.result_id "
        f"where r.technique = 'UniformRandom ({part})'",
    )


@dataclass(frozen=True)
class Finished:
    """A validation that has ended: where, of which measurer, and what came of it."""

    folder: Path
    measurer: FormulaMeasurer
    validation: Validation


@pytest.fixture(scope="module")
def of_noise(tmp_path_factory):
    """120 samples of what no tree can predict."""
    folder, measurer = tmp_path_factory.mktemp("noise"), FormulaMeasurer(noise_s)
    return Finished(folder, measurer, validation(folder, measurer, test_limit=40))


FEW = 20


@pytest.fixture
def few_reserved(monkeypatch):
    """Fewer than are usual, where it is not asked how many."""
    monkeypatch.setattr("harness.tuning.validation.RESERVED", FEW)


# ------------------------------------------------------------------------------- the tree


def test_a_tree_over_steps_converges_on_them(few_reserved, tmp_path):
    done = validation(tmp_path, FormulaMeasurer(steps_s), target=0.01)
    last = done.curve[-1]
    assert last.error.median.high <= 0.01
    assert last.samples <= 100
    assert f"is reached with {last.samples} samples" in done.ended
    assert [point.samples for point in done.curve] == list(range(20, last.samples + 1, 20))


def test_a_dip_of_the_median_below_the_target_is_not_the_end():
    """Of noise, the interval reaches beyond a target that the median alone has reached."""
    curve = validate(Sampled(configs=500), counts(500), 1e-9, 200).curve
    dip = min(point.error.median.value for point in curve)
    assert validate(Sampled(configs=500), counts(500), dip, 200).curve == curve


def test_noise_is_not_claimed_to_be_predicted(of_noise):
    done = of_noise.validation
    assert "limit of 120 samples" in done.ended
    assert done.may_go_on
    assert min(point.error.median.value for point in done.curve) > 0.4
    assert [point.samples for point in done.curve] == [20, 40, 60, 80, 100, 120]


# ------------------------------------------------------------------------------ the draws


def test_reserved_samples_are_as_many_as_published_and_not_trained(of_noise):
    reserved, training = (of_part(of_noise.folder, part) for part in ("reserved", "training"))
    assert of_noise.validation.reserved == RESERVED == len(set(reserved))
    assert len(set(training)) == len(training) == 120
    assert not set(reserved) & set(training)


def test_pairs_are_drawn_evenly_over_inputs_by_their_configurations():
    """900 draws of 6,000 pairs, a third of them of the small input: its share is 300 +- 13
    (hypergeometric); five standard deviations are allowed."""
    sampler, (small, large) = Sampled(configs=4000), INPUTS
    validate(sampler, {small: 2000, large: 4000}, 1e-9, 700)
    drawn = {p: sum(sampler.drawn[role, p] for role in SampleRole) for p in INPUTS}
    assert sum(drawn.values()) == RESERVED + 700
    assert abs(drawn[small] - 300) < 5 * 13


def test_reserved_and_training_samples_are_drawn_with_other_numbers(tmp_path):
    """With the same numbers each reserved sample could have a training sample near it."""
    spec = make_spec(tmp_path, SPACE)
    options = {"technique": ["UniformRandom"]}
    with opened(spec, tmp_path / "r.db", FormulaMeasurer(noise_s), **options) as (campaign, _):
        draw = UniformSampling(campaign).draw_samples
        reserved, training = (draw(r, spec.inputs[0], 20, frozenset()) for r in SampleRole)
    assert len(reserved) == len(training) == 20
    assert sum(m.config == n.config for m, n in zip(reserved, training, strict=True)) <= 2


# ------------------------------------------------------------------------ what may happen


class Failing(FormulaMeasurer):
    """Configurations with TILE 5 to 7 end in an outcome."""

    outcome = Outcome.WRONG_RESULT

    def changed(self, measured):
        if measured.config["TILE"] in (5, 6, 7):
            return replace(measured, outcome=self.outcome, timing=None, message="so it is")
        return measured


class RefusingSome(Failing):
    """They cannot be launched."""

    outcome = Outcome.LAUNCH_FAILED


@pytest.mark.parametrize("measurer", [Failing, RefusingSome])
def test_failures_count_as_samples_without_a_time_and_refusals_do_not_count(
    few_reserved, tmp_path, measurer
):
    done = validation(tmp_path, measurer(noise_s), test_limit=7)
    assert done.curve[-1].samples == 21
    assert done.reserved == FEW
    is_refusal = measurer is RefusingSome
    assert (done.curve[-1].failed == 0) == is_refusal
    assert (len(of_part(tmp_path, "training")) > 21) == is_refusal


@pytest.mark.slow
def test_a_killed_validation_goes_on_where_it_was(of_noise, tmp_path):
    cut, rest = FormulaMeasurer(noise_s, 270), FormulaMeasurer(noise_s)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, cut, test_limit=40)
    campaign = run(tmp_path, rest, test_limit=40)
    assert cut.asked + rest.asked == of_noise.measurer.asked
    assert campaign.validation == of_noise.validation
    assert campaign.replayed == 270


@pytest.mark.slow
def test_a_larger_limit_goes_on_from_the_samples_there_are(few_reserved, tmp_path):
    first, second = FormulaMeasurer(noise_s), FormulaMeasurer(noise_s)
    before = validation(tmp_path, first, test_limit=20)
    after = validation(tmp_path, second, test_limit=40)
    assert after.curve[: len(before.curve)] == before.curve
    assert not set(first.asked) & set(second.asked)


def test_a_space_that_is_sampled_to_its_end_says_so(tmp_path):
    smaller = SPACE.replace("max: 20", "max: 1")
    done = validation(tmp_path, FormulaMeasurer(noise_s), text=smaller, test_limit=10_000)
    assert done.ended.startswith("Every legal pair")
    assert done.curve[-1].samples + done.reserved == 3 * 7 * 3
    assert not done.may_go_on


def test_the_end_says_that_the_time_was_up(tmp_path):
    done = validation(tmp_path, FormulaMeasurer(noise_s), stop_at=0.0)
    assert done.ended.startswith("The time was up")
    assert (done.curve, done.reserved) == ((), 0)


class Sampled(UniformSampling):
    """A sampler in memory: every configuration takes as long as a rule says."""

    def __init__(self, outcome=Outcome.OK, configs=100):
        self._configs = [Config({"A": a}) for a in range(configs)]
        self._outcome = outcome
        self.drawn = {}

    def begin_samples(self, title, samples):
        """Nothing is shown."""

    def is_time_up(self):
        return False

    def draw_samples(self, part, problem, draws, held_out):
        self.drawn[part, problem] = draws
        free = [config for config in self._configs if config not in held_out]
        measured = [recorded(noise_s, problem, config) for config in free[:draws]]
        if self._outcome is Outcome.OK:
            return measured
        return [Measurement(m.config, problem, self._outcome, message="no") for m in measured]


INPUTS = [Input({"n": 1}), Input({"n": 2})]


def counts(each):
    return dict.fromkeys(INPUTS, each)


def test_later_more_samples_are_added_at_a_time():
    curve = validate(Sampled(configs=500), counts(500), 1e-9, 300).curve
    steps = [20, 40, 60, 80, 100, 120, 140, 160, 200, 240, 300]
    assert [point.samples for point in curve] == steps


def test_a_small_space_reserves_half_of_its_pairs_and_says_so():
    done = validate(Sampled(), counts(100), 1e-9, 40)
    lines = list(describe_validation(done))
    assert done.reserved == 100
    assert "on 100 reserved samples" in lines[0]
    assert "fewer" in lines[1]
    assert [int(line.split()[0]) for line in lines[3:-1]] == [20, 40]
    assert all(math.isfinite(float(line.split()[1])) for line in lines[3:-1])
    assert lines[-1] == done.ended


def test_a_space_that_is_too_small_or_refused_as_a_whole_is_an_error():
    with pytest.raises(UsageError, match=r"40 pairs .* 38"):
        validate(Sampled(), counts(19), 0.15, 1000)
    with pytest.raises(UsageError, match=r"20 reserved samples .* 0"):
        validate(Sampled(Outcome.BUILD_FAILED), counts(100), 0.15, 1000)


def test_a_tree_of_the_power_is_judged_where_the_power_is_stored():
    class WithPower(Sampled):
        def draw_samples(self, *arguments):
            drawn = super().draw_samples(*arguments)
            return [replace(m, observed={POWER: 100.0}) for m in drawn]

    done = validate(WithPower(), counts(100), 1e-9, 40)
    errors = [point.power.median.value for point in done.curve if point.power]
    assert errors == pytest.approx([0.0, 0.0], abs=1e-9)
    lines = list(describe_validation(done))
    assert lines[2].endswith("median of power")
    assert lines[3].endswith("0.000")
