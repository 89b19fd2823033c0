"""Expressions of the functional language: one class of node, typed when it is made.

A node has an operation, children, and data that is not an expression. A function is a node "fun"
whose data are its parameters. Lengths are plain numbers: an expression is for one size.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from harness.stencil.types import FLOAT, Array, Scalar, StencilError, Tuple, Type, check_name, leaf

_numbers = itertools.count()

CONSTANT = "constant"
MODES = (CONSTANT, "clamp", "mirror", "wrap")
PARALLEL = ("global", "workgroup", "local")
KINDS = ("any", *PARALLEL, "seq", "unroll")
"""How a map is carried out; `any` is not decided yet."""
REDUCTIONS = ("any", "seq", "unroll")
REARRANGING = ("split", "join", "transpose", "map")
"""Through these words a result is written; a map only if it rearranges, too."""


@dataclass(frozen=True, eq=False)
class Node:
    """An expression with its type."""

    op: str
    children: tuple[Node, ...]
    data: tuple[Any, ...]
    type: Type

    @cached_property
    def _text(self) -> str:
        return _spelled(self, {})

    def __str__(self) -> str:
        """Write the expression as a person does; `x => ...` is a function."""
        return self._text

    @property
    def body(self) -> Node:
        """Return the result of a function."""
        return self.children[0]

    def with_values(self, values: Mapping[Node, Node]) -> Node:
        """Replace nodes in the expression."""
        if self in values:
            return values[self]
        children = tuple(child.with_values(values) for child in self.children)
        if all(new is old for new, old in zip(children, self.children, strict=True)):
            return self
        return make(self.op, children, self.data)

    def applied_to(self, *arguments: Node) -> Node:
        """Replace the parameters in a function's body by arguments."""
        return self.body.with_values(dict(zip(self.data, arguments, strict=True)))

    def subexpressions(self) -> Iterator[Node]:
        """Yield the expression and all expressions in it, the outermost first."""
        yield self
        for child in self.children:
            yield from child.subexpressions()

    @property
    def rearranges(self) -> bool:
        """Whether a map's function only splits, joins and transposes its argument."""
        if self.data[0] != "any":
            return False
        fun = self.children[0]
        inner = fun.body
        while inner is not fun.data[0]:
            if inner.op not in REARRANGING or (inner.op == "map" and not inner.rearranges):
                return False
            inner = inner.children[-1]
        return True


@dataclass(frozen=True)
class UserFun:
    """A function of numbers: its body is a C expression over the parameters."""

    name: str
    parameters: tuple[str, ...]
    body: str

    def __call__(self, *arguments: Node) -> Node:
        """Call it on expressions."""
        return make("call", arguments, (self,))


def user_fun(name: str, parameters: str, body: str) -> UserFun:
    """Define a function of float numbers: `user_fun("add", "x y", "x + y")`."""
    names, where = tuple(parameters.split()), f"user_fun({name!r}, {parameters!r}, ...)"
    check_name(name, where)
    for parameter in names:
        check_name(parameter, where)
    if len(set(names)) < len(names):
        raise StencilError(f"{where}: parameters must have different names")
    return UserFun(name, names, body)


# ------------------------------------------------------------------------------------- typing


def make(op: str, children: tuple[Node, ...], data: tuple[Any, ...] = ()) -> Node:
    """Make a node; raise StencilError, with the expression, if the types do not match."""
    try:
        return Node(op, children, data, _TYPES[op](*data, *children))
    except _IllTyped as reason:
        text = _cut(str(Node(op, children, data, FLOAT)), 200)
        raise StencilError(f"{text}: {reason}") from None


class _IllTyped(Exception):
    """The reason why a node has no type."""


def _array(node: Node) -> Array:
    if not isinstance(node.type, Array):
        raise _IllTyped(f"expected an array, but `{_short(node)}` is {node.type}")
    return node.type


def _nested(node: Node) -> tuple[Array, Array]:
    outer = _array(node)
    if not isinstance(outer.element, Array):
        raise _IllTyped(f"expected an array of arrays, not {outer}")
    return outer, outer.element


def _require(holds: bool, reason: str) -> None:
    if not holds:
        raise _IllTyped(reason)


def _type_call(fun: UserFun, *arguments: Node) -> Type:
    _require(
        len(arguments) == len(fun.parameters),
        f"{fun.name} takes {len(fun.parameters)} arguments, but gets {len(arguments)}",
    )
    for name, argument in zip(fun.parameters, arguments, strict=True):
        _require(
            argument.type == FLOAT,
            f"{fun.name} takes {FLOAT} {name}, but `{_short(argument)}` is {argument.type}",
        )
    return FLOAT


def _type_map(kind: str, dim: int, fun: Node, x: Node) -> Type:
    _require(kind in KINDS, f"a map is one of {', '.join(KINDS)}, not {kind!r}")
    _require(dim in (0, 1, 2), f"a dimension is 0, 1 or 2, not {dim}")
    return Array(fun.type, _array(x).length)


def _type_reduce(kind: str, _: int, fun: Node, start: Node, x: Node) -> Type:
    _require(kind in REDUCTIONS, f"a reduction is one of {', '.join(REDUCTIONS)}, not {kind!r}")
    _require(isinstance(start.type, Scalar), f"it reduces to a number, not to {start.type}")
    _require(fun.type == start.type, f"the function returns {fun.type}, not {start.type}")
    return fun.type


def _type_zip(*arrays: Node) -> Type:
    types = [_array(x) for x in arrays]
    lengths = sorted({t.length for t in types})
    _require(len(types) > 1, "it takes two arrays or more")
    _require(len(lengths) == 1, f"the lengths differ: {', '.join(map(str, lengths))}")
    return Array(Tuple(tuple(t.element for t in types)), types[0].length)


def _type_split(size: int, x: Node) -> Type:
    kind = _array(x)
    _require(size >= 1 and kind.length % size == 0, f"{size} does not divide {kind.length}")
    return Array(Array(kind.element, size), kind.length // size)


def _type_join(x: Node) -> Type:
    outer, inner = _nested(x)
    return Array(inner.element, inner.length * outer.length)


def _type_transpose(x: Node) -> Type:
    outer, inner = _nested(x)
    return Array(Array(inner.element, outer.length), inner.length)


def _type_slide(size: int, step: int, x: Node) -> Type:
    kind = _array(x)
    _require(1 <= size <= kind.length, f"windows of {size} do not fit into {kind.length}")
    _require(
        step >= 1 and (kind.length - size) % step == 0,
        f"windows of {size}, one every {step}, do not end with the array of {kind.length}",
    )
    return Array(Array(kind.element, size), (kind.length - size) // step + 1)


def _type_pad(left: int, right: int, mode: str, _: str, x: Node) -> Type:
    kind = _array(x)
    _require(mode in MODES, f"the mode is one of {', '.join(MODES)}, not {mode!r}")
    _require(left >= 0 and right >= 0, f"it adds 0 elements or more, not {left} and {right}")
    _require(
        mode != CONSTANT or isinstance(leaf(kind), Scalar), f"{kind} cannot contain a constant"
    )
    _require(
        mode not in ("mirror", "wrap") or max(left, right) <= kind.length,
        f"it cannot take {max(left, right)} elements from an array of {kind.length}",
    )
    return Array(kind.element, kind.length + left + right)


def _type_at(index: int, x: Node) -> Type:
    kind = _array(x)
    _require(0 <= index < kind.length, f"it takes element {index} of {kind.length}")
    return kind.element


def _type_get(part: int, x: Node) -> Type:
    if not isinstance(x.type, Tuple):
        raise _IllTyped(f"expected a tuple, but `{_short(x)}` is {x.type}")
    count = len(x.type.parts)
    _require(0 <= part < count, f"it takes part {part} of {count}")
    return x.type.parts[part]


def _type_memory(_: str, x: Node) -> Type:
    _require(isinstance(leaf(x.type), Scalar), f"memory holds numbers, not {x.type}")
    return x.type


_TYPES: Mapping[str, Callable[..., Type]] = {
    "input": lambda _, kind: kind,
    "var": lambda _, kind: kind,
    "number": lambda _: FLOAT,
    "fun": lambda *parts: parts[-1].type,
    "call": _type_call,
    "map": _type_map,
    "reduce": _type_reduce,
    "zip": _type_zip,
    "split": _type_split,
    "join": _type_join,
    "transpose": _type_transpose,
    "slide": _type_slide,
    "pad": _type_pad,
    "at": _type_at,
    "get": _type_get,
    "memory": _type_memory,
    "let": lambda fun, _: fun.type,
}

# ------------------------------------------------------------------------------------ spelling


def _short(node: Node) -> str:
    return _cut(str(node), 60)


def _cut(text: str, length: int) -> str:
    return text if len(text) < length else text[:length] + " ..."


def _spelled(node: Node, names: Mapping[Node, str]) -> str:
    if node.op == "var":
        return names.get(node, "?")
    if node.op == "fun":
        inner = dict(names)
        for parameter in node.data:
            inner[parameter] = _letters(len(inner))
        parameters = ", ".join(inner[p] for p in node.data)
        return f"({parameters} => {_spelled(node.body, inner)})"
    if node.op in ("input", "number"):
        return str(node.data[0])
    shown = () if node.op in ("call", "map", "reduce", "memory") else node.data
    if node.op == "pad" and node.data[2] != CONSTANT:
        shown = node.data[:3]
    arguments = [str(getattr(part, "name", part)) for part in shown]
    arguments += [_spelled(child, names) for child in node.children]
    return f"{_name(node)}({', '.join(arguments)})"


def _letters(number: int) -> str:
    letter = "abcdefghijklmnopqrstuvwxyz"[number % 26]
    return letter + (str(number // 26) if number >= 26 else "")


def _name(node: Node) -> str:
    if node.op == "call":
        return str(node.data[0].name)
    if node.op == "memory":
        return f"to_{node.data[0]}"
    if node.op in ("map", "reduce") and node.data[0] != "any":
        dim = f"_{node.data[1]}" if node.data[0] in PARALLEL else ""
        return f"{node.op}_{node.data[0]}{dim}"
    return node.op


# ------------------------------------------------------------------- functions, substitution


def fun(f: Callable[..., Node], *types: Type) -> Node:
    """Turn a Python function of nodes into a function node."""
    parameters = tuple(make("var", (), (next(_numbers), kind)) for kind in types)
    return make("fun", (f(*parameters),), parameters)
