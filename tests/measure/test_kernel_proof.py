"""Proofs of kernels' times beside the default, on a fake device whose runs take what is planned."""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.core.records import Config, Input, Measurement, Outcome, Timing
from harness.measure.kernel_job import KernelJob
from harness.measure.kernel_proof import PROOF_DATA, ProofRuns
from harness.measure.kernels import KernelMeasurer
from harness.measure.plausibility import KernelTimes, Refusal
from harness.space import ConstrainedSpace
from harness.space_file import load_spec
from harness.stats.timing import Sampling
from tests.helpers.fake_kernels import FOUR, fake_job, fake_worker
from tests.helpers.fakes import Array, FakeDevice

ZOO = Path(__file__).parents[1] / "data/zoo/kernels.yaml"
DEFAULT, OTHER = Config({"A": 0}), Config({"A": 1})
MEASURED_S, DEFAULT_S = 0.1, 1.0


@dataclasses.dataclass
class Memory:
    """What a kernel may find when it runs: the data, and whether they were just copied."""

    x: Array
    is_cold: bool


class Planned(FakeDevice):
    """A device on which the default takes 1 s, the other kernel what `seconds` says, and both
    longer on a busy machine."""

    def __init__(self, seconds: Callable[[Memory], float], burden: Callable[[], float]) -> None:
        times_s = (self.run_s * self._burden() for _ in itertools.count())
        super().__init__(times_s, {"default": self._default, "other": self._other})
        self._seconds, self._burden = seconds, burden
        self._is_cold, self.run_s = True, 0.0
        self.runs = {"default": 0, "other": 0}

    def bind(self, arguments: Any) -> None:
        super().bind(arguments)
        self._is_cold = True

    def write(self, name: str, array: Array) -> None:
        super().write(name, array)
        self._is_cold |= name == "x"

    def _default(self, x: Array, y: Array) -> None:
        self.runs["default"] += 1
        self._is_cold, self.run_s = False, DEFAULT_S
        y[...] = 2 * x

    def _other(self, x: Array, y: Array) -> None:
        self.runs["other"] += 1
        self.run_s = self._seconds(Memory(x, self._is_cold))
        self._is_cold = False
        y[...] = 2 * x


Seconds = Callable[[Memory], float]


def honest() -> Seconds:
    return lambda _: MEASURED_S


def honest_with_cold_caches() -> Seconds:
    """Six times as long where the data were just copied."""
    return lambda memory: 0.6 if memory.is_cold else MEASURED_S


def keeps_by_content() -> Seconds:
    """The work is left out on data that look the same."""
    kept: set[float] = set()

    def seconds(memory: Memory) -> float:
        is_new = float(memory.x[0]) not in kept
        kept.add(float(memory.x[0]))
        return DEFAULT_S if is_new else MEASURED_S

    return seconds


def keeps_by_address() -> Seconds:
    """The work is left out on data that lie where the last ones lay."""
    last: list[Array] = []

    def seconds(memory: Memory) -> float:
        is_new = not any(memory.x is each for each in last)
        last[:] = [memory.x]
        return DEFAULT_S if is_new else MEASURED_S

    return seconds


def keeps_most() -> Seconds:
    """It is faster than the default by itself, but owes most of its gain to what it keeps."""
    whole = keeps_by_content()
    return lambda memory: 0.85 if whole(memory) == DEFAULT_S else MEASURED_S


def fast_only_after_many_runs() -> Seconds:
    runs = itertools.count()
    return lambda _: DEFAULT_S if next(runs) < 1000 else MEASURED_S


def job_of(kernel: str) -> KernelJob:
    config = OTHER if kernel == "other" else DEFAULT
    return fake_job(kernel, config=config, sampling=Sampling())


HONEST = [honest, honest_with_cold_caches]
CHEATS = {
    keeps_by_content: (
        "on 12 sets of data it took 1.00 s or more when they were new, and 100 ms when it had seen "
        "them, which is 900 ms less than the default took"
    ),
    keeps_by_address: "when they were new, and 100 ms when it had seen them",
    keeps_most: "when they were new, and 100 ms when it had seen them",
    fast_only_after_many_runs: "a second build took 1.00 s or more, and the default 1.00 s or more",
}

Prove = Callable[[Seconds, Callable[[], float]], tuple[Refusal | None, Planned]]


@pytest.fixture
def prove(tmp_path: Path) -> Prove:
    """Proves a kernel that was measured with a tenth of the default's time."""

    def proved(seconds: Seconds, burden: Callable[[], float]) -> tuple[Refusal | None, Planned]:
        device = Planned(seconds, burden)
        worker = fake_worker(tmp_path, device)

        def run(_: Input, method: Callable[..., Any], *args: object, **__: object) -> object:
            return method(worker, *args).result

        measurer = object.__new__(KernelMeasurer)
        measurer.__dict__ |= {
            "_times": KernelTimes(),
            "_builds_disturb": False,
            "_builds": SimpleNamespace(rebuild=lambda _: job_of("other").binary),
            "_program": lambda *_: None,
            "_spec": load_spec(ZOO),
            "_device": SimpleNamespace(made_s=lambda _: 0.0, run=run),
            "_default_beside": lambda *_: (job_of("default"), DEFAULT_S),
        }
        space = ConstrainedSpace.of(load_spec(ZOO), FOUR, None, "opencl")
        measured = Measurement(OTHER, FOUR, Outcome.OK, timing=Timing((MEASURED_S,)))
        return measurer._why_unproved(space, job_of("other"), measured), device

    return proved


def quiet() -> float:
    return 1.0


@pytest.mark.parametrize("kernel", HONEST)
def test_honest_kernel_is_proved_by_three_sets_of_data(
    prove: Prove, kernel: Callable[[], Seconds]
) -> None:
    refusal, device = prove(kernel(), quiet)
    assert refusal is None
    assert device.runs == {"other": 4 * PROOF_DATA[0], "default": 4 * PROOF_DATA[0]}


@pytest.mark.parametrize("cheat", CHEATS)
def test_cheat_is_refused_for_its_time_and_its_results_are_right(
    prove: Prove, cheat: Callable[[], Seconds]
) -> None:
    refusal, _ = prove(cheat(), quiet)
    assert refusal.outcome is Outcome.IMPLAUSIBLE
    assert CHEATS[cheat] in refusal.reason


BUSY = (1.0, 1.0, 1.1, 1.5, 4.0)
"""How many times as long a run takes on a busy machine, each as often."""


def refusals(unseen_s: float, seen_s: float, scatter: float, proofs: int = 200) -> int:
    """Count how many proofs on a busy machine refuse a kernel beside a default of 1 s."""
    rng, refused = random.Random(3), 0

    def first_runs(count: int, *each_s: float) -> list[float]:
        burden = partial(rng.lognormvariate, 0, scatter)
        return [s * rng.choice(BUSY) * burden() for _ in range(count) for s in each_s]

    for _ in range(proofs):
        other: list[float] = []
        default: list[float] = []
        for count in PROOF_DATA:
            other += first_runs(count, unseen_s, seen_s)
            default += first_runs(count, DEFAULT_S, DEFAULT_S)
            verdict = runs(other, default).judge(seen_s, DEFAULT_S, 0.0)
            if verdict.is_clear:
                break
        refused += verdict.refusal is not None
    return refused


@pytest.mark.parametrize("time_s", [0.04, 0.1, 0.3, 0.6, 0.8, 0.93])
@pytest.mark.parametrize("scatter", [0.01, 0.1, 0.5])
def test_honest_kernels_survive_on_a_busy_machine(time_s: float, scatter: float) -> None:
    assert refusals(time_s, time_s, scatter) <= 2


@pytest.mark.parametrize(("unseen_s", "seen_s"), [(1.0, 0.1), (0.9, 0.1), (1.0, 0.4)])
def test_cheats_are_refused_on_a_busy_machine(unseen_s: float, seen_s: float) -> None:
    assert refusals(unseen_s, seen_s, scatter=0.1) >= 185


def runs(other_s: Sequence[float], default_s: Sequence[float]) -> ProofRuns:
    """Pairs of first runs, the first on new data, the second on data that was seen."""

    def measured(config: Config, first_s: Sequence[float]) -> Measurement:
        samples = Timing(tuple(first_s))
        return Measurement(config, FOUR, Outcome.OK, timing=samples, warmup_s=tuple(first_s))

    return ProofRuns(measured(OTHER, other_s), measured(DEFAULT, default_s))


@pytest.mark.parametrize(
    ("unseen_s", "is_proved"),
    [
        ((0.5, 0.5, 0.5), True),
        ((0.75, 0.75, 0.75), True),  # exactly half of the 0.5 s that it saves
        ((0.76, 0.5, 0.5), False),  # nor is it refused
        ((0.76, 0.76, 0.5), False),
    ],
)
def test_three_sets_of_data_prove_a_kernel_where_none_speaks_against_it(
    unseen_s: Sequence[float], is_proved: bool
) -> None:
    other = [time_s for first_s in unseen_s for time_s in (first_s, 0.5)]
    verdict = runs(other, [1.0] * 6).judge(0.5, 1.0, 0.0)
    assert verdict.refusal is None
    assert verdict.is_clear is is_proved
    assert runs(other, [1.0] * 6).judge(0.5, 1.0, overhead_s=0.3).is_clear, "of launches"


@pytest.mark.parametrize(
    ("against", "count", "is_refused", "is_clear"),
    [(8, 8, True, False), (9, 9, True, True), (16, 24, False, False), (17, 24, True, False)],
)
def test_sets_of_data_vote_against_a_kernel(
    against: int, count: int, is_refused: bool, is_clear: bool
) -> None:
    other = [1.0, 0.5] * against + [1.0, 1.0] * (count - against)
    verdict = runs(other, [1.0] * 2 * count).judge(0.5, 1.0, 0.0)
    assert (verdict.refusal is not None, verdict.is_clear) == (is_refused, is_clear)
    shorter = runs([*other, 0.5, 0.5], [1.0] * 2 * (count + 1)).judge(0.5, 1.0, 0.0)
    assert shorter.refusal is None, "the shortest runs contradict the vote"


def test_what_new_data_cost_the_default_as_well_is_not_held_against_a_kernel() -> None:
    """As fresh pages of memory do: kernels of 5 us took 15 us on new data."""
    other, default = [15.0, 5.0] * 24, [22.0, 12.0] * 24
    assert runs(other, [12.0] * 48).judge(5.0, 12.0, 0.0).refusal is not None
    assert runs(other, default).judge(5.0, 12.0, 0.0).refusal is None
    assert runs([17.0, 3.0] * 24, default).judge(3.0, 12.0, 0.0).refusal is None
    assert runs([19.0, 3.0] * 24, default).judge(3.0, 12.0, 0.0).refusal is not None


def test_without_a_gain_beside_the_default_there_is_nothing_to_explain() -> None:
    assert runs([2.0, 0.96] * 9, [1.0] * 18).judge(0.96, 1.0, 0.0).refusal is None
    assert runs([2.0, 0.94] * 9, [1.0] * 18).judge(0.94, 1.0, 0.0).refusal is not None
    alone = dataclasses.replace(runs([2.0, 0.5] * 9, [1.0] * 18), default=None)
    assert alone.judge(0.5, None, 0.0).refusal is None


def test_a_machine_that_is_slower_now_slows_the_default_as_well() -> None:
    slow = runs([2.5, 2.5] * 3, [10.0] * 6)
    assert slow.judge(0.5, 4.0, 0.0).refusal is None, "2.5 times as slow, as the default is"
    refusal = slow.judge(0.49, 10.0, 0.0).refusal
    assert refusal.reason == (
        "on 3 sets of new data a second build took 2.50 s or more, and the default 10.0 s or more, "
        "where 490 ms were measured"
    )
    assert not slow.judge(0.49, 10.0, 0.0).is_clear, "later runs may be faster"
    assert slow.judge(0.49, 10.0, overhead_s=1.6).refusal is None


def test_proof_that_fails_is_refused_at_once() -> None:
    wrong = Measurement(OTHER, FOUR, Outcome.WRONG_RESULT, message="y[0] is 1, expected 2")
    verdict = ProofRuns(wrong).judge(0.5, 1.0, 0.0)
    assert verdict.is_clear
    assert verdict.refusal.outcome is Outcome.WRONG_RESULT


def test_default_that_fails_on_new_data_is_left_out_of_a_proof(tmp_path: Path) -> None:
    device = Planned(honest(), quiet)

    def spoilt(x: Array, y: Array) -> None:
        device.run_s = DEFAULT_S
        y[...] = 0

    device._kernels = {**device._kernels, "default": spoilt}
    found = fake_worker(tmp_path, device).prove(job_of("other"), job_of("default"), 3).result
    assert (found.kernel.outcome, found.default.outcome) == (Outcome.OK, Outcome.WRONG_RESULT)
    assert len(found.kernel.warmup_s) == 6
    assert found.judge(MEASURED_S, DEFAULT_S, 0.0).refusal is None
