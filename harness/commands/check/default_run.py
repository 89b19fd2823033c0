"""Run the default of a space once on each input, and verify it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import closing

from rich.console import Console

from harness.analysis.failures import headline, suspects
from harness.core.errors import BackendUnavailable, HostModuleError
from harness.core.records import Input, Outcome
from harness.core.text import counted, format_time
from harness.display.text import print_line
from harness.measure.choose import fitted_to, open_measurer
from harness.measure.measurer import Measurer
from harness.space import ConstrainedSpace
from harness.space_file import Spec

_RUNS = {"repeats": 2, "min_repeats": 2, "energy": False}


def run_default(console: Console, spec: Spec, backend: str, devices: Sequence[str] = ()) -> bool:
    """Run and verify the default on each input; print how it ended, and return whether it works on
    all of them."""
    try:
        measurer, _ = open_measurer(spec.with_measure(_RUNS), backend, devices=devices)
    except BackendUnavailable as error:
        print_line(console, f"  default not run: {error}")
        return False
    with closing(measurer):
        spec = fitted_to(spec, measurer)
        print_line(console, f"  default on {measurer.environment}:")
        try:
            failed = _run_all(console, spec, measurer)
        except BackendUnavailable as error:
            print_line(console, f"    not run: {error}")
            return False
    if not failed:
        return True
    inputs = f"{len(failed)} of {counted(len(spec.inputs), 'input')}"
    outcomes = [outcome for outcome, _ in failed]
    print_line(console, f"  default FAILED on {inputs}{_advice(spec, outcomes)}")
    return False


def _run_all(console: Console, spec: Spec, measurer: Measurer) -> list[tuple[str, str]]:
    """Run the default on each input and print the results, a reason that repeats itself once;
    return the outcome and the reason of each failure."""
    failed = list[tuple[str, str]]()
    for problem in spec.inputs:
        known = len(measurer.notices)
        found = _run(spec, measurer, problem)
        if isinstance(found, str):
            print_line(console, f"    ({problem}): {found}")
            for text in measurer.notices[known:]:
                print_line(console, f"    warning: {text}")
            continue
        # A host module's fault names the input as well.
        failure = found[0], found[1].replace(f" on the input ({problem})", "")
        if failure not in failed:
            print_line(console, f"    ({problem}): FAILED, {failure[0]}: {failure[1]}")
        failed.append(failure)
    reasons = Counter(failed)
    for (outcome, reason), count in reasons.items():
        if count > 1:
            others = counted(count - 1, "other input")
            again = "the same" if len(reasons) == 1 else f"FAILED, {outcome}: {headline(reason)}"
            print_line(console, f"    {others}: {again}")
    return failed


def _run(spec: Spec, measurer: Measurer, problem: Input) -> str | tuple[str, str]:
    """Run the default on an input; return its result, or the outcome and the reason of a
    failure."""
    space = ConstrainedSpace.of(spec, problem, measurer.limits, measurer.compiler)
    default = space.canonical(space.default)
    illegal = space.why_illegal(default)
    if illegal is not None:
        return "illegal", illegal
    try:
        found = measurer.measure(space, problem, default, None)
    except HostModuleError as error:
        return "host module", str(error)
    if found.timing is None:
        return str(found.outcome), found.message
    return f"OK, {format_time(found.time_s)}, verified"


def _advice(spec: Spec, outcomes: list[str]) -> str:
    """Say what may be wrong where the default is wrong on every input."""
    if len(outcomes) < len(spec.inputs) or {*outcomes} != {str(Outcome.WRONG_RESULT)}:
        return ""
    return f": even the default is wrong on every input, so {suspects(spec.program is not None)}"
