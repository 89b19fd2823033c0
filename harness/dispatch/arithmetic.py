"""Arithmetic of generated code: operators and functions that C and Python compute alike.

Each is exact in both languages within the bounds of its operands, or refused.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from harness.dispatch.formulas import (
    Formula,
    Type,
    Untranslatable,
    bounded,
    check_whole_division,
    corners,
    divided,
    in_one_type,
    negated,
    real,
)
from harness.dispatch.spelling import INT64_MAX

_MOST_POWER = 64

_ARITHMETIC: Mapping[type[ast.operator], tuple[str, Callable[[float, float], float]]] = {
    ast.Add: ("+", operator.add),
    ast.Sub: ("-", operator.sub),
    ast.Mult: ("*", operator.mul),
}


@dataclass(frozen=True)
class Arithmetic:
    """Translates operators and functions; the names of C helpers begin with `prefix`."""

    prefix: str

    def binary(self, op: type[ast.operator], left: Formula, right: Formula) -> Formula:
        """Apply an operator other than ** to two numbers."""
        if op is ast.Div:
            return divided(left, right)
        if op is ast.FloorDiv:
            return self._floor_divided(left, right)
        if op is ast.Mod:
            return self._remainder(left, right)
        return self._computed(op, left, right)

    def _computed(self, op: type[ast.operator], left: Formula, right: Formula) -> Formula:
        sign, apply = _ARITHMETIC[op]
        bounds = corners(apply, left, right)
        python = f"({left.python} {sign} {right.python})"
        type_, (c_left, c_right), is_float = in_one_type((left, right))
        c = f"({c_left} {sign} {c_right})"
        # Otherwise a compiler may fuse the product with a following sum and round only once.
        if type_ is Type.REAL and op is ast.Mult:
            c = f"{self.prefix}_rounded{c}"
        return bounded(type_, c, python, bounds, is_float)

    def power(self, base: Formula, exponent: int) -> Formula:
        """Raise a whole number to a constant power."""
        if base.type is not Type.WHOLE or base.is_float or not 1 <= exponent <= _MOST_POWER:
            raise Untranslatable(
                "only powers of whole numbers, to a constant of 1 or more, are exact"
            )
        power = base
        for _ in range(exponent - 1):
            power = self._computed(ast.Mult, power, base)
        low = 0 if exponent % 2 == 0 and base.low <= 0 <= base.high else power.low
        return bounded(Type.WHOLE, power.c, power.python, (low, power.high))

    def _floor_divided(self, left: Formula, right: Formula) -> Formula:
        check_whole_division(left, right)
        bounds = corners(operator.floordiv, left, right)
        c = self._by_sign("floor_div", "/", left, right)
        python = f"({left.python} // {right.python})"
        return bounded(Type.WHOLE, c, python, bounds, left.is_float or right.is_float)

    def _remainder(self, left: Formula, right: Formula) -> Formula:
        check_whole_division(left, right)
        c = self._by_sign("modulo", "%", left, right)
        python = f"({left.python} % {right.python})"
        bounds = (0, right.high - 1) if right.low > 0 else (right.low + 1, 0)
        return bounded(Type.WHOLE, c, python, bounds, left.is_float or right.is_float)

    def _by_sign(self, helper: str, sign: str, left: Formula, right: Formula) -> str:
        """Use C's operator, which rounds towards zero, where no operand is negative; else a helper
        that rounds down as Python does."""
        if left.low >= 0 and right.low > 0:
            return f"({left.c} {sign} {right.c})"
        return f"{self.prefix}_{helper}({left.c}, {right.c})"

    def called(self, name: str, operands: Sequence[Formula]) -> Formula:
        """Apply a function to numbers."""
        if name in ("min", "max"):
            return self._extreme(name, operands)
        if name == "ceil_div":
            floor = self._floor_divided(negated(operands[0]), operands[1])
            return self._ceil_divided(operands[0], operands[1], negated(floor))
        (operand,) = operands
        if name == "abs":
            return self._absolute(operand)
        if name in ("ceil", "floor"):
            return self._rounded(name, operand)
        if name == "sqrt":
            if operand.low < 0:
                raise Untranslatable("the operand of sqrt may be negative")
            bounds = (math.sqrt(operand.low), math.sqrt(operand.high))
            python = f"math.sqrt({operand.python})"
            return bounded(Type.REAL, f"sqrt({real(operand)})", python, bounds)
        raise Untranslatable(f"{name} of a feature differs between mathematical libraries")

    def _ceil_divided(self, left: Formula, right: Formula, made: Formula) -> Formula:
        """Write a division without minus signs where nothing is negative: it reads better."""
        if left.low < 0 or right.low <= 0 or left.high + right.high > INT64_MAX:
            return made
        c = f"(({left.c} + {right.c} - 1) / {right.c})"
        return bounded(Type.WHOLE, c, made.python, (made.low, made.high), made.is_float)

    def _extreme(self, name: str, operands: Sequence[Formula]) -> Formula:
        pick = min if name == "min" else max
        bounds = (pick(o.low for o in operands), pick(o.high for o in operands))
        python = f"{name}({', '.join(o.python for o in operands)})"
        type_, texts, is_float = in_one_type(operands)
        kind = "whole" if type_ is Type.WHOLE else "real"
        c = texts[0]
        for text in texts[1:]:
            c = f"{self.prefix}_{name}_{kind}({c}, {text})"
        return bounded(type_, c, python, bounds, is_float)

    def _absolute(self, operand: Formula) -> Formula:
        ends = (abs(operand.low), abs(operand.high))
        low = 0 if operand.low <= 0 <= operand.high else min(ends)
        kind = "whole" if operand.type is Type.WHOLE else "real"
        c = f"{self.prefix}_abs_{kind}({operand.c})"
        python = f"abs({operand.python})"
        return bounded(operand.type, c, python, (low, max(ends)), operand.is_float)

    def _rounded(self, name: str, operand: Formula) -> Formula:
        if operand.type is Type.WHOLE:
            return operand
        apply = math.ceil if name == "ceil" else math.floor
        c, python = f"{self.prefix}_{name}({operand.c})", f"math.{name}({operand.python})"
        bounds = (apply(operand.low), apply(operand.high))
        return bounded(Type.WHOLE, c, python, bounds, is_float=True)
