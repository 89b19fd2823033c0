"""Tune the inputs of a workload that matter: `--inputs-from FILE --cover SHARE --most-inputs N`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.api.tune_options import COVER
from harness.core.errors import ExpressionError, UsageError
from harness.core.records import Input
from harness.core.text import counted
from harness.results import campaigns, reading, sqlite_path
from harness.results.campaigns import read_runs
from harness.space_file import Spec
from harness.space_file.workload import Workload, read_workload


@dataclass(frozen=True)
class WorkloadChoice:
    """Which inputs of a workload are tuned: the most frequent that make up a share of the calls,
    but at most `most`."""

    path: Path
    cover: float | None = None
    most: int | None = None


def with_inputs_of(
    spec: Spec, choice: WorkloadChoice, database: str, fresh: bool
) -> tuple[Spec, list[str]]:
    """Replace the inputs of a space by those of a workload that are the fewest to make up this
    share of the calls, and those that a database already holds; also say which.

    A choice is learnt only from configurations that were measured on every input, so these are
    measured on the earlier inputs as well.
    """
    workload, refused = _usable(
        read_workload(choice.path, spec.name, spec.features, spec.inputs), spec
    )
    chosen = workload.most_frequent(choice.cover or COVER)[: choice.most]
    stored = [] if fresh else stored_inputs(database, spec)
    taken = set(chosen)
    earlier = [problem for problem in stored if problem not in taken]
    notices = [*refused, *_describe(workload, chosen, earlier)]
    return dataclasses.replace(spec, inputs=(*chosen, *earlier)), notices


def _usable(workload: Workload, spec: Spec) -> tuple[Workload, list[str]]:
    """Leave out inputs on which the default cannot be launched: all others are compared with it.
    Also say so. Raises UsageError where no input is left."""
    reasons = ((problem, _why_not(spec, problem)) for problem in workload.calls)
    refused = {problem: why for problem, why in reasons if why}
    if not refused:
        return workload, []
    problem, why = next(iter(refused.items()))
    if len(refused) == len(workload.calls):
        path = workload.path
        raise UsageError(
            f"{path}: the default does not apply to any input, such as ({problem}): {why}"
        )
    calls = {problem: k for problem, k in workload.calls.items() if problem not in refused}
    left_out = sum(workload.calls.values()) - sum(calls.values())
    notice = (
        f"{counted(len(refused), 'input')} with {left_out / workload.total:.1%} of the calls left "
        f"out, to which the default does not apply, such as ({problem}): {why}"
    )
    # They still count among all calls, of which a share is covered.
    unnamed = workload.unnamed + left_out
    return dataclasses.replace(workload, calls=calls, unnamed=unnamed), [notice]


def _why_not(spec: Spec, problem: Input) -> str:
    """Say why the default cannot be launched on an input, as far as that does not depend on the
    device; empty if it can."""
    values = {p.name: p.default for p in spec.parameters} | dict(problem)
    try:
        for constraint in spec.constraints:
            expression = constraint.expression
            if expression.names <= values.keys() and (why := expression.why_false(values)):
                return why
        group, grid, *_ = spec.launch.sizes if spec.launch else ((), ())
        for size in (*group, *grid):
            if size.names <= values.keys() and size(values) < 1:
                return f"the launch has `{size.text}` = {size(values)}"
    except ExpressionError as error:
        return str(error)
    return ""


def _describe(workload: Workload, chosen: list[Input], earlier: list[Input]) -> Iterator[str]:
    yield from workload.notes
    share = sum(workload.weights(chosen))
    make_up = "makes" if len(chosen) == 1 else "make"
    yield (
        f"{workload.path}: {len(chosen)} of {counted(len(workload.calls), 'input')} {make_up} up "
        f"{share:.1%} of {counted(workload.total, 'call')}; these are tuned"
    )
    if earlier:
        takes = "takes" if len(earlier) == 1 else "take"
        yield f"{counted(len(earlier), 'earlier input')} of the database {takes} part in the choice"


def stored_inputs(database: str, spec: Spec) -> list[Input]:
    """Return the inputs of a space that a database holds, in the order of their searches; none
    where there is no database yet, and none of another version of the kernel."""
    path = sqlite_path(database)
    if path is not None and not path.exists():
        return []
    with reading(database) as engine, engine.connect() as connection:
        found = [
            run.problem
            for campaign in campaigns(connection)
            if (campaign.space_name, campaign.key.program_sha256)
            == (spec.name, spec.program_sha256)
            for run in read_runs(connection, campaign)
        ]
    return [problem for problem in dict.fromkeys(found) if set(problem) == set(spec.features)]
