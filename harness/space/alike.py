"""The spaces of many inputs: one for all inputs that have the same legal configurations."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.constraints.expression import Expression
from harness.constraints.solver.tables import is_number
from harness.core.records import DeviceLimits, Input, Value
from harness.space.constrained import ConstrainedSpace
from harness.space.judge import Judge
from harness.space_file import Spec

_MAX_ENTRIES = 1 << 22
"""Entries of the truth tables that are computed at once."""

Row = tuple[Value, ...]


@dataclass(frozen=True)
class AlikeInputs:
    """Inputs with the same legal configurations, and the space of the first of them."""

    space: ConstrainedSpace
    inputs: Sequence[Input]


class InputSpaces:
    """The spaces of a spec's inputs within the limits of a device, if known.

    Two inputs are alike where every constraint holds for the same configurations.
    """

    def __init__(
        self, spec: Spec, limits: DeviceLimits | None = None, compiler: str | None = None
    ) -> None:
        self._spec, self._limits, self._compiler = spec, limits, compiler
        self._spaces: dict[Input, ConstrainedSpace] = {}
        self.first = self._space(spec.inputs[0])

    def __iter__(self) -> Iterator[AlikeInputs]:
        """Yield the inputs group by group, in the order of the first of each."""
        for group in self._groups:
            yield AlikeInputs(self._space(group[0]), group)

    def _space(self, problem: Input) -> ConstrainedSpace:
        if problem not in self._spaces:
            made = ConstrainedSpace.of(self._spec, problem, self._limits, self._compiler)
            self._spaces[problem] = made
        return self._spaces[problem]

    @cached_property
    def _groups(self) -> list[list[Input]]:
        features = set(self._spec.features)
        named = [c for c in self.first.judge.all_constraints if c.names & features]
        if not named:
            return [list(self._spec.inputs)]
        keys = map(self._keys, named)
        groups: dict[Hashable, list[Input]] = {}
        for problem, key in zip(self._spec.inputs, zip(*keys, strict=True), strict=True):
            groups.setdefault(key, []).append(problem)
        return list(groups.values())

    def _keys(self, constraint: Expression) -> Iterator[Hashable]:
        """Yield a key of each input; inputs with equal keys have equal truth tables."""
        names = [name for name in self._spec.features if name in constraint.names]
        rows = [tuple(problem[name] for name in names) for problem in self._spec.inputs]
        distinct = list(dict.fromkeys(rows))
        keys = _truth_keys(self.first.judge, constraint, names, distinct)
        return (keys[row] for row in rows)


def _truth_keys(
    judge: Judge, constraint: Expression, names: Sequence[str], rows: Sequence[Row]
) -> Mapping[Row, Hashable]:
    """Return for each row of the features' values the truth table of a constraint as bytes, or the
    row itself where arrays cannot compute the table."""
    combinations = judge.combinations(constraint)
    columns = list(map(_column, zip(*rows, strict=True)))
    if combinations > _MAX_ENTRIES or any(column is None for column in columns):
        return {row: row for row in rows}
    size, keys = _MAX_ENTRIES // combinations, dict[Row, Hashable]()
    for start in range(0, len(rows), size):
        part = slice(start, start + size)
        values = {n: c[part] for n, c in zip(names, columns, strict=True) if c is not None}
        tables = judge.truth_rows(constraint, values)
        packed = None if tables is None else np.packbits(tables, axis=1)
        of_part = rows[part] if packed is None else [row.tobytes() for row in packed]
        keys |= zip(rows[part], of_part, strict=True)
    return keys


def _column(values: Sequence[Value]) -> npt.NDArray[Any] | None:
    """Return the values as an array; None where it would change some."""
    is_one_type = len(set(map(type, values))) == 1
    return np.array(values) if is_one_type and all(map(is_number, values)) else None
