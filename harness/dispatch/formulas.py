"""Numbers and conditions of generated code: their text in C and Python.

C computes numbers as doubles: these hold every integer up to 2**53, and nothing overflows. Python
has its unbounded integers. A number without a value, such as a division by zero, is NaN in both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from harness.core.records import Value
from harness.dispatch.spelling import c_real

_MAX_EXACT = 2**53  # every integer up to this is also a double


class Type(Enum):
    """The type of a generated expression; features have it in C."""

    WHOLE = "int64_t"
    REAL = "double"
    TRUTH = "int"
    WORD = "enum"


@dataclass(frozen=True)
class Formula:
    """An expression in both languages; `can_lack` says that a number may be NaN."""

    type: Type
    c: str
    python: str
    can_lack: bool = False

    @property
    def is_constant(self) -> bool:
        """Whether this condition always holds, or never."""
        return self.type is Type.TRUTH and self.c in ("0", "1")


TRUE = Formula(Type.TRUTH, "1", "True")
FALSE = Formula(Type.TRUTH, "0", "False")


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
    if not math.isfinite(value):
        raise Untranslatable(f"it has the constant {value}")
    is_whole = value == int(value) and abs(value) <= _MAX_EXACT
    if not is_whole and isinstance(value, int):
        raise Untranslatable(f"it has the constant {value}, beyond {_MAX_EXACT}")
    number = int(value) if is_whole else value
    python = f"({number!r})" if number < 0 else repr(number)
    return Formula(Type.WHOLE if is_whole else Type.REAL, c_real(number), python)


def negated(operand: Formula) -> Formula:
    """Negate a number."""
    return Formula(operand.type, f"(-{operand.c})", f"(-{operand.python})", operand.can_lack)
