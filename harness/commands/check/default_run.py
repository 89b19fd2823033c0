"""Run the default of a space once on each input, and verify it."""

from __future__ import annotations

from contextlib import closing

from rich.console import Console

from harness.analysis.failures import suspects
from harness.core.errors import BackendUnavailable, HostModuleError
from harness.core.records import Input, Measurement, Outcome
from harness.core.text import counted, format_time
from harness.display.text import print_line
from harness.measure.choose import fitted_to, open_measurer
from harness.measure.measurer import Measurer
from harness.space import ConstrainedSpace
from harness.space_file import Spec

_RUNS = {"repeats": 2, "min_repeats": 2, "energy": False}


def run_default(console: Console, spec: Spec, backend: str) -> bool:
    """Run and verify the default on each input; print how it ended, and return whether it works on
    all of them."""
    try:
        measurer, _ = open_measurer(spec.with_measure(_RUNS), backend)
    except BackendUnavailable as error:
        print_line(console, f"  default not run: {error}")
        return False
    with closing(measurer):
        spec = fitted_to(spec, measurer)
        print_line(console, f"  default on {measurer.environment}:")
        failed = [_run(console, spec, measurer, problem) for problem in spec.inputs]
    outcomes = [outcome for outcome in failed if outcome is not None]
    if not outcomes:
        return True
    inputs = f"{len(outcomes)} of {counted(len(spec.inputs), 'input')}"
    print_line(console, f"  default FAILED on {inputs}{_advice(spec, outcomes)}")
    return False


def _run(console: Console, spec: Spec, measurer: Measurer, problem: Input) -> str | None:
    """Run the default on an input and print the result; return why it failed, None if it works."""
    space = ConstrainedSpace.of(spec, problem, measurer.limits, measurer.compiler)
    default = space.canonical(space.default)
    illegal = space.why_illegal(default)
    if illegal is not None:
        print_line(console, f"    ({problem}): illegal: {illegal}")
        return "illegal"
    try:
        found = measurer.measure(space, problem, default, None)
    except HostModuleError as error:
        print_line(console, f"    ({problem}): FAILED: {error}")
        return "host module"
    print_line(console, f"    ({problem}): {_result(found)}")
    return None if found.timing else str(found.outcome)


def _result(found: Measurement) -> str:
    if found.timing is None:
        return f"FAILED, {found.outcome}: {found.message}"
    return f"OK, {format_time(found.time_s)}, verified"


def _advice(spec: Spec, outcomes: list[str]) -> str:
    """Say what may be wrong where the default is wrong on every input."""
    if len(outcomes) < len(spec.inputs) or {*outcomes} != {str(Outcome.WRONG_RESULT)}:
        return ""
    return f": even the default is wrong on every input, so {suspects(spec.program is not None)}"
