"""Translate guards and launch sizes to C with the space's meaning.

`harness.constraints.expression` computes with doubles, which hold whole numbers up to 2**53, and
with NaN where a number has no value. C does the same; the Python module computes with unbounded
integers. `check_exact` tells whether both agree for some inputs.
"""

from __future__ import annotations

import ast
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.constraints import expression as language
from harness.constraints.arithmetic import MAX_EXACT
from harness.constraints.expression import Expression
from harness.core.errors import ExpressionError
from harness.core.records import Value
from harness.dispatch.features import Feature, Type, c_real

if TYPE_CHECKING:
    import pandas as pd

_MOST_POWER = 64


@dataclass(frozen=True)
class Formula:
    """An expression in C."""

    type: Type
    c: str


TRUE = Formula(Type.TRUTH, "1")
FALSE = Formula(Type.TRUTH, "0")


class _Untranslatable(Exception):
    """An expression that cannot be translated exactly; the message is the reason."""


def conjunction(parts: Sequence[Formula]) -> Formula:
    """Join conditions with `and`; TRUE if there are none."""
    return _joined(parts, " && ", TRUE, FALSE)


def _joined(parts: Sequence[Formula], sign: str, neutral: Formula, decisive: Formula) -> Formula:
    left = [part for part in parts if part != neutral]
    if decisive in left or len(left) < 2:
        return decisive if decisive in left else [*left, neutral][0]
    return _truth(f"({sign.join(part.c for part in left)})")


def _negation(condition: Formula) -> Formula:
    opposite = {TRUE: FALSE, FALSE: TRUE}
    return opposite.get(condition) or _truth(f"!{condition.c}")


def _truth(c: str) -> Formula:
    return Formula(Type.TRUTH, c)


def _constant(value: Value) -> Formula | str | None:
    """Translate a literal; a whole float is written as an integer, which computes alike."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return TRUE if value else FALSE
    if not math.isfinite(value):
        raise _Untranslatable(f"it has the constant {value}")
    is_whole = value == int(value) and abs(value) <= MAX_EXACT
    if not is_whole and isinstance(value, int):
        raise _Untranslatable(f"it has the constant {value}, beyond {MAX_EXACT}")
    return Formula(Type.WHOLE if is_whole else Type.REAL, c_real(value))


def check_exact(
    texts: Iterable[str], constants: Mapping[str, Value], features: pd.DataFrame
) -> None:
    """Raise ExpressionError where a part of an expression exceeds 2**53 on some input: Python
    would compute it exactly, C not."""
    words = [name for name in features if features[name].dtype.kind not in "iuf"]
    parts = [part for _, part in features.groupby(words)] if words else [features]
    for part, text in itertools.product(parts, texts):
        numbers = {
            str(name): part[name].iloc[0] if name in words else part[name].to_numpy()
            for name in part
        }
        if any(_exceeds(node, {**constants, **numbers}) for node in _nodes(Expression(text).tree)):
            raise ExpressionError(f"`{text}` cannot be computed: a number in it is too large")


def _nodes(node: ast.expr) -> Iterator[ast.expr]:
    yield node
    for operand in language.operands_of(node):
        yield from _nodes(operand)


def _exceeds(node: ast.expr, values: Mapping[str, Any]) -> bool:
    try:
        values_of_node = np.asarray(language.evaluate(node, values))
    except ExpressionError:  # of an alternative that is not needed, or found when it is written
        return False
    return values_of_node.dtype.kind in "iuf" and bool((abs(values_of_node) > MAX_EXACT).any())


@dataclass(frozen=True)
class Translator:
    """Translates expressions, given constants and the features; `prefix` begins the names of the
    helpers that the C code calls."""

    constants: Mapping[str, Value]
    features: Mapping[str, Feature]
    prefix: str

    def condition(self, text: str) -> Formula:
        """Translate an expression to a condition; raises ExpressionError if it cannot be exact."""
        return self._translated(text, self._truth)

    def number(self, text: str) -> Formula:
        """Translate an expression to a number, WHOLE or REAL; raises ExpressionError if it cannot
        be exact."""
        return self._translated(text, self._number)

    def _translated(self, text: str, wanted: Callable[[ast.expr], Formula]) -> Formula:
        parsed = Expression(text)
        unknown = [n for n in parsed.names_in_order if n not in {**self.features, **self.constants}]
        if unknown:
            known = ", ".join((*self.features, *self.constants))
            raise ExpressionError(
                f"`{text}` names {unknown[0]}, which is not a feature or a parameter; "
                f"there are {known}"
            )
        try:
            return wanted(parsed.tree)
        except _Untranslatable as reason:
            raise ExpressionError(f"`{text}` cannot be written as exact code: {reason}") from None

    def _number(self, node: ast.expr) -> Formula:
        """Translate a node to a number."""
        made = self._of(node)
        if isinstance(made, Formula):
            if made.type is Type.TRUTH:
                return Formula(Type.WHOLE, f"(double)({made.c})")
            if made.type is not Type.WORD:
                return made
        raise _Untranslatable("a text can be compared, not calculated with")

    def _truth(self, node: ast.expr) -> Formula:
        """Translate a node to a condition."""
        made = self._of(node)
        if not isinstance(made, Formula):
            return TRUE if made else FALSE
        if made.type is Type.TRUTH:
            return made
        if made.type is Type.WORD:
            raise _Untranslatable("a text is not a condition")
        return _truth(f"({self.prefix}_abs({made.c}) > 0)")  # NaN is false

    def _of(self, node: ast.expr) -> Formula | str | None:
        """Translate a node to a formula, or to a constant that is a text or absent."""
        if not self._varies(node):
            return _constant(self._evaluated(node))
        match node:
            case ast.Name():
                return self._feature(node.id)
            case ast.BinOp(op=ast.Pow()):
                return self._power(self._number(node.left), node.right)
            case ast.BinOp():
                left, right = self._number(node.left), self._number(node.right)
                if type(node.op) in _DIVISIONS:
                    return self._divided(_DIVISIONS[type(node.op)], left, right)
                return self._computed(_SIGNS[type(node.op)], left, right)
            case ast.UnaryOp(op=ast.Not()):
                made = self._of(node.operand)
                if isinstance(made, Formula) and made.type in (Type.WHOLE, Type.REAL):
                    return _truth(f"({made.c} == 0)")
                return _negation(self._truth(node.operand))
            case ast.UnaryOp():
                operand = self._number(node.operand)
                is_plus = isinstance(node.op, ast.UAdd)
                return operand if is_plus else Formula(operand.type, f"(-{operand.c})")
            case ast.BoolOp(op=ast.And()):
                return conjunction(list(map(self._truth, node.values)))
            case ast.BoolOp():
                return _joined(list(map(self._truth, node.values)), " || ", FALSE, TRUE)
            case ast.IfExp():
                return self._chosen(node)
            case ast.Compare(ops=[ast.In() | ast.NotIn() as op]):
                listed = language.operands_of(node)[1:]
                equal = [self._relation("==", node.left, element) for element in listed]
                joined = _joined(equal, " || ", FALSE, TRUE)
                return joined if isinstance(op, ast.In) else _negation(joined)
            case ast.Compare():
                pairs = itertools.pairwise([node.left, *node.comparators])
                signs = (_RELATIONS[type(op)] for op in node.ops)
                return conjunction(
                    [self._relation(s, *p) for s, p in zip(signs, pairs, strict=True)]
                )
            case ast.Call(func=ast.Name(id=name)):
                return self._called(name, list(map(self._number, node.args)))
        raise AssertionError(ast.dump(node))

    def _varies(self, node: ast.expr) -> bool:
        names = (part.id for part in ast.walk(node) if isinstance(part, ast.Name))
        return any(name in self.features for name in names)

    def _evaluated(self, node: ast.expr) -> Value:
        try:
            value: Value = language.evaluate(node, self.constants)
        except ExpressionError as error:
            raise _Untranslatable(str(error)) from None
        return value

    def _feature(self, name: str) -> Formula:
        named = self.features[name]
        if named.type is Type.WORD:
            return Formula(Type.WORD, name)
        c = f"(double){named.variable}" if named.type is Type.WHOLE else named.variable
        return Formula(named.type, c)

    # ------------------------------------------------------------------------- arithmetic

    def _computed(self, sign: str, left: Formula, right: Formula) -> Formula:
        type_ = _common((left, right))
        c = f"({left.c} {sign} {right.c})"
        # Otherwise a compiler may fuse the product with a following sum and round only once.
        if type_ is Type.REAL and sign == "*":
            c = f"{self.prefix}_rounded{c}"
        return Formula(type_, c)

    def _power(self, base: Formula, exponent: ast.expr) -> Formula:
        """Raise a whole number to a constant power."""
        count = 0 if self._varies(exponent) else self._evaluated(exponent)
        if base.type is not Type.WHOLE or type(count) is not int or not 1 <= count <= _MOST_POWER:
            raise _Untranslatable(
                "only powers of whole numbers, to a constant of 1 or more, are exact"
            )
        power = base
        for _ in range(count - 1):
            power = self._computed("*", power, base)
        return power

    def _divided(self, helper: str, left: Formula, right: Formula) -> Formula:
        """Divide, and round with a helper; a division by zero is NaN."""
        if helper and _common((left, right)) is not Type.WHOLE:
            raise _Untranslatable("//, % and ceil_div are exact only for whole numbers")
        if helper == "modulo":
            return Formula(Type.WHOLE, f"{self.prefix}_modulo({left.c}, {right.c})")
        ratio = f"{self.prefix}_divided({left.c}, {right.c})"
        if not helper:
            return Formula(Type.REAL, ratio)
        return Formula(Type.WHOLE, f"{self.prefix}_{helper}({ratio})")

    def _called(self, name: str, operands: Sequence[Formula]) -> Formula:
        first, *others = operands
        type_ = _common(operands)
        if name in ("min", "max"):
            c = first.c
            for other in others:
                c = f"{self.prefix}_{name}({c}, {other.c})"
            return Formula(type_, c)
        if name == "ceil_div":
            return self._divided("ceil", first, others[0])
        if name in ("ceil", "floor"):
            is_whole = type_ is Type.WHOLE
            return first if is_whole else Formula(Type.WHOLE, f"{self.prefix}_{name}({first.c})")
        if name == "abs":
            return Formula(type_, f"{self.prefix}_abs({first.c})")
        if name == "sqrt":
            return Formula(Type.REAL, f"sqrt({first.c})")
        raise _Untranslatable(f"{name} of a feature differs between mathematical libraries")

    # ------------------------------------------------------------------------- conditions

    def _chosen(self, node: ast.IfExp) -> Formula:
        test = self._truth(node.test)
        if test in (TRUE, FALSE):
            return self._number(node.body if test == TRUE else node.orelse)
        body, other = self._number(node.body), self._number(node.orelse)
        return Formula(_common((body, other)), f"({test.c} ? {body.c} : {other.c})")

    def _relation(self, sign: str, left: ast.expr, right: ast.expr) -> Formula:
        """Compare numbers, or texts and absent flags, which equal only their own kind."""
        sides = self._of(left), self._of(right)
        words = [s for s in sides if isinstance(s, Formula) and s.type is Type.WORD]
        texts = [s for s in sides if isinstance(s, str)]
        if not words and not texts and None not in sides:
            return _truth(f"({self._number(left).c} {sign} {self._number(right).c})")
        if sign not in ("==", "!="):
            raise _Untranslatable("a text has no order")
        if len(words) == 2:
            raise _Untranslatable("two features that are words cannot be compared with each other")
        if words and texts:
            feature = self.features[words[0].c]
            return _truth(f"({feature.variable} {sign} {feature.c_word(self.prefix, texts[0])})")
        return FALSE if sign == "==" else TRUE


def _common(operands: Sequence[Formula]) -> Type:
    """Return the type that numbers have together."""
    return Type.WHOLE if all(operand.type is Type.WHOLE for operand in operands) else Type.REAL


_SIGNS: Mapping[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}

_DIVISIONS: Mapping[type[ast.operator], str] = {
    ast.Div: "",
    ast.FloorDiv: "floor",
    ast.Mod: "modulo",
}

_RELATIONS: Mapping[type[ast.cmpop], str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}
