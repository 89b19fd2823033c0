"""Numbers and conditions of generated code: their text in C and Python, and their bounds.

A number is refused if its bounds do not prove that C's 64-bit integer or double holds exactly the
value that Python computes.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from harness.core.records import Value
from harness.dispatch.spelling import INT64_MAX, c_real, c_whole

MAX_EXACT = 2**53
"""Every integer up to this is also a double."""

_MOST_REAL = 1e300

Bounds = tuple[float, float]
"""The least and the greatest value, integers of a whole number."""


class Type(Enum):
    """The C type of a generated expression."""

    WHOLE = "int64_t"
    REAL = "double"
    TRUTH = "int"
    WORD = "enum"


@dataclass(frozen=True)
class Formula:
    """An expression in both languages, with the bounds of its value.

    `is_float` says that Python may hold the whole number as a float; both are equal up to 2**53.
    """

    type: Type
    c: str
    python: str
    low: float = 0
    high: float = 1
    is_float: bool = False

    @property
    def is_constant(self) -> bool:
        """Whether this condition always holds, or never."""
        return self.type is Type.TRUTH and self.c in ("0", "1")


TRUE = Formula(Type.TRUTH, "1", "True", 1, 1)
FALSE = Formula(Type.TRUTH, "0", "False", 0, 0)


class Untranslatable(Exception):
    """An expression that cannot be translated exactly; the message is the reason."""


def conjunction(parts: Sequence[Formula]) -> Formula:
    """Join conditions with `and`; TRUE if there are none."""
    if FALSE in parts:
        return FALSE
    return _of_several([part for part in parts if part != TRUE], "&&", "and", TRUE)


def is_guarded(guards: Sequence[Formula]) -> bool:
    """Say whether some condition does not always hold."""
    return any(guard != TRUE for guard in guards)


def disjunction(parts: Sequence[Formula]) -> Formula:
    """Join conditions with `or`; FALSE if there are none."""
    if TRUE in parts:
        return TRUE
    return _of_several([part for part in parts if part != FALSE], "||", "or", FALSE)


def _of_several(parts: Sequence[Formula], c_sign: str, word: str, none: Formula) -> Formula:
    if len(parts) < 2:
        return parts[0] if parts else none
    c = f" {c_sign} ".join(part.c for part in parts)
    python = f" {word} ".join(part.python for part in parts)
    return truth(f"({c})", f"({python})")


def truth(c: str, python: str) -> Formula:
    """Make a condition of its two texts."""
    return {"!1": FALSE, "!0": TRUE}.get(c) or Formula(Type.TRUTH, c, python)


def is_number(made: Formula | str | None) -> bool:
    """Say whether a translation is a number or a condition, which counts as 0 or 1."""
    return isinstance(made, Formula) and made.type is not Type.WORD


def constant(value: Value) -> Formula | str | None:
    """Translate a literal; a whole float is written as an integer, which computes alike."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return TRUE if value else FALSE
    if isinstance(value, int):
        return whole_constant(value, is_float=False)
    if not math.isfinite(value):
        raise Untranslatable(f"it has the constant {value}")
    if value == int(value) and abs(value) <= MAX_EXACT:
        return whole_constant(int(value), is_float=True)
    return bounded(Type.REAL, c_real(value), _python_literal(value), (value, value))


def whole_constant(value: int, is_float: bool) -> Formula:
    """Translate a whole number."""
    if abs(value) > INT64_MAX:
        raise Untranslatable(f"{value} does not fit 64 bits")
    text = _python_literal(value)
    return bounded(Type.WHOLE, c_whole(value), text, (value, value), is_float)


def _python_literal(value: float) -> str:
    return f"({value!r})" if value < 0 else repr(value)


def bounded(type_: Type, c: str, python: str, bounds: Bounds, is_float: bool = False) -> Formula:
    """Make a number, refused if its bounds do not prove that both languages hold it alike."""
    low, high = bounds
    if type_ is Type.WHOLE:
        most = MAX_EXACT if is_float else INT64_MAX
        if low < -most or high > most:
            raise Untranslatable(f"{python} may reach {max(-low, high):.3g}, beyond {most}")
    elif not (low >= -_MOST_REAL and high <= _MOST_REAL):
        raise Untranslatable(f"{python} may reach {max(-low, high):.3g}")
    return Formula(type_, c, python, low, high, is_float)


def real(made: Formula) -> str:
    """Convert a number to a double in C."""
    if made.type is Type.REAL:
        return made.c
    if made.low < -MAX_EXACT or made.high > MAX_EXACT:
        raise Untranslatable(f"{made.python} may exceed 2**53, and is computed as a double")
    return c_real(made.low) if made.low == made.high else f"(double){made.c}"


def in_one_type(operands: Sequence[Formula]) -> tuple[Type, list[str], bool]:
    """Return the type that numbers are computed in together, their C texts in it, and whether
    Python may hold the result as a float."""
    if all(operand.type is Type.WHOLE for operand in operands):
        return Type.WHOLE, [o.c for o in operands], any(o.is_float for o in operands)
    return Type.REAL, [real(operand) for operand in operands], True


def negated(operand: Formula) -> Formula:
    """Negate a number."""
    bounds = (-operand.high, -operand.low)
    texts = f"(-{operand.c})", f"(-{operand.python})"
    return bounded(operand.type, *texts, bounds, operand.is_float)


def divided(left: Formula, right: Formula) -> Formula:
    """Divide two numbers as reals."""
    _check_not_zero(right)
    bounds = corners(operator.truediv, left, right)
    c = f"({real(left)} / {real(right)})"
    return bounded(Type.REAL, c, f"({left.python} / {right.python})", bounds)


def check_whole_division(left: Formula, right: Formula) -> None:
    """Refuse a whole-number division of fractions, or by what may be zero."""
    if left.type is not Type.WHOLE or right.type is not Type.WHOLE:
        raise Untranslatable("//, % and ceil_div are exact only for whole numbers")
    _check_not_zero(right)


def _check_not_zero(divisor: Formula) -> None:
    if divisor.low <= 0 <= divisor.high:
        raise Untranslatable(f"it may divide by zero, since {divisor.python} may be 0")


def corners(apply: Callable[[float, float], float], left: Formula, right: Formula) -> Bounds:
    """Compute the bounds of a function that is monotonic in each operand, from its corners."""
    ends = itertools.product((left.low, left.high), (right.low, right.high))
    values = [apply(a, b) for a, b in ends]
    return min(values), max(values)
