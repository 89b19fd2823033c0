"""Run the default of a space once on inputs, and drawn configurations on others; verify them."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial

from harness.analysis.failures import suspects
from harness.core.config_diff import difference
from harness.core.errors import BackendUnavailable, HostModuleError
from harness.core.locks import patiently
from harness.core.records import Config, Input, Measurement, Outcome
from harness.core.text import counted, format_time
from harness.display.text import say
from harness.measure.choose import fitted_to, open_measurer
from harness.measure.kernels.measurer import KernelMeasurer
from harness.measure.measurer import Measurer
from harness.space import ConstrainedSpace
from harness.space_file import Spec
from harness.space_file.input_ranges import draw_unseen, size_of_input

_RUNS = {"repeats": 2, "min_repeats": 2, "energy": False}
DRAWN = 3
"""So many configurations run beside the default on each input that a space does not list."""

_CLOCK_MATTERS = 1.05  # times closer than that are alike: they have two samples

_FAULTS = (Outcome.WRONG_RESULT, Outcome.CRASHED, Outcome.TIMEOUT)
"""How a drawn configuration may not end; a device may refuse it, as it does in a search."""

Failure = tuple[str, str]
"""The outcome of a failure and its reason."""


@dataclass(frozen=True)
class _InputRun:
    """How a configuration ended on an input: what was measured, or a failure."""

    problem: Input
    config: str  # how it differs from the default
    measured: Measurement | None = None
    failure: Failure | None = None
    warnings: Sequence[str] = ()


@dataclass(frozen=True)
class DefaultRun:
    """How the default ended on inputs, and where; or why it was not run, or not on all of them.
    `unseen` has the runs on inputs that the space does not list, of which so many were `wanted`;
    `clock` says whether its time depends on the device's; `warnings` are about the device."""

    spec: Spec
    environment: str = ""
    runs: Sequence[_InputRun] = ()
    why_not_run: str = ""
    unseen: Sequence[_InputRun] = ()
    wanted: int = 0
    clock: str = ""
    warnings: Sequence[str] = ()

    @property
    def failures(self) -> Sequence[Failure]:
        """The failures, one for each input."""
        return [run.failure for run in self.runs if run.failure is not None]

    @property
    def fails_unseen(self) -> bool:
        """Whether a configuration fails on an input that the space does not list."""
        return any(run.failure for run in self.unseen)

    @property
    def why_failed(self) -> str:
        """Why it does not work; empty where it does, or was not run."""
        return "\n".join(self.lines()) if self.failures or self.fails_unseen else ""

    def lines(self) -> Iterator[str]:
        """Describe how it ended; a reason that repeats itself is given once."""
        yield from self._default_lines()
        by_input = itertools.groupby(self.unseen, lambda run: run.problem)
        unseen = {problem: list(runs) for problem, runs in by_input}
        if self.wanted and not self.why_not_run:
            fewer = ", no more in the ranges of the features" * (len(unseen) < self.wanted)
            on = f"{counted(len(unseen), 'unseen input')}{fewer}"
            yield f"default and up to {DRAWN} drawn configurations that are legal on {on}:"
        for problem, runs in unseen.items():
            for run in runs:
                if run.failure is not None:
                    yield f"  ({problem}): FAILED with {run.config}, {', '.join(run.failure)}"
            if not any(run.failure for run in runs):
                yield f"  ({problem}): OK, {len(runs)} verified"

    def _default_lines(self) -> Iterator[str]:
        if not self.environment:
            yield f"default not run: {self.why_not_run}"
            return
        yield f"default on {self.environment}:"
        for text in self.warnings:
            yield f"  warning: {text}"
        failed: dict[Failure, list[Input]] = {}
        for run in self.runs:
            if run.failure is not None:
                failed.setdefault(run.failure, []).append(run.problem)
                continue
            assert run.measured is not None
            yield f"  ({run.problem}): OK, {format_time(run.measured.time_s)}, verified"
            for text in run.warnings:
                yield f"  warning: {text}"
        if self.clock:
            yield f"  {self.clock}"
        for failure, problems in failed.items():
            yield f"  ({problems[0]}): FAILED, {': '.join(failure)}"
            if len(problems) > 1:
                yield f"  {counted(len(problems) - 1, 'other input')}: the same"
        if self.why_not_run:
            yield f"  not run: {self.why_not_run}"
        elif failed:
            inputs = f"{len(self.failures)} of {counted(len(self.runs), 'input')}"
            yield f"default FAILED on {inputs}{self._advice()}"

    def _advice(self) -> str:
        """Say what may be wrong where the default is wrong on every input."""
        outcomes = [outcome for outcome, _ in self.failures]
        if len(outcomes) < len(self.spec.inputs) or {*outcomes} != {str(Outcome.WRONG_RESULT)}:
            return ""
        is_program = self.spec.program is not None
        return f": even the default is wrong on every input, so {suspects(is_program)}"


def run_default(
    spec: Spec,
    backend: str,
    devices: Sequence[str],
    inputs: Sequence[Input],
    unseen: int = 0,
    seed: int = 0,
    wait_s: float = 0.0,
) -> DefaultRun:
    """Run and verify the default on each of these inputs, and drawn configurations with it on so
    many `unseen` ones; wait for a device that another process uses."""
    opened = partial(open_measurer, spec.with_measure(_RUNS), backend, devices=devices)
    try:
        measurer, _ = patiently(opened, time.monotonic() + wait_s, say)
    except BackendUnavailable as error:
        return DefaultRun(spec, why_not_run=str(error))
    runs, others = list[_InputRun](), list[_InputRun]()
    clock = why_not_run = ""
    with closing(measurer):
        environment, fitted = str(measurer.environment), fitted_to(spec, measurer)
        warnings = tuple(measurer.notices)
        try:
            runs += (_run(_space(fitted, measurer, p), measurer, p) for p in inputs)
            clock = _clock_line(fitted, measurer, runs)
            others += _runs_unseen(fitted, measurer, unseen, random.Random(seed))
        except BackendUnavailable as error:
            why_not_run = str(error)
    return DefaultRun(
        spec,
        environment=environment,
        runs=runs,
        why_not_run=why_not_run,
        unseen=others,
        wanted=unseen,
        clock=clock,
        warnings=warnings,
    )


def _clock_line(spec: Spec, measurer: Measurer, runs: Sequence[_InputRun]) -> str:
    """Say whether the default's time on the largest input depends on a GPU's clock; empty where
    this is no question."""
    timed = [run for run in runs if run.measured is not None]
    if not timed or not isinstance(measurer, KernelMeasurer):
        return ""
    largest = max(timed, key=lambda run: size_of_input(run.problem))
    assert largest.measured is not None
    space = _space(spec, measurer, largest.problem)
    sustained = measurer.measure_sustained(space, largest.problem, largest.measured)
    if sustained is None:
        return ""
    if sustained.timing is None:
        return f"warning: no time at the sustained clock: {sustained.outcome}, {sustained.message}"
    ratio = sustained.time_s / largest.measured.time_s
    said = f"{ratio:.2f}x as long when sustained, on ({largest.problem})"
    if ratio < _CLOCK_MATTERS:
        return f"times do not depend on the clock: {said}"
    return (
        f"times depend on the clock: {said}. If your application gives the GPU no pause, write "
        "`measure: {clock: sustained}`"
    )


def _space(spec: Spec, measurer: Measurer, problem: Input) -> ConstrainedSpace:
    return ConstrainedSpace.of(spec, problem, measurer.limits, measurer.compiler)


def _runs_unseen(
    spec: Spec, measurer: Measurer, count: int, rng: random.Random
) -> Iterator[_InputRun]:
    """Run the default and drawn configurations on inputs that the space does not list."""

    def is_legal(problem: Input) -> bool:
        space = _space(spec, measurer, problem)
        meets = spec.where is None or spec.where.allows(problem)
        return meets and space.is_legal(space.canonical(space.default))

    for problem in draw_unseen(spec.inputs, spec.ranges, count, is_legal) if count else ():
        space = _space(spec, measurer, problem)
        default = space.canonical(space.default)
        drawn = space.sample(rng, DRAWN, {default})
        measurer.expect(space, [default, *drawn])
        yield _run(space, measurer, problem)
        for config in drawn:
            ended = _run(space, measurer, problem, config)
            if ended.failure is None or ended.failure[0] in map(str, _FAULTS):
                yield ended


def _run(
    space: ConstrainedSpace, measurer: Measurer, problem: Input, config: Config | None = None
) -> _InputRun:
    """Run a configuration on an input; by default the default."""
    default = space.canonical(space.default)
    config = config or default
    run = _InputRun(problem, difference(config, default))
    illegal = space.why_illegal(config)
    if illegal is not None:
        return replace(run, failure=("illegal", illegal))
    try:
        ended = measurer.measure(space, problem, config, None)
    except HostModuleError as error:
        # A fault of the host module names the input as well.
        reason = str(error).replace(f" on the input ({problem})", "")
        return replace(run, failure=("host module", reason))
    if ended.timing is None:
        return replace(run, failure=(str(ended.outcome), ended.message))
    weaknesses = measurer.weak_tests(problem)
    warnings = [f"verify is weak on {problem}: {text}." for text in weaknesses]
    return replace(run, measured=ended, warnings=warnings)
