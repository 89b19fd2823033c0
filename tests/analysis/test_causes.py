"""What values of parameters do: to failures, and to a winner."""

from __future__ import annotations

import dataclasses
import itertools
import math
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest

from harness.analysis.causes import causes_among
from harness.analysis.failures import describe_failures
from harness.core.records import Config, Input, Measurement, Outcome, StopReason, Timing, Value
from harness.results.ablation import Ablation, AblationStep, StepResult, ablation_lines
from harness.stats.timing import TimeRatio
from harness.tuning.ablation_stage import ablate

DEFAULT: dict[str, Value] = {
    "fast": False,
    "ftz": False,
    "unroll": 1,
    "cache": None,
    "layout": "row",
    **{f"f{number}": False for number in range(6)},
}
VALUES: dict[str, Sequence[Value]] = {
    "unroll": (1, 2, 4, 8),
    "cache": (None, "ca", "cg"),
    "layout": ("row", "column", "tile"),
}

Ends = Callable[[dict[str, Value], random.Random], Outcome]


@dataclass
class Tried:
    """Features and parameters, ends and configurations of tests."""

    settings: dict[str, list[Value]]
    outcomes: list[Outcome]
    configurations: list[int]

    def causes(self) -> list[Any]:
        columns = {name: pd.Series(v, dtype=object) for name, v in self.settings.items()}
        frame, configurations = pd.DataFrame(columns), np.array(self.configurations)
        return list(causes_among(frame, self.outcomes, configurations))


def conditions(cause: Any) -> set[str]:
    return set(map(str, cause.region.parts.values()))


def tried(ends: Ends, count: int = 600, inputs: int = 1, seed: int = 0) -> Tried:
    """Uniform samples of DEFAULT's parameters, each on so many inputs."""
    rng = random.Random(seed)
    found = Tried({name: [] for name in ("n", *DEFAULT)}, [], [])
    for number in range(count):
        config = {name: rng.choice(VALUES.get(name, (False, True))) for name in DEFAULT}
        for problem in range(inputs):
            row = {**config, "n": problem}
            for name, value in row.items():
                found.settings[name].append(value)
            found.outcomes.append(ends(row, rng))
            found.configurations.append(number)
    return found


# ----------------------------------------------------------------------------- failures


def planted(config: dict[str, Value], rng: random.Random) -> Outcome:
    """Fast mathematics with ftz is wrong nearly always, `cg` never builds, else little fails."""
    if config["cache"] == "cg":
        return Outcome.BUILD_FAILED
    wrong = 0.94 if config["fast"] and not config["ftz"] else 0.02
    return Outcome.WRONG_RESULT if rng.random() < wrong else Outcome.OK


def test_the_pair_and_the_value_that_explain_failures_are_found() -> None:
    builds, wrong = tried(planted).causes()
    assert (builds.kind, conditions(builds)) == (Outcome.BUILD_FAILED, {"cache = cg"})
    assert (builds.failed, builds.others_failed) == (builds.count, 0)
    assert (wrong.kind, conditions(wrong)) == (Outcome.WRONG_RESULT, {"fast = true", "ftz = false"})
    assert wrong.count + wrong.others == 600 - builds.count  # what did not build tells nothing
    assert wrong.failed > 0.8 * wrong.count
    assert str(builds) == (
        f"build_failed: {builds.count} of {builds.count} tests with cache = cg failed, 0 of "
        f"{builds.others} others"
    )


def test_a_bound_on_numbers_and_two_causes_of_one_kind_are_found() -> None:
    def end(config: dict[str, Value], _: random.Random) -> Outcome:
        unroll = config["unroll"]
        return Outcome.LAUNCH_FAILED if unroll >= 4 or config["f0"] else Outcome.OK

    found = tried(end).causes()
    assert list(map(conditions, found)) == [{"f0 = true"}, {"unroll >= 4", "f0 = false"}]
    assert all(cause.failed == cause.count and not cause.others_failed for cause in found)
    assert found[0].others == found[1].others == 600 - found[0].count - found[1].count


@pytest.mark.parametrize(
    ("name", "failing", "condition"),
    [
        ("cache", ("ca", "cg"), "cache in {ca, cg}"),
        ("cache", (None,), "cache = absent"),
        ("layout", ("row", "tile"), "layout in {row, tile}"),
        ("size", tuple(range(4, 12)), "size in {4..11}"),
        ("unroll", (8,), "unroll = 8"),
        ("regs", (None, 32), "regs in {32, absent}"),
        ("regs", (64, 128), "regs in {64, 128}"),
    ],
)
def test_a_condition_names_the_values(name: str, failing: Sequence[Value], condition: str) -> None:
    values = {**VALUES, "regs": (None, 32, 64, 128), "size": tuple(range(20))}[name] * 20
    outcomes = [Outcome.CRASHED if value in failing else Outcome.OK for value in values]
    (found,) = Tried({name: list(values)}, outcomes, list(range(len(values)))).causes()
    assert conditions(found) == {condition}
    assert found.failed == found.count


EVERY = {
    "real": ("double", "float"),
    "fast": (False, True),
    "march": (None, "native"),
    "level": (None, 0, 1, 2, 3),
}


def test_two_causes_that_are_perfect_together_are_both_found() -> None:
    """All of 40 configurations: each value alone leaves half of the others failing too."""
    rows = list(itertools.product(*EVERY.values()))
    settings = {name: [row[place] for row in rows] for place, name in enumerate(EVERY)}
    failed = [real == "float" or fast for real, fast, *_ in rows]
    outcomes = [Outcome.WRONG_RESULT if one else Outcome.OK for one in failed]
    both = Tried(settings, outcomes, list(range(len(rows)))).causes()
    assert {"real = float", "fast = true"} < conditions(both[0]) | conditions(both[1])
    assert [(cause.failed, cause.count, cause.others_failed) for cause in both] == [
        (20, 20, 0),
        (10, 10, 0),
    ]


def failed(**values: Value) -> Measurement:
    config = Config({**DEFAULT, **values})
    return Measurement(config, Input({"n": 1}), Outcome.IMPLAUSIBLE, message="too fast")


def test_the_example_of_a_failure_is_the_one_that_differs_least_from_the_default() -> None:
    failures = [failed(fast=True, ftz=True), failed(fast=True), failed(f1=True), failed(unroll=2)]
    measured = {failures[0].input: {m.config: m for m in failures}}
    lines = list(describe_failures(measured, Config(DEFAULT)))
    assert lines[1:3] == ["    4 implausible: too fast", "        for example fast=true on (n=1)"]


def test_failures_after_the_search_are_listed_of_configurations_that_had_worked() -> None:
    searched, later = failed(fast=True), failed(unroll=2)
    measured = {searched.input: {searched.config: searched}}
    lines = list(describe_failures(measured, Config(DEFAULT), [searched, later]))
    assert lines[1:5] == [
        "    1 implausible: too fast",
        "        for example fast=true on (n=1)",
        "    1 implausible in interleaved measurements: too fast",
        "        for example unroll=2 on (n=1)",
    ]


def by_digest(kind: Outcome, one_in: int) -> Ends:
    """Fail by chance, alike on every input."""

    def end(config: dict[str, Value], _: random.Random) -> Outcome:
        digest = int(Config({k: v for k, v in config.items() if k != "n"}).digest[:4], 16)
        return kind if digest % one_in == 0 else Outcome.OK

    return end


def test_the_same_failure_on_many_inputs_is_evidence_once() -> None:
    """Two of three configurations with an accidental value fail, on each of 50 inputs."""
    assert tried(by_digest(Outcome.BUILD_FAILED, 4), count=24, inputs=50).causes() == []


@pytest.mark.parametrize("flips", [0, 1, 20])
def test_one_test_that_ends_by_chance_makes_no_cause(flips: int) -> None:
    """Configurations fail at random, each alike on all its inputs but for a few tests."""
    for seed in range(2):
        found = tried(by_digest(Outcome.CRASHED, 3), count=30, inputs=24, seed=seed)
        for row in random.Random(seed).sample(range(720), flips):
            failed = found.outcomes[row] is Outcome.CRASHED
            found.outcomes[row] = Outcome.OK if failed else Outcome.CRASHED
        assert found.causes() == []


def test_what_fails_on_some_inputs_is_explained_by_the_input_and_by_chance_alike() -> None:
    """Large inputs with unroll=4 time out always; where f0 is set a third of the tests crash."""

    def end(config: dict[str, Value], rng: random.Random) -> Outcome:
        n = config["n"]
        if n >= 4 and config["unroll"] == 4:
            return Outcome.TIMEOUT
        return Outcome.CRASHED if config["f0"] and rng.random() < 0.35 else Outcome.OK

    found = {cause.kind: cause for cause in tried(end, count=80, inputs=6).causes()}
    assert conditions(found[Outcome.TIMEOUT]) == {"n >= 4", "unroll = 4"}
    assert conditions(found[Outcome.CRASHED]) == {"f0 = true"}


# ------------------------------------------------------------------------------- minimal


def interleaved(
    times: Callable[[Config], float],
) -> Callable[[Sequence[Config]], list[Measurement]]:
    """Ten samples a configuration, with a spread of half a percent; infinity is a failure."""

    def measure(configs: Sequence[Config]) -> list[Measurement]:
        return [_measured(config, times(config)) for config in configs]

    return measure


def _measured(config: Config, time_s: float) -> Measurement:
    if math.isinf(time_s):
        return Measurement(config, Input({}), Outcome.WRONG_RESULT, message="planned")
    rng = random.Random(config.digest)
    samples_s = tuple(time_s * math.exp(rng.gauss(0, 0.005)) for _ in range(10))
    return Measurement(config, Input({}), Outcome.OK, Timing(samples_s, StopReason.INTERLEAVED))


PLAIN = Config({f"f{number}": False for number in range(8)})
ALL = Config({f"f{number}": True for number in range(8)})


def ablated(
    winner: Config,
    default: Config,
    measure: Callable[[Sequence[Config]], list[Measurement]],
    legal: Callable[[Config], Config | None] = lambda config: config,
    without_code: tuple[str, ...] = (),
) -> Ablation:
    """Ablate; the flags `without_code` leave the machine code as it is."""

    def code(config: Config) -> Config:
        return Config({name: value for name, value in config.items() if name not in without_code})

    return ablate(
        winner,
        default,
        measure=measure,
        code=code,
        legal=legal,
    )


def test_what_leaves_the_machine_code_is_dropped_without_a_measurement() -> None:
    def nothing(configs: Sequence[Config]) -> list[Measurement]:
        raise AssertionError("it is not measured")

    same = ablated(ALL, PLAIN, nothing, without_code=tuple(ALL))
    assert (same.needed, same.ratio, same.is_decided) == ((), None, True)
    assert str(same) == "0 of 8 settings are needed: none"

    measured = list[Config]()

    def measure(configs: Sequence[Config]) -> list[Measurement]:
        measured.append(configs[1])
        return interleaved(lambda c: 1e-3 if c["f2"] else 2e-3)(configs)

    mixed = ablated(ALL, PLAIN, measure, without_code=("f0", "f1", "f3", "f4", "f5", "f6"))
    assert mixed.needed == ("f2",)
    assert mixed.ratio is not None, "f7 changes the code"
    alone = [config for config in measured if config["f7"]]
    assert len(alone) == 1, "all but f2 and f7 are dropped at once"


def test_only_what_the_time_needs_is_left() -> None:
    def time_s(config: Config) -> float:
        return 1e-3 * (0.8 if config["f2"] else 1) * (0.9 if config["f5"] else 1)

    found = ablated(ALL, PLAIN, interleaved(time_s), lambda c: c)
    assert found.needed == ("f2", "f5")
    assert found.ratio.low < 1.02
    assert str(found).startswith("2 of 8 settings are needed: f2=true, f5=true; ")


def test_small_losses_do_not_add_up() -> None:
    """Each flag is worth 0.9 %, in the noise of ten samples or not; together they are not."""

    def time_s(config: Config) -> float:
        return 1e-3 * 1.009 ** sum(not value for value in config.values())

    found = ablated(ALL, PLAIN, interleaved(time_s), lambda c: c)
    assert len(found.needed) >= 6
    assert time_s(found.config) / time_s(ALL) < 1.02


def test_flags_that_are_illegal_or_fail_without_stay() -> None:
    def legal(config: Config) -> Config | None:
        return None if config["f1"] and not config["f0"] else config

    def time_s(config: Config) -> float:
        return 1e-3 if config["f1"] else math.inf

    found = ablated(ALL, PLAIN, interleaved(time_s), legal)
    assert found.needed == ("f0", "f1")
    results = {step.name: step.result for step in found.steps}
    assert results["f0"] is StepResult.ILLEGAL
    assert results["f1"] is StepResult.FAILED


def test_a_lucky_drop_is_put_back() -> None:
    """The last look is a fresh one: at the first, f0 seemed not to matter."""
    looks = {"count": 0}

    def measure(configs: Sequence[Config]) -> list[Measurement]:
        looks["count"] += 1
        factor = 1.0 if looks["count"] == 1 else 1.2
        return [_measured(c, 1e-3 * (1 if c["f0"] else factor)) for c in configs]

    one, none = Config({"f0": True}), Config({"f0": False})
    found = ablated(one, none, measure, lambda c: c)
    assert found.config == one
    assert [step.result for step in found.steps] == [StepResult.DROPPED, StepResult.PUT_BACK]


def noisy(config: Config, time_s: float, spread: float) -> Measurement:
    """Interleaved, with samples alternately this much above and below."""
    samples_s = tuple(time_s * math.exp(spread * (-1) ** k * (config == ALL)) for k in range(10))
    return Measurement(config, Input({}), Outcome.OK, Timing(samples_s, StopReason.INTERLEAVED))


WINNERS_TIME = r"[01]\.\d{3}x \[[01]\.\d{3}, [1-9]\.\d{3}\] of the winner's time"


@pytest.mark.parametrize(
    ("cost", "spread", "kept", "pattern"),
    [
        (1.0, 0.01, 0, f"0 of 8 settings are needed: none; {WINNERS_TIME}"),
        (1.001, 0.3, 0, f"any of 8 settings may be needed: without them {WINNERS_TIME}"),
        (1.2, 0.5, 8, r"f0=true, f1=true, .*, f7=true may be needed"),
    ],
)
def test_what_noise_hides_is_not_called_needed_and_what_seems_slow_is_kept(
    cost: float, spread: float, kept: int, pattern: str
) -> None:
    def measure(configs: Sequence[Config]) -> list[Measurement]:
        return [noisy(c, 1e-3 * (1 if c == ALL else cost), spread) for c in configs]

    found = ablated(ALL, PLAIN, measure, lambda c: c)
    assert len(found.needed) == kept
    assert re.fullmatch(pattern, str(found))
    heading, line = ablation_lines({Input({"n": 1}): found})
    assert line == f"    n=1: {found}"
    assert ("more --repeats" in heading) == ("may be" in pattern)


def test_a_line_says_of_each_flag_either_that_it_is_needed_or_that_it_may_be() -> None:
    slower, seems = StepResult.SLOWER, StepResult.SEEMS_SLOWER
    steps = tuple(AblationStep(f"f{k}", "true", slower if k < 1 else seems, None) for k in range(3))
    kept = Config({name: name in ("f0", "f1", "f2") for name in PLAIN})
    known, wide = TimeRatio(0.99, 0.97, 1.02, 20), TimeRatio(0.955, 0.787, 1.159, 20)
    part = Ablation(ALL, kept, PLAIN, steps, known)
    assert str(part) == "f0=true is needed; f1=true, f2=true may be needed"
    put_back = AblationStep("f2", "true", StepResult.PUT_BACK, wide)
    assert str(dataclasses.replace(part, steps=(*steps[:1], put_back))) == (
        "f0=true, f1=true are needed; f2=true may be needed"
    )
    assert str(dataclasses.replace(part, steps=steps[:1], ratio=wide)) == (
        "f0=true, f1=true, f2=true are needed; the others may be needed: without them "
        "0.955x [0.787, 1.159] of the winner's time"
    )
    one = Ablation(ALL, Config({**PLAIN, "f0": True}), PLAIN, steps[:1], known)
    assert str(one).startswith("1 of 8 settings is needed: f0=true; 0.990x")
    first, second = Input({"n": 1}), Input({"n": 2})
    assert [line.split(":")[0] for line in ablation_lines({first: part, second: one})] == [
        "Flags that the winners need (without the others, which they set too, the time is at most "
        "5% longer, within noise)",
        "    n=2",
        "Flags that noise leaves open. To decide, close other programs or use more --repeats",
        "    n=1",
    ]
