"""Rounds that are split into occasions: new loads, new allocations, other data."""

import dataclasses
import re

import pytest

from harness.core.observations import SM_CLOCK_MHZ, THROTTLED_SAMPLES, UNCLAIMED
from harness.core.records import Config, Measurement, Outcome, StopReason, Timing
from harness.measure.claims import FLOOR_S, GPU_FLOOR_S, why_too_good, without_unshown_gain
from harness.measure.occasions import SEARCH_SEED, Block, join, over_occasions, split_rounds
from tests.helpers.fake_kernels import FOUR
from tests.helpers.fakes import FakeDevice, twice
from tests.helpers.planted import assert_failed, assert_ok

CONFIG = Config({"V": 1})


def ok(*samples_s, **changes):
    timing = Timing(samples_s, StopReason.INTERLEAVED)
    return dataclasses.replace(Measurement(CONFIG, FOUR, Outcome.OK, timing), **changes)


WRONG = Measurement(CONFIG, FOUR, Outcome.WRONG_RESULT, message="y[0] is 1, expected 2", wall_s=1.0)


def test_occasions_that_do_not_hold_the_samples_are_refused():
    for occasions in [(1, 1), (3, 0), (2, 2)]:
        with pytest.raises(ValueError, match="3 samples"):
            Timing((1.0, 2.0, 3.0), occasions=occasions)


def test_rounds_are_split_as_evenly_as_possible():
    blocks = split_rounds(20, (2, 2, 3, 3, 4, 4))
    of_blocks = [(block.rounds, block.seed, block.is_reloaded) for block in blocks]
    assert of_blocks == [(4, 2, True)] * 2 + [(3, 3, True)] * 2 + [(3, 4, True)] * 2
    assert len({block.order for block in blocks}) == 6
    assert [block.rounds for block in split_rounds(2, (0, 0, 0))] == [1, 1, 1]


def test_rounds_of_one_occasion_need_no_new_load():
    assert split_rounds(7, (0,)) == [Block(7)]
    assert split_rounds(7, (1,)) == [Block(7, 1, is_reloaded=True)]


def test_measurements_of_occasions_are_one_measurement():
    parts = [
        ok(1.0, 2.0, warmup_s=(9.0,), wall_s=1.0, observed={"cpu_s": 1.0}, host_read=("V",)),
        ok(3.0, warmup_s=(8.0,), wall_s=2.0, observed={"cpu_s": 3.0}, host_read=("U",)),
    ]
    result = join(parts)
    assert result.timing == Timing((1.0, 2.0, 3.0), StopReason.INTERLEAVED, (2, 1))
    assert (result.warmup_s, result.wall_s, result.observed) == ((9.0, 8.0), 3.0, {"cpu_s": 2.0})
    assert result.host_read == ("U", "V")


def test_a_gpu_that_was_throttled_on_any_occasion_was_throttled_and_samples_are_counted():
    parts = [ok(1.0, observed={"throttled": 0.0, SM_CLOCK_MHZ: 900.0 + n}) for n in range(3)]
    parts.append(ok(1.0, observed={"throttled_by_hw_thermal": 1.0, THROTTLED_SAMPLES: 2}))
    parts.append(ok(1.0, observed={"throttled": 1.0, THROTTLED_SAMPLES: 3}))
    result = join(parts).observed
    throttled = {"throttled": 1.0, "throttled_by_hw_thermal": 1.0, THROTTLED_SAMPLES: 5}
    assert result == {**throttled, SM_CLOCK_MHZ: 901}


def test_failure_on_a_later_occasion_is_the_outcome_and_ends_the_configuration():
    answers = {1: [ok(1.0), ok(2.0)], 2: [WRONG, ok(2.0)], 3: [ok(4.0)]}
    asked = []

    def measure(jobs, block):
        asked.append(list(jobs))
        return answers[block.seed]

    blocks = split_rounds(3, (1, 2, 3))
    first, second = over_occasions([10, 20], blocks, measure)
    assert (first.outcome, first.timing, first.message) == (WRONG.outcome, None, WRONG.message)
    assert second.timing.samples_s == (2.0, 2.0, 4.0)
    assert asked == [[10, 20], [10, 20], [20]]


# ----------------------------------------------------------------------- on a device in memory


@pytest.fixture
def measured(fake_here):
    """Measures two configurations interleaved, four rounds on occasions with these seeds."""

    def measure(device, seeds):
        measurer, space = fake_here(opened=device)
        return measurer.measure_interleaved(space, FOUR, list(space)[:2], 4, seeds)

    return measure


class BindingDevice(FakeDevice):
    """Counts how often arguments are allocated."""

    binds = 0

    def bind(self, *sets):
        super().bind(*sets)
        self.binds += 1


def test_every_occasion_loads_and_allocates_anew_but_the_only_one(measured):
    for seeds, rounds, loads in [((2, 2, 3), (2, 1, 1), 3), ((0,), (), 0)]:
        device = BindingDevice()
        result = measured(device, seeds)
        assert [m.timing.occasions for m in result] == [rounds] * 2
        # The data of the search is bound first: the arguments' names are asked for.
        assert (device.unloads, device.binds) == (loads, 1 + loads)


def test_occasions_of_a_seed_have_two_sets_of_data_the_search_one(measured):
    for seeds, sets in [((2, 2), 2), ((2, 4), 4), ((SEARCH_SEED, SEARCH_SEED), 1)]:
        device = FakeDevice()
        measured(device, seeds)
        assert len({tuple(launch["x"]) for launch in device.launched}) == sets, seeds


def test_each_launch_draws_one_of_two_sets_of_data(measured):
    device = FakeDevice()
    assert_ok(*measured(device, (2,) * 60))
    contents = [tuple(launch["x"]) for launch in device.launched]
    first, other = dict.fromkeys(contents)
    numbers = [(first, other).index(content) for content in contents]
    assert numbers[:4] == [0, 1, 0, 1], "the first runs are on each"
    pairs = [(numbers[n], numbers[n + 1]) for n in range(4, len(numbers), 6)]
    assert {*pairs} == {(0, 0), (0, 1), (1, 0), (1, 1)}, "of the rounds' launches"


# ---------------------------------------------------------------------- times that are too good


DEFAULT, OTHER = Config({"A": 0}), Config({"A": 1})


def test_time_that_is_too_good():
    cases = [
        (0.1, 1.0, ""),  # exactly ten times as fast
        (3e-7, None, ""),  # the default is not known, and a launch may take that
        (2e-7, 2.9e-7, ""),  # the default is as short
        (0.0999, 1.0, "10 times"),
        (0.09, 1.0, "11.1 times"),
        (2e-7, None, "300 ns"),
        (2e-7, 3e-7, "300 ns"),
        (2e-8, 2.9e-7, "14.5 times"),
    ]
    for time_s, default_s, word in cases:
        reason = why_too_good(time_s, default_s, FLOOR_S)
        assert word in reason if word else reason is None


def test_less_than_the_work_takes_at_the_peak_is_too_good_unless_the_default_is_as_fast():
    for default_s in (None, 3e-3):
        assert "peak (2.00 ms)" in why_too_good(1e-3, default_s, FLOOR_S, 2e-3)
    assert why_too_good(1e-3, 1.9e-3, FLOOR_S, 2e-3) is None
    assert why_too_good(2e-3, 3e-3, FLOOR_S, 2e-3) is None


# ------------------------------------------------------------------------- first runs on new data


def of_final(config, time_s, first_s):
    """A measurement on six occasions, with the first run on each of two sets of data."""
    timing = Timing((time_s,) * 12, StopReason.INTERLEAVED, (2,) * 6)
    return Measurement(config, FOUR, Outcome.OK, timing, warmup_s=tuple(first_s))


SEEDS = (7, 7, 7, 9, 9, 9)


def is_shown(
    time_s, new_s, seen_s, default_s = 1.0, cold_s = 0.0,
    floor_s = 0.0,
):  # fmt: skip
    """Whether a gain is shown with first runs of such lengths, over a default whose first runs
    take `cold_s` longer."""
    default = of_final(DEFAULT, default_s, [default_s + cold_s] * 12)
    firsts = ([new_s] * 2 + [seen_s] * 4) * 2
    result = without_unshown_gain(of_final(OTHER, time_s, firsts), default, SEEDS, floor_s)
    assert result.outcome is Outcome.OK, "it loses nothing else"
    assert result.time_s == time_s
    return UNCLAIMED not in result.observed


def test_gain_of_which_more_than_half_is_of_data_that_were_seen_is_not_shown():
    for new_s, shown in [(0.5, True), (0.75, True), (0.76, False), (1.0, False)]:
        assert is_shown(0.5, new_s, 0.5) is shown, new_s
    assert is_shown(0.5, 1.0, 1.0, cold_s=0.5), "new to the device, as each time"
    assert is_shown(0.95, 1.02, 0.95), "which few runs scatter by"
    assert not is_shown(0.90, 1.0, 0.90)


def test_the_least_of_the_first_runs_count_since_other_work_only_makes_runs_longer():
    default = of_final(DEFAULT, 1.0, [1.0] * 12)
    for firsts, shown in [
        ([9, 9, 9, 9, 9, 9, 9, 0.5, 9, 0.5, 9, 9], True),  # one on new data is as fast
        ([9, 9, 9, 9, 9, 0.5, 9, 1, 9, 9, 9, 9], False),
    ]:
        result = without_unshown_gain(of_final(OTHER, 0.5, firsts), default, SEEDS, 0.0)
        assert (UNCLAIMED not in result.observed) is shown


def test_reason_has_the_times():
    default = of_final(DEFAULT, 1.0, [1.0] * 12)
    seen = of_final(OTHER, 0.1, ([1.0] * 2 + [0.1] * 4) * 2)
    copied = of_final(OTHER, 0.1, [0.5] * 12)
    for measured, times in ((seen, ("1.00 s", "100 ms", "900 ms")), (copied, ("500 ms", "100 ms"))):
        message = without_unshown_gain(measured, default, SEEDS, 0.0).message
        assert all(time in message for time in times)


def test_first_runs_after_each_copy_may_take_twice_as_long_and_what_the_default_needs():
    for first_s, shown in [(0.39, True), (0.41, False)]:
        assert is_shown(0.2, first_s, first_s) is shown
    for first_s, shown in [(0.99, True), (1.01, False)]:
        assert is_shown(0.2, first_s, first_s, cold_s=0.3) is shown


def test_a_default_has_no_gain_and_a_failure_no_time():
    default = of_final(DEFAULT, 1.0, [9.0] * 2 + [1.0] * 10)
    assert without_unshown_gain(default, default, SEEDS, 0.0) is default
    failed = Measurement(OTHER, FOUR, Outcome.WRONG_RESULT, message="wrong")
    assert without_unshown_gain(failed, default, SEEDS, 0.0) is failed
    assert without_unshown_gain(default, failed, SEEDS, 0.0) is default


def test_first_launches_may_differ_by_what_any_launch_costs():
    """A GPU whose driver needs 4 us more for a first launch."""
    for first_s, shown in [(6e-6, True), (9e-6, False)]:
        times_s = 1.5e-6, first_s, 1.5e-6
        assert is_shown(*times_s, default_s=2e-6, floor_s=GPU_FLOOR_S) is shown


# ------------------------------------------------------------------------- measured again


class ByValue(FakeDevice):
    """A device on which the values of V, from 1 on, are these kernels, which may return the time
    that they take."""

    def __init__(self, *kernels):
        super().__init__()
        self._by_value = kernels

    def load(self, binary):
        return [*super().load(binary), re.search(rb"V (\d)", binary.data)[1].decode()]

    def launch(self, module, launches):
        own_s = []
        kernel = self._by_value[int(module[-1]) - 1]
        self.kernels = {"twice": lambda x, y: own_s.append(kernel(x, y))}
        usual_s = super().launch(module, launches)
        return usual_s if own_s[0] is None else own_s[0]


@pytest.fixture
def search(fake_here):
    """Measures the default, which takes 1 s, and then another configuration, as a search does."""

    def searched(other):
        device = ByValue(lambda x, y: twice(x, y) or 1.0, lambda x, y: twice(x, y) or other(x, y))
        measurer, space = fake_here(opened=device)
        default = measurer.measure(space, FOUR, space.default, None)
        config = Config({"V": 2})
        result = measurer.measure(space, FOUR, config, default.time_s)
        again = measurer.measure(space, FOUR, config, default.time_s)
        assert again.outcome is result.outcome
        return result, device

    return searched


def test_time_that_is_true_on_new_data_stays(search):
    result, device = search(lambda x, y: 0.05)
    assert result.time_s == 0.05
    assert "20 times" in result.message
    assert result.observed["output_bits"] > 0, "a digest of the outputs on the search's data"
    data = {tuple(launch["x"]) for launch in device.launched}
    assert len(data) == 3, "once: the data of the search, and two new sets"


def test_time_that_is_plausible_is_not_measured_again(search):
    result, device = search(lambda x, y: 0.1)
    assert not result.message
    assert len({tuple(launch["x"]) for launch in device.launched}) == 1


def test_kernel_that_copies_an_earlier_result_is_wrong_on_new_data(search):
    outputs = []

    def copies(x, y):
        outputs.append(y.copy())
        if len(outputs) == 1:
            return 1.0
        y[...] = outputs[-2]
        return 0.001

    result, _ = search(copies)
    assert_failed(result, Outcome.WRONG_RESULT, "1,000 times")


def test_kernel_that_recognises_data_has_the_time_of_its_first_runs(search):
    seen = set()

    def recognises(x, y):
        is_new = float(x[0]) not in seen
        seen.add(float(x[0]))
        return 0.8 if is_new else 0.01

    result, _ = search(recognises)
    assert_ok(result)
    assert result.time_s == 0.8
    assert "800 ms" in result.message


# ------------------------------------------------------------------------- interleaved


@pytest.fixture
def interleave(fake_here):
    """Measures so many kernels of a device, 4 rounds of each."""

    def measured(device, count):
        measurer, space = fake_here(opened=device)
        configs = [Config({"V": value}) for value in range(1, count + 1)]
        return measurer.measure_interleaved(space, FOUR, configs, rounds=4)

    return measured


def test_configuration_that_overwrites_an_input_fails_alone(interleave):
    def spoils(x, y):
        y[...] = 2 * x
        x[0] += 1

    result = interleave(ByValue(spoils, twice, twice), 3)
    assert [m.outcome for m in result] == [Outcome.WRONG_RESULT, Outcome.OK, Outcome.OK]
    assert [m.timing.count for m in result if m.timing] == [4, 4]
    assert len(result[1].warmup_s) > 1, "the first run on new data is kept"


@dataclasses.dataclass
class WrongAt:
    """A kernel that is wrong at one of its runs."""

    run: int
    count: int = 0

    def __call__(self, x, y):
        self.count += 1
        y[...] = 0 if self.count == self.run else 2 * x


def test_kernel_that_is_wrong_at_times_stays_wrong_when_repeated(interleave):
    together, alone = WrongAt(2), WrongAt(1)
    result = interleave(ByValue(together, twice), 2)
    assert [m.outcome for m in result] == [Outcome.WRONG_RESULT, Outcome.OK]
    assert together.count > 4, "it was measured alone, and works there"
    (measured,) = interleave(ByValue(alone), 1)
    assert measured.outcome is Outcome.WRONG_RESULT
    assert alone.count == 1, "nobody has spoilt its inputs"
