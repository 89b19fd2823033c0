"""Inputs: which of them are tuned, and how alike they are."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from harness.errors import ExpressionError, UsageError
from harness.expression import Expression
from harness.records import Input, Value, shown
from harness.spec import Spec

Array = npt.NDArray[np.float64]

_LISTED = 8
_EQUAL = 1e-9  # a deviation that is none but for rounding


def select_inputs(spec: Spec, condition: str) -> Spec:
    """The spec with those of its inputs for which a condition over their features holds.

    Raises UsageError for a condition that cannot be computed, or that holds for none.
    """
    try:
        expression = Expression(condition)
        _must_know(expression, spec)
        if expression.is_number or expression.text in spec.features:
            raise UsageError(
                f"--inputs: `{expression.text}` is a value, not a condition; compare it, such as "
                f"`{expression.text} <= 4096`"
            )
        kept = tuple(given for given in spec.inputs if expression.holds(given))
    except ExpressionError as error:
        raise UsageError(f"--inputs: {error}") from None
    if not kept:
        raise UsageError(
            f"--inputs: `{expression.text}` holds for none of the {len(spec.inputs)} inputs of "
            f"{spec.path}; there {', '.join(_ranges(spec))}"
        )
    return dataclasses.replace(spec, inputs=kept)


def _must_know(expression: Expression, spec: Spec) -> None:
    for name in sorted(expression.names - set(spec.features)):
        near = difflib.get_close_matches(name, spec.features, 1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(spec.features)}"
        raise UsageError(f"--inputs: `{name}` is not a feature of {spec.path}; {hint}")


def _ranges(spec: Spec) -> Iterator[str]:
    """What each feature reaches over, such as `m goes from 16 to 65536`, or its words."""
    for name in spec.features:
        numbers = [v for given in spec.inputs if isinstance(v := given[name], (int, float))]
        if len(numbers) < len(spec.inputs):
            words = sorted({shown(given[name]) for given in spec.inputs})
            yield f"{name} is {', '.join(words[:_LISTED])}{', ...' * (len(words) > _LISTED)}"
            continue
        one, other = shown(min(numbers)), shown(max(numbers))
        yield f"{name} is {one}" if one == other else f"{name} goes from {one} to {other}"


def nearest_first(given: Input, others: Sequence[Input]) -> list[Input]:
    """Other inputs, the most alike first: by the distance of their rows (`feature_rows`)."""
    rows = feature_rows([given, *others])
    apart = np.square(rows[1:] - rows[0]).sum(axis=1)
    return [others[place] for place in np.argsort(apart, kind="stable")]


def feature_rows(inputs: Sequence[Input]) -> Array:
    """The features of inputs as numbers, shape (inputs, columns).

    Sizes stand by their logarithms; words, which are only equal or not, have a column each. Every
    feature has a deviation of 1 over these inputs; one that is the same for all has no column.
    """
    columns = [_columns([given[name] for given in inputs]) for name in inputs[0]]
    spreads = [float(np.sqrt(column.var(axis=0).sum())) for column in columns]
    told = [c / spread for c, spread in zip(columns, spreads, strict=True) if spread > _EQUAL]
    return np.hstack([np.empty((len(inputs), 0)), *told])


def _columns(values: Sequence[Value]) -> Array:
    """A feature's values as numbers, shape (values, columns)."""
    numbers = [float(value) for value in values if isinstance(value, (int, float))]
    if len(numbers) < len(values):
        words = dict.fromkeys(values)
        return np.array([[value == word for word in words] for value in values], dtype=np.float64)
    column = np.array(numbers)[:, None]
    return np.log2(column) if (column > 0).all() else column
