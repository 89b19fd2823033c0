"""Rounds that are split into occasions: new loads, new allocations, other data."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest

from harness.core.observations import SM_CLOCK_MHZ, THROTTLED_SAMPLES
from harness.core.records import Config, Measurement, Outcome, StopReason, Timing
from harness.measure.trial.occasions import SEARCH_SEED, Block, join, over_occasions, split_rounds
from tests.helpers.fake_kernels import FOUR, OpenFake, bound_device
from tests.helpers.fakes import FakeDevice

CONFIG = Config({"V": 1})


def ok(*samples_s: float, **changes: object) -> Measurement:
    timing = Timing(samples_s, StopReason.INTERLEAVED)
    return dataclasses.replace(Measurement(CONFIG, FOUR, Outcome.OK, timing), **changes)  # type: ignore[arg-type]


WRONG = Measurement(CONFIG, FOUR, Outcome.WRONG_RESULT, message="y[0] is 1, expected 2", wall_s=1.0)


def test_timing_knows_the_samples_of_each_occasion() -> None:
    split = Timing((1.0, 2.0, 3.0), occasions=(2, 1))
    assert split.by_occasion == ((1.0, 2.0), (3.0,))
    assert Timing((1.0, 2.0)).by_occasion == ((1.0, 2.0),)


@pytest.mark.parametrize("occasions", [(1, 1), (3, 0), (2, 2)])
def test_occasions_that_do_not_hold_the_samples_are_refused(occasions: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="3 samples in all"):
        Timing((1.0, 2.0, 3.0), occasions=occasions)


def test_rounds_are_split_as_evenly_as_possible() -> None:
    blocks = split_rounds(20, (2, 2, 3, 3, 4, 4))
    assert [block.rounds for block in blocks] == [4, 4, 3, 3, 3, 3]
    assert [block.seed for block in blocks] == [2, 2, 3, 3, 4, 4]
    assert len({block.order for block in blocks}) == 6
    assert all(block.is_reloaded for block in blocks)
    assert [block.rounds for block in split_rounds(2, (0, 0, 0))] == [1, 1, 1]


def test_rounds_of_one_occasion_need_no_new_load() -> None:
    assert split_rounds(7, (0,)) == [Block(7)]
    assert split_rounds(7, (1,)) == [Block(7, 1, is_reloaded=True)]


def test_measurements_of_occasions_are_one_measurement() -> None:
    parts = [
        ok(1.0, 2.0, warmup_s=(9.0,), wall_s=1.0, observed={"cpu_s": 1.0}, host_read=("V",)),
        ok(3.0, warmup_s=(8.0,), wall_s=2.0, observed={"cpu_s": 3.0}, host_read=("U",)),
    ]
    found = join(parts)
    assert found.timing == Timing((1.0, 2.0, 3.0), StopReason.INTERLEAVED, (2, 1))
    assert (found.warmup_s, found.wall_s, found.observed) == ((9.0, 8.0), 3.0, {"cpu_s": 2.0})
    assert found.host_read == ("U", "V")


def test_a_gpu_that_was_throttled_on_any_occasion_was_throttled_and_samples_are_counted() -> None:
    parts = [ok(1.0, observed={"throttled": 0.0, SM_CLOCK_MHZ: 900.0 + n}) for n in range(3)]
    parts.append(ok(1.0, observed={"throttled_by_hw_thermal": 1.0, THROTTLED_SAMPLES: 2}))
    parts.append(ok(1.0, observed={"throttled": 1.0, THROTTLED_SAMPLES: 3}))
    found = join(parts).observed
    assert found == {
        "throttled": 1.0,
        "throttled_by_hw_thermal": 1.0,
        SM_CLOCK_MHZ: 901,
        THROTTLED_SAMPLES: 5,
    }


def test_failure_on_a_later_occasion_is_the_outcome_and_ends_the_configuration() -> None:
    answers = {1: [ok(1.0), ok(2.0)], 2: [WRONG, ok(2.0)], 3: [ok(4.0)]}
    asked = []

    def measure(jobs: Sequence[int], block: Block) -> list[Measurement]:
        asked.append(list(jobs))
        return answers[block.seed]

    blocks = split_rounds(3, (1, 2, 3))
    first, second = over_occasions([10, 20], blocks, measure)  # type: ignore[type-var]
    assert (first.outcome, first.timing, first.message) == (WRONG.outcome, None, WRONG.message)
    assert second.timing.samples_s == (2.0, 2.0, 4.0)
    assert asked == [[10, 20], [10, 20], [20]]


# ----------------------------------------------------------------------- on a device in memory


Measured = Callable[[FakeDevice, Sequence[int]], list[Measurement]]


@pytest.fixture
def measured(fake_here: OpenFake) -> Measured:
    """Measures two configurations interleaved, four rounds on occasions with these seeds."""

    def measure(device: FakeDevice, seeds: Sequence[int]) -> list[Measurement]:
        measurer, space = fake_here(opened=device)
        return measurer.measure_interleaved(space, FOUR, list(space)[:2], 4, seeds)

    return measure


class BindingDevice(FakeDevice):
    """Counts how often arguments are allocated."""

    binds = 0

    def bind(self, *sets: Mapping[str, np.generic]) -> None:  # type: ignore[override]
        super().bind(*sets)  # type: ignore[arg-type]
        self.binds += 1


@pytest.mark.parametrize(("seeds", "rounds", "loads"), [((2, 2, 3), (2, 1, 1), 3), ((0,), (), 0)])
def test_every_occasion_loads_and_allocates_anew_but_the_only_one(
    measured: Measured, seeds: Sequence[int], rounds: tuple[int, ...], loads: int
) -> None:
    device = BindingDevice()
    found = measured(device, seeds)
    assert [m.timing.occasions for m in found] == [rounds] * 2
    # The data of the search is bound first: the arguments' names are asked for.
    assert (device.unloads, device.binds) == (loads, 1 + loads)


def test_occasions_of_a_seed_have_two_sets_of_data_and_those_of_the_search_one(
    measured: Measured,
) -> None:
    for seeds, sets in [((2, 2), 2), ((2, 4), 4), ((SEARCH_SEED, SEARCH_SEED), 1)]:
        device = FakeDevice()
        measured(device, seeds)
        assert len({tuple(launch["x"]) for launch in device.launched}) == sets, seeds


def test_each_launch_draws_one_of_two_sets_of_data(measured: Measured) -> None:
    device = FakeDevice()
    assert [m.outcome for m in measured(device, (2,) * 60)] == [Outcome.OK] * 2
    contents = [tuple(launch["x"]) for launch in device.launched]
    one, other = dict.fromkeys(contents)
    numbers = [(one, other).index(content) for content in contents]
    assert numbers[:4] == [0, 1, 0, 1], "the first runs are on each"
    pairs = [(numbers[n], numbers[n + 1]) for n in range(4, len(numbers), 6)]
    assert {*pairs} == {(0, 0), (0, 1), (1, 0), (1, 1)}, "of the rounds' launches"


def test_kernel_that_keeps_its_first_result_is_found_on_other_data(measured: Measured) -> None:
    kept: list[np.ndarray] = []

    def keeps(x: np.ndarray, y: np.ndarray) -> None:
        kept.append(2 * x)
        y[...] = kept[0]

    assert [m.outcome for m in measured(bound_device(keeps), (0,))] == [Outcome.OK] * 2
    kept.clear()
    found = measured(bound_device(keeps), (2, 3))
    assert [m.outcome for m in found] == [Outcome.WRONG_RESULT] * 2
