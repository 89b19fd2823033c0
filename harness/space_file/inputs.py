"""Select the inputs of a spec by a condition over their features."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from harness.constraints.expression import Expression
from harness.core.errors import ExpressionError, UsageError
from harness.core.records import shown
from harness.core.text import first_few, suggestion
from harness.space_file import Spec

_LISTED = 8  # words of a feature


def select_inputs(spec: Spec, condition: str) -> Spec:
    """Keep the inputs of a spec for which a condition over their features holds.

    Raises UsageError for a condition that cannot be computed or holds for no input.
    """
    try:
        expression = Expression(condition)
        _must_know(expression, spec)
        if expression.is_number or expression.text in spec.features:
            raise UsageError(
                f"--inputs: `{expression.text}` is a value, not a condition; compare it, such as "
                f"`{expression.text} <= 4096`"
            )
        kept = tuple(problem for problem in spec.inputs if expression.holds(problem))
    except ExpressionError as error:
        raise UsageError(f"--inputs: {error}") from None
    if not kept:
        raise UsageError(
            f"--inputs: `{expression.text}` holds for none of the {len(spec.inputs)} inputs; "
            f"there {', '.join(feature_ranges(spec))}"
        )
    return dataclasses.replace(spec, inputs=kept)


def _must_know(expression: Expression, spec: Spec) -> None:
    for name in sorted(expression.names - set(spec.features)):
        hint = suggestion(name, spec.features)
        raise UsageError(f"--inputs: `{name}` is not a feature of {spec.path}; {hint}")


def feature_ranges(spec: Spec) -> Iterator[str]:
    """Describe the range of each feature, such as `m goes from 16 to 65536`, or its words, such as
    `shape is skewed or uniform`."""
    for name in spec.features:
        numbers = [v for problem in spec.inputs if isinstance(v := problem[name], (int, float))]
        if len(numbers) < len(spec.inputs):
            words = sorted({shown(problem[name]) for problem in spec.inputs})
            yield f"{name} is {first_few(words, ' or ', _LISTED)}"
            continue
        one, other = shown(min(numbers)), shown(max(numbers))
        yield f"{name} is {one}" if one == other else f"{name} goes from {one} to {other}"
