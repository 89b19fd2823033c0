"""Make functions of a dispatcher's expressions, which may come from elsewhere.

They are parsed, and may hold only numbers, words, names, arithmetic, comparisons and the functions
below. The language and its meaning are those of harness's constraints: a division by zero and the
root of a negative number are NaN, and NaN is false.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast


def _divided(divide: Callable[[float, float], float]) -> Callable[[float, float], float]:
    return lambda dividend, divisor: divide(dividend, divisor) if divisor != 0 else math.nan


def _ratio(dividend: float, divisor: float) -> float:
    """Divide as IEEE 754 says."""
    if divisor != 0:
        return dividend / divisor
    if dividend == 0 or dividend != dividend:
        return math.nan
    return math.copysign(math.inf, dividend) * math.copysign(1.0, divisor)


def _log2(size: float) -> float:
    """Compute a logarithm to 24 binary digits, as C does."""
    mantissa, exponent = math.frexp(size)
    square, log, digit = 2 * mantissa, exponent - 1.0, 1.0
    for _ in range(24):
        digit /= 2
        square *= square
        if square >= 2:
            log += digit
            square /= 2
    return log


def _extreme(choose: Callable[[Iterable[float]], float]) -> Callable[..., float]:
    return lambda *numbers: math.nan if any(n != n for n in numbers) else choose(numbers)


def _floor(number: float) -> float:
    return math.floor(number) if math.isfinite(number) else number


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "min": _extreme(min),
    "max": _extreme(max),
    "abs": abs,
    "floor": _floor,
    "ceil": lambda number: -_floor(-number),
    "sqrt": lambda number: math.sqrt(number) if number >= 0 else math.nan,
    "ceil_div": lambda dividend, divisor: -(-dividend // divisor) if divisor != 0 else math.nan,
    # those below are this module's own
    "Div": _divided(lambda dividend, divisor: dividend / divisor),
    "FloorDiv": _divided(lambda dividend, divisor: dividend // divisor),
    "Mod": _divided(lambda dividend, divisor: dividend % divisor),
    "Pow": lambda base, count: base**count if 0 <= count <= 64 else math.nan,
    "true": lambda number: bool(number) and number == number,
    "ratio": _ratio,
    "log2": _log2,
    "twos": lambda number: float(int(number) & -int(number)),
}

_SIGNS = (ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.Load)
_NODES = (ast.Constant, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp)
_LISTS = (ast.List, ast.Tuple, ast.Set)
_WORDS = {"true": True, "false": False, "absent": None}


class _Checked(ast.NodeTransformer):
    """Replaces names by features and `values`, and what Python computes in another way by
    functions; raises ValueError for all else. Without values, the expression is this module's own,
    and means what Python says."""

    def __init__(self, names: Sequence[str], values: Mapping[str, Any] | None) -> None:
        self._names, self._values = names, {**_WORDS, **(values or {})}
        self._is_own = values is None

    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, ast.Name):
            if node.id in self._names:
                return ast.Name(f"f{self._names.index(node.id)}", ast.Load())
            if node.id not in self._values:
                raise ValueError(f"an expression names {node.id}")
            return ast.Constant(self._values[node.id])
        if isinstance(node, ast.Call):
            name = getattr(node.func, "id", "")
            if name not in _FUNCTIONS or node.keywords:
                raise ValueError(f"an expression calls {ast.unparse(node.func)}")
            return _call(name, *map(self.visit, node.args))
        if not isinstance(node, (*_SIGNS, *_NODES, *_LISTS)):
            raise ValueError(f"an expression has {type(node).__name__}")
        made: Any = self.generic_visit(node)
        if self._is_own:
            return made
        if isinstance(made, ast.BinOp) and type(made.op).__name__ in _FUNCTIONS:
            return _call(type(made.op).__name__, made.left, made.right)
        if isinstance(made, ast.BoolOp):
            made.values = list(map(_truth, made.values))
        if isinstance(made, ast.IfExp):
            made.test = _truth(made.test)
        return made


def _call(name: str, *arguments: ast.expr) -> ast.expr:
    return ast.Call(ast.Name(f"_{name}", ast.Load()), list(arguments), [])


def _truth(node: ast.expr) -> ast.expr:
    return node if isinstance(node, (ast.BoolOp, ast.Compare)) else _call("true", node)


def compiled(
    text: str, names: Sequence[str], values: Mapping[str, Any] | None
) -> Callable[..., Any]:
    """Make a function of features, which have these names, from an expression; other names stand
    for `values`. Without values, the expression is the caller's own, and means what Python says."""
    body = _Checked(names, values).visit(ast.parse(text, mode="eval").body)
    return _function([f"f{index}" for index in range(len(names))], body)


def in_order(names: Sequence[str]) -> Callable[..., tuple[Any, ...]]:
    """Make a function that returns its arguments, given by these names or in their order."""
    loaded: list[ast.expr] = [ast.Name(name, ast.Load()) for name in names]
    return _function(names, ast.Tuple(loaded, ast.Load()))


def _function(names: Sequence[str], body: ast.expr) -> Callable[..., Any]:
    given = list(map(ast.arg, names))
    made = ast.Expression(ast.Lambda(ast.arguments([], given, None, [], [], None, []), body))
    code = compile(ast.fix_missing_locations(made), "an expression", "eval")
    functions = {f"_{name}": function for name, function in _FUNCTIONS.items()}
    return cast(Callable[..., Any], eval(code, {"__builtins__": {}, **functions}))
