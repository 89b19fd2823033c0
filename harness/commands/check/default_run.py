"""Run the default of a space once on inputs, and verify it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

from harness.analysis.failures import headline, suspects
from harness.core.errors import BackendUnavailable, HostModuleError
from harness.core.records import Input, Outcome
from harness.core.text import counted, format_time
from harness.measure.choose import fitted_to, open_measurer
from harness.measure.measurer import Measurer
from harness.space import ConstrainedSpace
from harness.space_file import Spec

_RUNS = {"repeats": 2, "min_repeats": 2, "energy": False}

Failure = tuple[str, str]
"""The outcome of a failure and its reason."""


@dataclass(frozen=True)
class _InputRun:
    """How the default ended on an input: its time, or a failure."""

    problem: Input
    time: str = ""
    failure: Failure | None = None
    warnings: Sequence[str] = ()


@dataclass(frozen=True)
class DefaultRun:
    """How the default ended on inputs, and where; or why it was not run, or not on all of them."""

    spec: Spec
    environment: str = ""
    runs: Sequence[_InputRun] = ()
    why_not_run: str = ""

    @property
    def failures(self) -> Sequence[Failure]:
        """The failures, one for each input."""
        return [run.failure for run in self.runs if run.failure is not None]

    @property
    def why_failed(self) -> str:
        """Why it does not work; empty where it does."""
        return "\n".join(self.lines()) if self.failures or self.why_not_run else ""

    def lines(self) -> Iterator[str]:
        """Describe how it ended; a reason that repeats itself is given once."""
        if not self.environment:
            yield f"default not run: {self.why_not_run}"
            return
        yield f"default on {self.environment}:"
        reasons = Counter(self.failures)
        told = set[Failure]()
        for run in self.runs:
            if run.failure is None:
                yield f"  ({run.problem}): OK, {run.time}, verified"
                yield from (f"  warning: {text}" for text in run.warnings)
            elif run.failure not in told:
                told.add(run.failure)
                yield f"  ({run.problem}): FAILED, {': '.join(run.failure)}"
        if self.why_not_run:
            yield f"  not run: {self.why_not_run}"
            return
        for (outcome, reason), count in reasons.items():
            if count > 1:
                failed = f"FAILED, {outcome}: {headline(reason)}"
                again = "the same" if len(reasons) == 1 else failed
                yield f"  {counted(count - 1, 'other input')}: {again}"
        if self.failures:
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
    spec: Spec, backend: str, devices: Sequence[str], inputs: Sequence[Input]
) -> DefaultRun:
    """Run and verify the default on each of these inputs."""
    try:
        measurer, _ = open_measurer(spec.with_measure(_RUNS), backend, devices=devices)
    except BackendUnavailable as error:
        return DefaultRun(spec, why_not_run=str(error))
    runs: list[_InputRun] = []
    with closing(measurer):
        environment, fitted = str(measurer.environment), fitted_to(spec, measurer)
        try:
            runs += (_run(fitted, measurer, problem) for problem in inputs)
        except BackendUnavailable as error:
            return DefaultRun(spec, environment, runs, str(error))
    return DefaultRun(spec, environment, runs)


def _run(spec: Spec, measurer: Measurer, problem: Input) -> _InputRun:
    """Run the default on an input."""
    space = ConstrainedSpace.of(spec, problem, measurer.limits, measurer.compiler)
    default = space.canonical(space.default)
    illegal = space.why_illegal(default)
    if illegal is not None:
        return _InputRun(problem, failure=("illegal", illegal))
    earlier = len(measurer.notices)
    try:
        ended = measurer.measure(space, problem, default, None)
    except HostModuleError as error:
        # A fault of the host module names the input as well.
        reason = str(error).replace(f" on the input ({problem})", "")
        return _InputRun(problem, failure=("host module", reason))
    if ended.timing is None:
        return _InputRun(problem, failure=(str(ended.outcome), ended.message))
    return _InputRun(problem, format_time(ended.time_s), warnings=measurer.notices[earlier:])
