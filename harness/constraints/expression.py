"""Constraints and launch sizes: arithmetic over names, parsed and evaluated without eval().

The language is a part of Python's: numbers, texts, names, `+ - * / // % **`, comparisons
(chained as well), `and or not`, `in [..]`, `a if c else b`, the functions in FUNCTIONS and
the words in WORDS. `harness.constraints.arithmetic` defines what each of them means.

The same tree is evaluated over scalars or over broadcast numpy arrays, so one evaluation judges a
whole table of configurations.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from harness.constraints import arithmetic
from harness.constraints.arithmetic import Operand
from harness.core.errors import ExpressionError
from harness.core.records import Value, shown
from harness.core.text import suggestion

FUNCTIONS: dict[str, tuple[int, int]] = {
    # name: (fewest arguments, most arguments)
    "min": (2, 8),
    "max": (2, 8),
    "abs": (1, 1),
    "ceil": (1, 1),
    "floor": (1, 1),
    "sqrt": (1, 1),
    "log2": (1, 1),
    "ceil_div": (2, 2),
}

WORDS: dict[str, Value] = {"true": True, "false": False, "absent": None}

_MAX_LENGTH = 1000
_MAX_DEPTH = 100

_MISTAKES = (
    # what people write, and what to write here
    (r"&&", "write `and` instead of &&"),
    (r"\|\|", "write `or` instead of ||"),
    (r"!(?!=)", "write `not` instead of !"),
    (r"(?<![<>=!])=(?!=)", "write == to compare"),
    (r"\?", "write `a if condition else b` instead of condition ? a : b"),
)


class Expression:
    """A parsed expression.

    `names` are the names that need values, `names_in_order` the same in the order of the text.
    `written` is the text for messages.
    """

    def __init__(self, text: str) -> None:
        """Parse a text; raises ExpressionError for what the language does not have."""
        # A comment would swallow the lines that are joined to it: it is kept, and refused below.
        self.text = text.strip() if "#" in text else " ".join(text.split())
        if len(self.text) > _MAX_LENGTH:
            raise ExpressionError(
                f"an expression has at most {_MAX_LENGTH:,} characters, but this one has "
                f"{len(self.text):,}; split it into several constraints"
            )
        try:
            self._body: ast.expr = ast.parse(self.text, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise ExpressionError(
                f"`{self.text}` cannot be read: {_likely_mistake(self.text)}"
            ) from None
        self.written = self.text
        self.names_in_order = tuple(dict.fromkeys(_names(self._body, self.text)))
        self.names = frozenset(self.names_in_order)

    @classmethod
    def equal(cls, name: str, value: Value) -> Expression:
        """Make `name == value`."""
        return cls(f"{name} == {repr(value) if isinstance(value, str) else shown(value)}")

    @classmethod
    def or_equal(cls, condition: Expression, name: str, value: Value) -> Expression:
        """Make `condition or name == value`, which may exceed the limits on written expressions."""
        made = cls.__new__(cls)
        equal = cls.equal(name, value)
        made.text = made.written = f"({condition.text}) or {equal.text}"
        made._body = ast.BoolOp(ast.Or(), [condition._body, equal._body])
        made.names_in_order = tuple(dict.fromkeys((*condition.names_in_order, name)))
        made.names = frozenset(made.names_in_order)
        return made

    def __repr__(self) -> str:
        return f"Expression({self.text!r})"

    def __call__(self, values: Mapping[str, Any]) -> Operand:
        """Evaluate the expression; scalars give a scalar, arrays of numbers broadcast.

        Raises ExpressionError where types do not fit together; KeyError for a name without value.
        """
        try:
            return evaluate(self._body, values)
        except ExpressionError as error:
            message = f"`{self.written}` cannot be computed{self._with(values)}: {error}"
            raise ExpressionError(message) from None

    @property
    def is_number(self) -> bool:
        """Whether this is clearly a number, such as `A + 1`, and not a condition."""
        number = isinstance(self._body, ast.Constant) and type(self._body.value) in (int, float)
        signed = isinstance(self._body, ast.UnaryOp) and not isinstance(self._body.op, ast.Not)
        return number or signed or isinstance(self._body, ast.BinOp)

    @property
    def tree(self) -> ast.expr:
        """The syntax tree; `operands_of` and `evaluate` work on its nodes."""
        return self._body

    def holds(self, values: Mapping[str, Any]) -> Operand:
        """Evaluate the expression as a condition: True or False, or an array of them."""
        return arithmetic.as_value(arithmetic.truth(self(values)))

    def allows(self, values: Mapping[str, Value]) -> bool:
        """Whether the expression holds; False where it cannot be computed."""
        try:
            return bool(self.holds(values))
        except ExpressionError:
            return False

    def why_false(self, values: Mapping[str, Value]) -> str | None:
        """Return None where the expression holds, else a sentence with the values."""
        if self.holds(values):
            return None
        return f"`{self.written}` is false{self._with(values)}"

    def describe_values(self, values: Mapping[str, Any]) -> str:
        """Return the values that it uses, such as `A=1, B=2`; empty where there are arrays."""
        used = {name: values[name] for name in self.names_in_order if name in values}
        if any(map(arithmetic.is_array, used.values())):
            return ""
        return ", ".join(f"{name}={shown(value)}" for name, value in used.items())

    def _with(self, values: Mapping[str, Any]) -> str:
        used = self.describe_values(values)
        return f" with {used}" if used else ""


def operands_of(node: ast.expr) -> list[ast.expr]:
    """Return the operands of a node; none for a name or a constant."""
    match node:
        case ast.BinOp():
            return [node.left, node.right]
        case ast.UnaryOp():
            return [node.operand]
        case ast.BoolOp():
            return node.values
        case ast.IfExp():
            return [node.test, node.body, node.orelse]
        case ast.Compare(comparators=[ast.List() | ast.Tuple() | ast.Set() as listed]):
            return [node.left, *listed.elts]
        case ast.Compare():
            return [node.left, *node.comparators]
        case ast.Call():
            return node.args
    return []


def evaluate(node: ast.expr, values: Mapping[str, Any]) -> Operand:
    """Evaluate a node like a whole expression; raises ExpressionError."""
    try:
        with np.errstate(all="ignore"):
            return arithmetic.as_value(_computed(node, values))
    except OverflowError:
        raise ExpressionError("a number in it is too large") from None
    except TypeError as error:
        raise ExpressionError(str(error)) from None


def _computed(node: ast.expr, values: Mapping[str, Any]) -> Operand:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return WORDS[node.id] if node.id in WORDS else values[node.id]
    if isinstance(node, ast.IfExp):
        test = arithmetic.truth(_computed(node.test, values))
        if not arithmetic.is_array(test):
            return _computed(node.body if test else node.orelse, values)
    if isinstance(node, ast.BoolOp):
        decisive, evaluated = isinstance(node.op, ast.Or), []
        for operand in node.values:
            evaluated.append(arithmetic.truth(_computed(operand, values)))
            if not arithmetic.is_array(evaluated[-1]) and evaluated[-1] == decisive:
                return decisive
        return arithmetic.apply(node, evaluated)
    return arithmetic.apply(node, [_computed(operand, values) for operand in operands_of(node)])


def _likely_mistake(text: str) -> str:
    """Return the likely mistake in a text that Python's grammar refuses."""
    if not text:
        return "it is empty"
    if any(text.count(opening) != text.count(closing) for opening, closing in ("()", "[]")):
        return (
            "its brackets do not match (in a list written [a, b], YAML splits at every comma: "
            "put an expression that contains one in quotes)"
        )
    for pattern, hint in _MISTAKES:
        if re.search(pattern, text):
            return hint
    return "write arithmetic and comparisons over names, such as LU <= BLOCK / 4"


def _names(node: ast.expr, text: str, depth: int = 0) -> Iterator[str]:
    """Yield the names below a node; raises ExpressionError for a node outside the language."""
    if depth > _MAX_DEPTH:
        raise ExpressionError(
            f"`{text}` is nested more than {_MAX_DEPTH} deep; split it into several constraints"
        )
    if isinstance(node, ast.Name):
        yield from () if node.id in WORDS else (node.id,)
        return
    _check(node, text)
    for operand in operands_of(node):
        yield from _names(operand, text, depth + 1)


def _check(node: ast.expr, text: str) -> None:
    """Raise ExpressionError for a node outside the language."""
    match node:
        case ast.Constant(value=bool() | int() | float() | str()) | ast.BoolOp() | ast.IfExp():
            return None
        case ast.BinOp(op=op) if type(op) in arithmetic.ARITHMETIC:
            return None
        case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.UAdd()):
            return None
        case ast.Compare():
            return _check_comparison(node, text)
        case ast.Call():
            return _check_call(node, text)
    raise ExpressionError(
        f"`{_source(node, text)}` in `{text}` is not allowed: use numbers, names, arithmetic, "
        f"comparisons, and, or, not, and the functions {', '.join(FUNCTIONS)}"
    )


def _source(node: ast.expr, text: str) -> str:
    # Not ast.unparse: that is recursive, and this node has not passed the limit on depth.
    return ast.get_source_segment(text, node) or text


def _check_comparison(node: ast.Compare, text: str) -> None:
    if isinstance(node.ops[0], (ast.In, ast.NotIn)):
        listed = node.comparators[0]
        if len(node.ops) > 1 or not isinstance(listed, (ast.List, ast.Tuple, ast.Set)):
            raise ExpressionError(f"`in` in `{text}` needs a list such as [1, 2, 4] after it")
        return
    for op in node.ops:
        if type(op) not in arithmetic.COMPARISONS:
            word = "in" if isinstance(op, (ast.In, ast.NotIn)) else "is"
            raise ExpressionError(
                f"`{word}` in `{text}` is not allowed there: compare with ==, and join "
                "comparisons with `and`"
            )


def _check_call(node: ast.Call, text: str) -> None:
    name = _source(node.func, text)
    if name not in FUNCTIONS:
        hint = suggestion(name, FUNCTIONS)
        raise ExpressionError(f"`{name}` in `{text}` is not a function: {hint}")
    fewest, most = FUNCTIONS[name]
    count = len(node.args)
    if node.keywords or not fewest <= count <= most:
        wanted = str(fewest) if fewest == most else f"{fewest} to {most}"
        noun = "argument" if wanted == "1" else "arguments"
        found = "one by name" if node.keywords else count
        raise ExpressionError(f"`{name}` in `{text}` takes {wanted} {noun}, but got {found}")
