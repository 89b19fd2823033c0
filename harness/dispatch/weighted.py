"""Weigh the inputs of a matrix by how often a program calls with them.

A call in the tuned range whose input was not measured counts for the nearest input that was. A call
outside of it counts for none: there a dispatcher chooses the best single configuration, whose time
on such an input is not known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from harness.core.arrays import Array, Flags
from harness.core.errors import UsageError
from harness.core.records import Input, shown
from harness.core.text import counted, first_few
from harness.dispatch.learners import Nearest
from harness.dispatch.matrix import Matrix
from harness.models.columns import TunedRange, tuned_range
from harness.space_file.workload import Workload


@dataclass(frozen=True)
class Coverage:
    """How much of a workload the tuned range covers, and how far the rest is from it.

    `measured`, `near` and `outside` are the shares of all calls with inputs that were measured,
    that lie between measured ones, and that lie outside of the tuned range. `beyond` says for each
    feature how far; `places` says where each input lies.
    """

    workload: Workload
    measured: float
    near: float
    outside: float
    beyond: Sequence[str]
    places: Mapping[Input, str]

    @property
    def lines(self) -> Iterator[str]:
        """Describe the coverage."""
        workload = self.workload
        calls = f"{counted(workload.total, 'call')} with {counted(len(workload.calls), 'input')}"
        yield (
            f"Weighted by {calls} ({workload.path}): {self.measured:.0%} with inputs that were "
            f"measured, {self.near:.0%} with others in the tuned range, which count for the "
            f"nearest that was measured."
        )
        yield f"{self.outside:.0%} of the calls were outside of the tuned range" + (
            f", and count for nothing here: {'; '.join(self.beyond)}." if self.beyond else "."
        )
        yield from workload.notes


def weigh(matrix: Matrix, workload: Workload) -> tuple[Matrix, Coverage]:
    """Weigh the inputs of a matrix by the calls of a workload, and say how much these cover. Inputs
    that cannot be judged are left out: their calls count for others.

    Raises UsageError where no call lies in the tuned range, and where no input can be judged.
    """
    import pandas as pd  # here: it takes time to load

    matrix = matrix.comparable()
    if matrix.features.empty:
        raise UsageError(
            f"no configuration was measured on every input, so no call of {workload.path} counts; "
            f"tune with --inputs-from {workload.path}"
        )
    names = [str(name) for name in matrix.features.columns]
    problems = list(workload.calls)
    calls = np.array([workload.calls[problem] for problem in problems], dtype=np.float64)
    inside = np.ones(len(problems), dtype=bool)
    beyond = []
    for tuned in tuned_range(matrix.features):
        is_in = np.array([tuned.holds(problem[tuned.feature]) for problem in problems])
        if not is_in.all():
            beyond.append(_beyond(tuned, problems, calls, is_in, workload.total))
        inside &= is_in
    if not inside.any():
        raise UsageError(
            f"none of the {workload.total:,} calls of {workload.path} lies in the tuned range: "
            f"{'; '.join(beyond)}. Tune with --inputs-from {workload.path}"
        )
    rows = {row: index for index, row in enumerate(matrix.features.itertuples(False, None))}
    exact = np.array([tuple(problem[name] for name in names) in rows for problem in problems])
    weights = np.zeros(len(matrix.features))
    called = pd.DataFrame([dict(problem) for problem in problems], columns=names)[inside]
    nearest = Nearest().fit(matrix, seed=0).nearest(called)
    np.add.at(weights, nearest, calls[inside])
    where = "outside of the tuned range", "measured"
    places = np.select([~inside, exact], where, default="in the tuned range")
    covered, total = float(calls[inside].sum()), workload.total
    measured = float(calls[inside & exact].sum())
    coverage = Coverage(
        workload,
        measured / total,
        (covered - measured) / total,
        (total - covered) / total,
        beyond,
        dict(zip(problems, places.tolist(), strict=True)),
    )
    note = "\n".join(filter(None, [matrix.note, *coverage.lines]))
    return replace(matrix, weights=weights / weights.mean(), note=note), coverage


def _beyond(
    tuned: TunedRange, problems: Sequence[Input], calls: Array, is_in: Flags, total: int
) -> str:
    """Say how many calls lie outside of the range of a feature, and how far."""
    values = [problem[tuned.feature] for problem in problems]
    outside = [value for value, fits in zip(values, is_in, strict=True) if not fits]
    share = f"{float(calls[~is_in].sum()) / total:.0%}"
    if tuned.words:
        words = first_few(dict.fromkeys(map(shown, outside)), ", ")
        return f"{share} with {tuned.feature} = {words}"
    numbers = [value for value in outside if isinstance(value, (int, float))]
    ends = []
    if min(numbers) < tuned.low:
        ends.append(f"down to {shown(min(numbers))} (tuned from {tuned.low:.15g})")
    if max(numbers) > tuned.high:
        ends.append(f"up to {shown(max(numbers))} (tuned to {tuned.high:.15g})")
    return f"{share} with {tuned.feature} {' and '.join(ends)}"
