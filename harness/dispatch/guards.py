"""Translate guards and launch sizes to C and Python conditions with exactly the space's meaning.

`harness.constraints.expression` computes with Python's unbounded integers, and with NaN where a
number has no value; C has 64-bit integers and doubles. So an expression is translated for a box:
the range of each feature. If the bounds of every intermediate result prove that nothing overflows,
rounds differently or divides by zero, both languages give the same answer; otherwise the
translation is refused.
"""

from __future__ import annotations

import ast
import itertools
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from harness.constraints import expression as language
from harness.constraints.expression import Expression
from harness.core.errors import ExpressionError
from harness.core.records import Value
from harness.dispatch.arithmetic import Arithmetic
from harness.dispatch.features import Feature
from harness.dispatch.formulas import (
    FALSE,
    TRUE,
    Bounds,
    Formula,
    Type,
    Untranslatable,
    bounded,
    conjunction,
    constant,
    disjunction,
    in_one_type,
    is_number,
    negated,
    truth,
)


@dataclass(frozen=True)
class Translator:
    """Translates expressions, given constants and the features of a box.

    `prefix` begins the names of the helpers that the C code calls; Python's are named alike, with
    an underscore instead. Where it `decides`, a comparison that the box decides is a constant, so
    the code is right within the box alone.
    """

    constants: Mapping[str, Value]
    features: Mapping[str, Feature]
    box: Mapping[str, Bounds]
    prefix: str
    decides: bool = False

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
        except Untranslatable as reason:
            raise ExpressionError(f"`{text}` cannot be written as exact code: {reason}") from None

    def _number(self, node: ast.expr) -> Formula:
        """Translate a node to a number."""
        made = self._of(node)
        if isinstance(made, Formula):
            if made.type is Type.TRUTH:
                return Formula(Type.WHOLE, f"(int64_t)({made.c})", made.python, 0, 1)
            if made.type is not Type.WORD:
                return made
        raise Untranslatable("a text can be compared, not calculated with")

    def _truth(self, node: ast.expr) -> Formula:
        """Translate a node to a condition."""
        made = self._of(node)
        if not isinstance(made, Formula):
            return TRUE if made else FALSE
        if made.type is Type.TRUTH:
            return made
        if made.type is Type.WORD:
            raise Untranslatable("a text is not a condition")
        return truth(f"({made.c} != 0)", f"({made.python} != 0)")

    def _of(self, node: ast.expr) -> Formula | str | None:
        """Translate a node to a formula, or to a constant that is a text or absent."""
        if not self._varies(node):
            return constant(self._evaluated(node))
        if isinstance(node, ast.Name):
            return self._feature(node.id)
        if isinstance(node, ast.BinOp):
            return self._binary(node)
        if isinstance(node, ast.UnaryOp):
            return self._unary(node)
        if isinstance(node, ast.BoolOp):
            return self._joined(node)
        if isinstance(node, ast.IfExp):
            return self._chosen(node)
        if isinstance(node, ast.Compare):
            return self._compared(node)
        assert isinstance(node, ast.Call)
        assert isinstance(node.func, ast.Name)
        operands = [self._number(part) for part in node.args]
        return Arithmetic(self.prefix).called(node.func.id, operands)

    def _varies(self, node: ast.expr) -> bool:
        names = (part.id for part in ast.walk(node) if isinstance(part, ast.Name))
        return any(name in self.features for name in names)

    def _evaluated(self, node: ast.expr) -> Value:
        try:
            found: Value = language.evaluate(node, self.constants)
        except ExpressionError as error:
            raise Untranslatable(str(error)) from None
        return found

    def _feature(self, name: str) -> Formula:
        named = self.features[name]
        if named.type is Type.WORD:
            return Formula(Type.WORD, name, named.variable)
        return bounded(named.type, named.variable, named.variable, self.box[name])

    # ------------------------------------------------------------------------- arithmetic

    def _binary(self, node: ast.BinOp) -> Formula:
        left = self._number(node.left)
        if isinstance(node.op, ast.Pow):
            return Arithmetic(self.prefix).power(left, self._constant_whole(node.right))
        return Arithmetic(self.prefix).binary(type(node.op), left, self._number(node.right))

    def _constant_whole(self, node: ast.expr) -> int:
        value = None if self._varies(node) else self._evaluated(node)
        return value if type(value) is int else 0

    def _unary(self, node: ast.UnaryOp) -> Formula:
        if isinstance(node.op, ast.Not):
            made = self._truth(node.operand)
            return truth(f"!{made.c}", f"(not {made.python})")
        operand = self._number(node.operand)
        if isinstance(node.op, ast.UAdd):
            return operand
        return negated(operand)

    # ------------------------------------------------------------------------- conditions

    def _joined(self, node: ast.BoolOp) -> Formula:
        parts = [self._truth(part) for part in node.values]
        is_and = isinstance(node.op, ast.And)
        return conjunction(parts) if is_and else disjunction(parts)

    def _chosen(self, node: ast.IfExp) -> Formula:
        test = self._truth(node.test)
        if test.is_constant:
            return self._number(node.body if test == TRUE else node.orelse)
        body, other = self._number(node.body), self._number(node.orelse)
        bounds = (min(body.low, other.low), max(body.high, other.high))
        python = f"({body.python} if {test.python} else {other.python})"
        type_, (c_body, c_other), is_float = in_one_type((body, other))
        cast = "(int64_t)" if type_ is Type.WHOLE else ""
        c = f"{cast}({test.c} ? {c_body} : {c_other})"
        return bounded(type_, c, python, bounds, is_float)

    def _compared(self, node: ast.Compare) -> Formula:
        if isinstance(node.ops[0], (ast.In, ast.NotIn)):
            return self._listed(node)
        operands = [node.left, *node.comparators]
        return conjunction(
            [
                self._relation(_RELATIONS[type(op)], left, right)
                for op, (left, right) in zip(node.ops, itertools.pairwise(operands), strict=True)
            ]
        )

    def _listed(self, node: ast.Compare) -> Formula:
        listed = node.comparators[0]
        assert isinstance(listed, (ast.List, ast.Tuple, ast.Set))
        found = disjunction([self._relation("==", node.left, e) for e in listed.elts])
        if isinstance(node.ops[0], ast.In):
            return found
        return truth(f"!{found.c}", f"(not {found.python})")

    def _relation(self, sign: str, left: ast.expr, right: ast.expr) -> Formula:
        one, other = self._of(left), self._of(right)
        if not is_number(one) or not is_number(other):
            return self._of_texts(sign, one, other)
        first, second = self._number(left), self._number(right)
        type_, (c_first, c_second), _ = in_one_type((first, second))
        if self.decides and type_ is Type.WHOLE and sign in _ORDERS:
            ends = itertools.product((first.low, first.high), (second.low, second.high))
            found = {_ORDERS[sign](low, high) for low, high in ends}
            if len(found) == 1:
                return TRUE if found.pop() else FALSE
        c = f"({c_first} {sign} {c_second})"
        return truth(c, f"({first.python} {sign} {second.python})")

    def _of_texts(
        self, sign: str, one: Formula | str | None, other: Formula | str | None
    ) -> Formula:
        """Compare texts and absent flags, which equal only their own kind."""
        if sign not in ("==", "!="):
            raise Untranslatable("a text has no order")
        word, text = (one, other) if isinstance(one, Formula) else (other, one)
        if isinstance(word, Formula) and word.type is Type.WORD:
            if isinstance(text, Formula) and text.type is Type.WORD:
                raise Untranslatable(
                    "two features that are words cannot be compared with each other"
                )
            if isinstance(text, str):
                named = self.features[word.c]
                c = f"({named.variable} {sign} {named.c_word(self.prefix, text)})"
                return truth(c, f"({word.python} {sign} {text!r})")
        return FALSE if sign == "==" else TRUE


_ORDERS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}

_RELATIONS: Mapping[type[ast.cmpop], str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}
