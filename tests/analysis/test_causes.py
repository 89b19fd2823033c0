"""What values of parameters do: to failures, and to a winner."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from harness.analysis.causes import causes_among
from harness.analysis.failures import describe_failures
from harness.core.records import Config, Input, Measurement, Outcome, StopReason, Timing, Value
from harness.results.ablation import Ablation, AblationStep, StepResult, ablation_lines
from harness.stats.timing import TimeRatio
from harness.tuning.ablation_stage import ablate

DEFAULT = {
    "fast": False,
    "ftz": False,
    "unroll": 1,
    "cache": None,
    "layout": "row",
    **{f"f{number}": False for number in range(6)},
}
VALUES = {
    "unroll": (1, 2, 4, 8),
    "cache": (None, "ca", "cg"),
    "layout": ("row", "column", "tile"),
}


@dataclass
class Tried:
    """Features and parameters, ends and configurations of tests."""

    rows: list[dict[str, Value]]
    outcomes: list[Outcome]
    configurations: Sequence[int]

    def causes(self):
        frame = pd.DataFrame(self.rows, dtype=object)
        return list(causes_among(frame, self.outcomes, np.array(self.configurations)))


def conditions(cause):
    return set(map(str, cause.region.parts.values()))


def tried(ends, count=600, inputs=1, seed=0):
    """Uniform samples of DEFAULT's parameters, each on so many inputs."""
    rng = random.Random(seed)
    rows, outcomes = [], []
    for _ in range(count):
        config = {name: rng.choice(VALUES.get(name, (False, True))) for name in DEFAULT}
        for problem in range(inputs):
            rows.append({"n": problem, **config})
            outcomes.append(ends(rows[-1], rng))
    return Tried(rows, outcomes, np.repeat(range(count), inputs))


# ----------------------------------------------------------------------------- failures


def planted(config, rng):
    """Fast mathematics with ftz is wrong nearly always, `cg` never builds, else little fails."""
    if config["cache"] == "cg":
        return Outcome.BUILD_FAILED
    wrong = 0.94 if config["fast"] and not config["ftz"] else 0.02
    return Outcome.WRONG_RESULT if rng.random() < wrong else Outcome.OK


def test_the_pair_and_the_value_that_explain_failures_are_found():
    builds, wrong = tried(planted).causes()
    assert (builds.kind, conditions(builds)) == (Outcome.BUILD_FAILED, {"cache = cg"})
    assert (builds.failed, builds.others_failed) == (builds.count, 0)
    assert (wrong.kind, conditions(wrong)) == (Outcome.WRONG_RESULT, {"fast = true", "ftz = false"})
    assert wrong.count + wrong.others == 600 - builds.count  # what did not build tells nothing
    assert wrong.failed > 0.8 * wrong.count
    assert f"{builds.count} of {builds.count} tests with cache = cg" in str(builds)


def test_a_bound_on_numbers_and_two_causes_of_one_kind_are_found():
    def end(config, _):
        unroll = config["unroll"]
        return Outcome.LAUNCH_FAILED if unroll >= 4 or config["f0"] else Outcome.OK

    causes = tried(end).causes()
    assert list(map(conditions, causes)) == [{"f0 = true"}, {"unroll >= 4", "f0 = false"}]
    count = sum(cause.count for cause in causes)
    for cause in causes:
        assert (cause.failed, cause.others_failed) == (cause.count, 0)
        assert cause.others == 600 - count


def test_a_condition_names_the_values():
    for name, failing, condition in (
        ("cache", ("ca", "cg"), "cache in {ca, cg}"),
        ("cache", (None,), "cache = absent"),
        ("layout", ("row", "tile"), "layout in {row, tile}"),
        ("size", tuple(range(4, 12)), "size in {4..11}"),
        ("unroll", (8,), "unroll = 8"),
        ("regs", (None, 32), "regs in {32, absent}"),
        ("regs", (64, 128), "regs in {64, 128}"),
    ):
        more = {"regs": (None, 32, 64, 128), "size": tuple(range(20))}
        values = (VALUES | more)[name] * 20
        outcomes = [Outcome.CRASHED if value in failing else Outcome.OK for value in values]
        rows = [{name: value} for value in values]
        (cause,) = Tried(rows, outcomes, range(len(rows))).causes()
        assert conditions(cause) == {condition}
        assert cause.failed == cause.count


EVERY = {
    "real": ("double", "float"),
    "fast": (False, True),
    "march": (None, "native"),
    "level": (None, 0, 1, 2, 3),
}


def test_two_causes_that_are_perfect_together_are_both_found():
    """All of 40 configurations: each value alone leaves half of the others failing too."""
    rows, outcomes = [], []
    for values in itertools.product(*EVERY.values()):
        row = dict(zip(EVERY, values, strict=True))
        wrong = row["real"] == "float" or row["fast"]
        rows.append(row)
        outcomes.append(Outcome.WRONG_RESULT if wrong else Outcome.OK)
    first, second = Tried(rows, outcomes, range(40)).causes()
    assert {"real = float", "fast = true"} < conditions(first) | conditions(second)
    for cause, count in ((first, 20), (second, 10)):
        assert (cause.failed, cause.count, cause.others_failed) == (count, count, 0)


def failed(**values):
    config = Config({**DEFAULT, **values})
    return Measurement(config, Input({"n": 1}), Outcome.IMPLAUSIBLE, message="too fast")


def test_the_example_of_a_failure_is_the_one_that_differs_least_from_the_default():
    failures = [failed(fast=True, ftz=True), failed(fast=True), failed(f1=True), failed(unroll=2)]
    measured = {failures[0].input: {m.config: m for m in failures}}
    lines = list(describe_failures(measured, Config(DEFAULT)))
    assert lines[1:3] == ["    4 implausible: too fast", "        for example fast=true on (n=1)"]


def test_failures_after_the_search_are_listed_of_configurations_that_had_worked():
    searched, later = failed(fast=True), failed(unroll=2)
    measured = {searched.input: {searched.config: searched}}
    _, *lines = describe_failures(measured, Config(DEFAULT), [searched, later])
    wanted = ["1 implausible: ", "fast=true", "1 implausible in interleaved", "unroll=2"]
    for line, part in zip(lines[:4], wanted, strict=True):
        assert part in line


def by_digest(kind, one_in):
    """Fail by chance, alike on every input."""

    def end(config, _):
        digest = int(Config({k: v for k, v in config.items() if k != "n"}).digest[:4], 16)
        return kind if digest % one_in == 0 else Outcome.OK

    return end


def test_one_test_that_ends_by_chance_makes_no_cause():
    """Configurations fail at random, each alike on all its inputs but for a few tests."""
    for flips in (0, 1, 20):
        made = tried(by_digest(Outcome.CRASHED, 3), count=30, inputs=24)
        other = {Outcome.CRASHED: Outcome.OK, Outcome.OK: Outcome.CRASHED}
        for row in random.Random(0).sample(range(720), flips):
            made.outcomes[row] = other[made.outcomes[row]]
        assert made.causes() == []


def test_what_fails_on_some_inputs_is_explained_by_the_input_and_by_chance_alike():
    """Large inputs with unroll=4 time out always; where f0 is set a third of the tests crash."""

    def end(config, rng):
        n = config["n"]
        if n >= 4 and config["unroll"] == 4:
            return Outcome.TIMEOUT
        return Outcome.CRASHED if config["f0"] and rng.random() < 0.35 else Outcome.OK

    causes = tried(end, count=80, inputs=6).causes()
    assert {cause.kind: conditions(cause) for cause in causes} == {
        Outcome.TIMEOUT: {"n >= 4", "unroll = 4"},
        Outcome.CRASHED: {"f0 = true"},
    }


# ------------------------------------------------------------------------------- minimal


def interleaved(times):
    """Ten samples a configuration, with a spread of half a percent; infinity is a failure."""
    return lambda configs: [_measured(config, times(config)) for config in configs]


def _measured(config, time_s):
    if math.isinf(time_s):
        return Measurement(config, Input({}), Outcome.WRONG_RESULT, message="planned")
    rng = random.Random(config.digest)
    return timed(config, [time_s * math.exp(rng.gauss(0, 0.005)) for _ in range(10)])


def timed(config, samples_s):
    timing = Timing(tuple(samples_s), StopReason.INTERLEAVED)
    return Measurement(config, Input({}), Outcome.OK, timing)


PLAIN = Config({f"f{number}": False for number in range(8)})
ALL = Config({f"f{number}": True for number in range(8)})


def ablated(
    measure,
    legal=lambda config: config,
    without_code=(),
    winner=ALL,
    default=PLAIN,
):
    """Ablate; the flags `without_code` leave the machine code as it is."""

    def code(config):
        return Config({name: value for name, value in config.items() if name not in without_code})

    return ablate(winner, default, measure=measure, code=code, legal=legal)


def test_what_leaves_the_machine_code_is_dropped_without_a_measurement():
    def nothing(configs):
        raise AssertionError("it is not measured")

    same = ablated(nothing, without_code=ALL)
    assert (same.needed, same.ratio, same.is_decided) == ((), None, True)

    measured = []

    def measure(configs):
        measured.append(configs[1])
        return interleaved(lambda c: 1e-3 if c["f2"] else 2e-3)(configs)

    mixed = ablated(measure, without_code=("f0", "f1", "f3", "f4", "f5", "f6"))
    assert mixed.needed == ("f2",)
    assert mixed.ratio is not None, "f7 changes the code"
    assert sum(c["f7"] for c in measured) == 1, "all but f2 and f7 are dropped at once"


def test_only_what_the_time_needs_is_left():
    def time_s(config):
        return 1e-3 * (0.8 if config["f2"] else 1) * (0.9 if config["f5"] else 1)

    part = ablated(interleaved(time_s))
    assert part.needed == ("f2", "f5")
    assert part.ratio.low < 1.02
    assert "2 of 8 settings are needed: f2=true, f5=true" in str(part)


def test_small_losses_do_not_add_up():
    """Each flag is worth 0.9 %, in the noise of ten samples or not; together they are not."""

    def time_s(config):
        return 1e-3 * 1.009 ** sum(not value for value in config.values())

    part = ablated(interleaved(time_s))
    assert len(part.needed) >= 6
    assert time_s(part.config) / time_s(ALL) < 1.02


def test_flags_that_are_illegal_or_fail_without_stay():
    def legal(config):
        return None if config["f1"] and not config["f0"] else config

    def time_s(config):
        return 1e-3 if config["f1"] else math.inf

    part = ablated(interleaved(time_s), legal)
    assert part.needed == ("f0", "f1")
    results = {step.name: step.result for step in part.steps}
    assert (results["f0"], results["f1"]) == (StepResult.ILLEGAL, StepResult.FAILED)


def test_a_lucky_drop_is_put_back():
    """The last look is a fresh one: at the first, f0 seemed not to matter."""
    factors = itertools.chain([1.0], itertools.repeat(1.2))

    def measure(configs):
        factor = next(factors)
        return interleaved(lambda c: 1e-3 if c["f0"] else 1e-3 * factor)(configs)

    one, none = Config({"f0": True}), Config({"f0": False})
    part = ablated(measure, winner=one, default=none)
    assert part.config == one
    assert [step.result for step in part.steps] == [StepResult.DROPPED, StepResult.PUT_BACK]


def alternating(cost, spread):
    """The winner's samples are alternately this much above and below; others cost more."""
    samples_s = [1e-3 * math.exp(spread * sign) for sign in (1, -1) * 5]
    return lambda configs: [
        timed(config, samples_s if config == ALL else [1e-3 * cost] * 10) for config in configs
    ]


def test_what_noise_hides_is_not_called_needed_and_what_seems_slow_stays():
    for cost, spread, needed, text in (
        (1.0, 0.01, 0, "0 of 8 settings are needed"),
        (1.001, 0.3, 0, "any of 8 settings may be needed"),
        (1.2, 0.5, 8, "f7=true may be needed"),
    ):
        part = ablated(alternating(cost, spread))
        assert len(part.needed) == needed
        assert text in str(part)
        heading, line = ablation_lines({Input({"n": 1}): part})
        assert line == f"    n=1: {part}"
        assert ("more --repeats" in heading) == ("may be" in text)


def test_a_line_says_of_each_flag_either_that_it_is_needed_or_that_it_may_be():
    first = AblationStep("f0", "true", StepResult.SLOWER, None)
    others = [AblationStep(f"f{k}", "true", StepResult.SEEMS_SLOWER, None) for k in (1, 2)]
    three = Config({name: name in ("f0", "f1", "f2") for name in PLAIN})
    sure, wide = TimeRatio(0.99, 0.97, 1.02, 20), TimeRatio(0.955, 0.787, 1.159, 20)
    part = Ablation(ALL, three, PLAIN, (first, *others), sure)
    assert str(part) == "f0=true is needed; f1=true, f2=true may be needed"
    put_back = AblationStep("f2", "true", StepResult.PUT_BACK, wide)
    assert str(replace(part, steps=(first, put_back))) == (
        "f0=true, f1=true are needed; f2=true may be needed"
    )
    assert "f2=true are needed; the others may be needed" in str(
        replace(part, steps=(first,), ratio=wide)
    )
    one = Ablation(ALL, Config({**PLAIN, "f0": True}), PLAIN, (first,), sure)
    assert str(one).startswith("1 of 8 settings is needed: f0=true; 0.990x")
    lines = ablation_lines({Input({"n": 1}): part, Input({"n": 2}): one})
    assert [line.split(":")[0] for line in lines][1::2] == ["    n=2", "    n=1"]
