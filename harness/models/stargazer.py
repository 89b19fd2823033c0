"""Stargazer: a linear model of curves and of their pairwise interactions, grown step by step.

Jia, Shaw, Martonosi, "Stargazer: Automated Regression-Based GPU Design Space Exploration", ISPASS
2012; implemented as their program does it, because Starchart compares itself with it. Each
parameter is a curve: a straight line for two values, else a natural cubic spline with 1, 2 or 3
knots for 3, 4 or more. The curve that explains most comes first; then, one at a time, the one with
the largest adjusted R2, and after each its interactions with those already there, as long as the
adjusted R2 exceeds the R2 so far.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from harness.core.arrays import Array
from harness.core.errors import UsageError
from harness.models.encoding.parts import one_hot
from harness.models.starchart.axes import Axis, axis_of, is_numeric, must_have, numbers

if TYPE_CHECKING:
    import pandas as pd

_MOST_KNOTS = 3
_SYMMETRIC = 0.01  # a parameter whose mean is this close to the middle of its ends is linear
_DEPENDENT = 1e-10  # the squared part that others do not explain counts as none

# ------------------------------------------------------------------------------------ curves


@dataclass(frozen=True)
class Curve:
    """A parameter as the columns of its curve. `knots` includes both ends; without knots, a number
    is a straight line, and each word but the first has a column of its own."""

    axis: Axis
    knots: tuple[float, ...]

    def columns(self, table: pd.DataFrame) -> Array:
        """Compute the columns, shape (rows, columns)."""
        if not self.axis.is_number:
            codes = self.axis.codes(table).astype(np.intp)
            return one_hot(codes, len(self.axis.values))[:, 1:]
        values = numbers(table[self.axis.name])
        low, high = float(self.axis.values[0]), float(self.axis.values[-1])
        # On a scale from 0 to 1, so that cubes do not drown the rest.
        scaled = (values - low) / (high - low or 1.0)
        return natural_spline(scaled, (np.array(self.knots) - low) / (high - low or 1.0))


def natural_spline(values: Array, knots: Array) -> Array:
    """Compute the natural cubic splines over knots, ends included, without the constant: linear
    outside of the ends (Hastie, Tibshirani, Friedman, The Elements of Statistical Learning, 2009,
    equation 5.4). Shape (values, max(1, knots - 1))."""
    if len(knots) == 0:
        return values[:, None]
    cubes = np.maximum(values[:, None] - knots, 0) ** 3
    bent = (cubes[:, :-1] - cubes[:, -1:]) / (knots[-1] - knots[:-1])
    return np.column_stack([values, bent[:, :-1] - bent[:, -1:]])


def _curve(axis: Axis) -> Curve:
    count = len(axis.values)
    if not axis.is_number or count < 3:
        return Curve(axis, ())
    values = np.array(axis.values, dtype=np.float64)
    low, high = values[0], values[-1]
    inner = min(count - 2, _MOST_KNOTS)
    middle = (low + high) / 2
    is_linear = abs(middle - values.mean()) < _SYMMETRIC * abs(middle)
    if is_linear or low <= 0:
        knots = np.linspace(low, high, inner + 2)
    else:
        knots = np.geomspace(low, high, inner + 2)
    return Curve(axis, tuple(knots.tolist()))


# -------------------------------------------------------------------------------------- terms


@dataclass(frozen=True)
class Term:
    """A curve, or the interaction of two: all products of their columns."""

    curves: tuple[Curve, ...]

    def columns(self, table: pd.DataFrame) -> Array:
        """Compute the columns, shape (rows, columns)."""
        first = self.curves[0].columns(table)
        if len(self.curves) == 1:
            return first
        second = self.curves[1].columns(table)
        return (first[:, :, None] * second[:, None, :]).reshape(len(first), -1)

    def __str__(self) -> str:
        return " : ".join(curve.axis.name for curve in self.curves)


# ------------------------------------------------------------------------------------ the model


@dataclass(frozen=True)
class Linear:
    """The model: its terms in the order in which they were added, and the R2 on its own samples
    after each."""

    target: str
    terms: tuple[Term, ...]
    r2: tuple[float, ...]
    coefficients: Array = field(repr=False)

    def predict(self, table: pd.DataFrame) -> pd.Series[float]:
        """Predict the target of each row. Raises UsageError for a missing column or an unknown
        word."""
        import pandas as pd

        must_have(table, [curve.axis.name for term in self.terms for curve in term.curves])
        predicted = _design(self.terms, table) @ self.coefficients
        return pd.Series(predicted, index=table.index, name=self.target)

    def describe(self) -> Iterator[str]:
        """Render the terms, one a line, with the R2 that is reached with each."""
        yield f"{self.target}: linear in natural cubic splines; R2 on its own samples"
        for term, r2 in zip(self.terms, self.r2, strict=True):
            yield f"    + {term}: {r2:.4f}"


def fit_linear(table: pd.DataFrame, target: str, parameters: Sequence[str | Axis]) -> Linear:
    """Grow the model of a table with a row a sample, in which every row has a finite target. Pass
    a parameter as an Axis, from `axes_of` a larger table, if that has words which this table may
    lack.

    Raises UsageError for columns that are missing or cannot be used, and for a constant target.
    """
    axes = [p if isinstance(p, Axis) else axis_of(table, p) for p in parameters]
    curves = [_curve(axis) for axis in axes if len(axis.values) > 1]
    values = _values(table, target)
    if not curves:
        raise UsageError("no parameter has more than one value: nothing to learn from")
    steps = _Steps(values)
    _add_all(steps, curves, table)
    terms = tuple(steps.terms)
    design = _design(terms, table)
    coefficients = np.asarray(np.linalg.lstsq(design, values, rcond=None)[0], dtype=np.float64)
    return Linear(target, terms, tuple(steps.r2), coefficients)


def _values(table: pd.DataFrame, target: str) -> Array:
    must_have(table, [target])
    if not is_numeric(table[target]):
        raise UsageError(f"column {target} must hold numbers, but holds words")
    values = numbers(table[target])
    if not np.isfinite(values).all():
        lacking = int((~np.isfinite(values)).sum())
        raise UsageError(f"{lacking} of {len(values)} rows have no {target}; leave them out")
    if np.ptp(values) == 0:
        raise UsageError(f"column {target} is {values[0]:g} in every row: nothing to learn")
    return values


def _design(terms: Sequence[Term], table: pd.DataFrame) -> Array:
    return np.column_stack([np.ones(len(table)), *(term.columns(table) for term in terms)])


# ---------------------------------------------------------------------------- step by step


@dataclass(eq=False)
class _Candidate:
    """A term that may be added. `columns` are its parts that the first `seen` blocks of the model
    do not explain, so that each further step removes only the newest blocks."""

    term: Term
    columns: Array
    seen: int = 0


class _Steps:
    """The model so far, as blocks of orthonormal columns, and the rest of the target."""

    def __init__(self, values: Array) -> None:
        self.terms: list[Term] = []
        self.r2: list[float] = []
        count = len(values)
        self._blocks: list[Array] = [np.full((count, 1), 1 / np.sqrt(count))]
        self._left = values - values.mean()
        self._total = float(self._left @ self._left)

    @property
    def now(self) -> float:
        """The R2 so far."""
        return self.r2[-1] if self.r2 else 0.0

    def start(self, term: Term, table: pd.DataFrame) -> _Candidate:
        """Prepare a term to try, its columns scaled to length 1."""
        columns = term.columns(table)
        length = np.linalg.norm(columns, axis=0)
        return _Candidate(term, columns[:, length > 0] / length[length > 0])

    def r2_with(self, trial: _Candidate) -> tuple[float, float]:
        """Compute the R2 with a term added, and the adjusted one; minus infinity if it adds
        nothing, or uses up as many columns as there are samples."""
        for block in self._blocks[trial.seen :]:
            trial.columns -= block @ (block.T @ trial.columns)
        trial.seen = len(self._blocks)
        basis = _orthonormal(trial.columns)
        explained = basis.T @ (trial.columns.T @ self._left)
        r2 = self.now + float(explained @ explained) / self._total
        count = len(self._left)
        free = count - sum(block.shape[1] for block in self._blocks) - basis.shape[1]
        if not basis.shape[1] or free <= 0:
            return -np.inf, -np.inf
        return r2, 1 - (1 - r2) * (count - 1) / free

    def add(self, trial: _Candidate, r2: float) -> None:
        """Add a tried term to the model."""
        block = trial.columns @ _orthonormal(trial.columns)
        # Once more, because the subtractions so far have left rounding errors.
        for other in self._blocks:
            block -= other @ (other.T @ block)
        block = block @ _orthonormal(block)
        self._left = self._left - block @ (block.T @ self._left)
        self._blocks.append(block)
        self.terms.append(trial.term)
        self.r2.append(r2)


def _orthonormal(columns: Array) -> Array:
    """Return the matrix that makes columns orthonormal; fewer columns where some depend on
    others."""
    size, vectors = np.linalg.eigh(columns.T @ columns)
    kept = size > _DEPENDENT
    basis: Array = vectors[:, kept] / np.sqrt(size[kept])
    return basis


def _add_all(steps: _Steps, curves: Sequence[Curve], table: pd.DataFrame) -> None:
    unused = [steps.start(Term((curve,)), table) for curve in curves]
    used: list[Curve] = []
    while unused:
        added = _add_best(steps, unused)
        if added is None:
            return
        unused.remove(added)
        chosen = added.term.curves[0]
        pairs = [steps.start(Term((chosen, other)), table) for other in used]
        while pairs and (added := _add_best(steps, pairs)) is not None:
            pairs.remove(added)
        used.append(chosen)


def _add_best(steps: _Steps, trials: Sequence[_Candidate]) -> _Candidate | None:
    """Add the term with the largest adjusted R2, the first of equal ones, unless that is below the
    R2 so far. The very first is always added, chosen by its plain R2."""
    is_first = not steps.terms
    tried = [steps.r2_with(trial) for trial in trials]
    scores = [r2 if is_first else adjusted for r2, adjusted in tried]
    best = int(np.argmax(scores))
    if not is_first and scores[best] < steps.now:
        return None
    steps.add(trials[best], tried[best][0])
    return trials[best]
