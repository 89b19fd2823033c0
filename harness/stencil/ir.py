"""The functional language: one class of node, typed when it is made.

A node has an operation, children, and data that is no expression. A function is a node "fun" whose
data are its parameters. Lengths are plain numbers: a program is made for a size.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from harness.stencil.names import check_name
from harness.stencil.types import FLOAT, INT, Array, Scalar, StencilError, Tuple, Type, leaf

_numbers = itertools.count()

CONSTANT = "constant"
MODES = (CONSTANT, "clamp", "mirror", "wrap")
PARALLEL = ("global", "workgroup", "local")
KINDS = ("any", *PARALLEL, "seq", "unroll")
"""How a map goes: `any` is not decided yet."""
REDUCTIONS = ("any", "seq", "unroll")
SPACES = ("global", "local", "private")


@dataclass(frozen=True, eq=False)
class Node:
    """An expression with its type."""

    op: str
    children: tuple[Node, ...]
    data: tuple[Any, ...]
    type: Type

    def __str__(self) -> str:
        return show(self)

    @property
    def body(self) -> Node:
        """Of a function, what it gives."""
        return self.children[0]

    @cached_property
    def key(self) -> str:
        """Equal for expressions that differ in the names of their variables alone."""
        return _spelled(self, {}, full=True)


@dataclass(frozen=True)
class UserFun:
    """A function of numbers, written in C: its body is an expression over the parameters."""

    name: str
    parameters: tuple[str, ...]
    body: str
    types: tuple[Scalar, ...]
    result: Scalar

    def __call__(self, *arguments: Node) -> Node:
        """Its call."""
        return make("call", arguments, (self,))


def user_fun(
    name: str,
    parameters: str,
    body: str,
    types: tuple[Scalar, ...] | None = None,
    result: Scalar = FLOAT,
) -> UserFun:
    """A function of numbers: `user_fun("add", "x y", "x + y")`; float unless `types` says so."""
    names, where = tuple(parameters.split()), f"user_fun({name!r}, {parameters!r}, ...)"
    check_name(name, where, is_function=True)
    for parameter in names:
        check_name(parameter, where)
    if len(set(names)) < len(names):
        raise StencilError(f"{where}: expected parameters of different names")
    return UserFun(name, names, body, types or (FLOAT,) * len(names), result)


# ------------------------------------------------------------------------------------- typing


def make(op: str, children: tuple[Node, ...], data: tuple[Any, ...] = ()) -> Node:
    """A node; raises StencilError, which names the expression, where the types do not fit."""
    try:
        return Node(op, children, data, _TYPES[op](data, *children))
    except _Unfit as reason:
        told = _spelled(Node(op, children, data, INT), {}, full=False)
        raise StencilError(
            f"{told if len(told) < 200 else told[:200] + ' ...'}: {reason}"
        ) from None


class _Unfit(Exception):
    """Why a node has no type."""


def _array(node: Node) -> Array:
    if not isinstance(node.type, Array):
        raise _Unfit(f"expected an array, but `{_short(node)}` is {node.type}")
    return node.type


def _nested(node: Node) -> tuple[Array, Array]:
    outer = _array(node)
    if not isinstance(outer.element, Array):
        raise _Unfit(f"expected an array of arrays, not {outer}")
    return outer, outer.element


def _require(holds: bool, told: str) -> None:
    if not holds:
        raise _Unfit(told)


def _takes(fun: Node, *types: Type) -> None:
    for parameter, given in zip(fun.data, types, strict=True):
        _require(
            parameter.type == given, f"the function takes {parameter.type}, but is given {given}"
        )


def _type_call(data: tuple[Any, ...], *arguments: Node) -> Type:
    (fun,) = data
    _require(
        len(arguments) == len(fun.types),
        f"{fun.name} takes {len(fun.types)} arguments, but is given {len(arguments)}",
    )
    for name, wanted, given in zip(fun.parameters, fun.types, arguments, strict=True):
        _require(
            given.type == wanted,
            f"{fun.name} takes {wanted} {name}, but `{_short(given)}` is {given.type}",
        )
    return fun.result  # type: ignore[no-any-return]


def _type_map(data: tuple[Any, ...], fun: Node, x: Node) -> Type:
    kind, dim = data
    _require(kind in KINDS, f"maps are {', '.join(KINDS)}, but not {kind!r}")
    _require(dim in (0, 1, 2), f"dimensions are 0, 1 and 2, but this is {dim}")
    _takes(fun, _array(x).element)
    return Array(fun.type, _array(x).length)


def _type_reduce(data: tuple[Any, ...], fun: Node, start: Node, x: Node) -> Type:
    _require(data[0] in REDUCTIONS, f"it is {', '.join(REDUCTIONS)}, but not {data[0]!r}")
    _require(isinstance(start.type, Scalar), f"it reduces to a number, not to {start.type}")
    _takes(fun, start.type, _array(x).element)
    _require(fun.type == start.type, f"the function gives {fun.type}, not {start.type}")
    return fun.type


def _type_iterate(data: tuple[Any, ...], fun: Node, x: Node) -> Type:
    _require(data[0] >= 1, f"it iterates 1 time or more, but not {data[0]}")
    _takes(fun, x.type)
    _require(fun.type == x.type, f"the function makes {fun.type} of {x.type}; they must be equal")
    return x.type


def _type_zip(data: tuple[Any, ...], *arrays: Node) -> Type:
    types = [_array(x) for x in arrays]
    lengths = sorted({t.length for t in types})
    _require(len(types) > 1, "it takes two arrays or more")
    _require(len(lengths) == 1, f"the lengths differ: {', '.join(map(str, lengths))}")
    return Array(Tuple(tuple(t.element for t in types)), types[0].length)


def _type_split(data: tuple[Any, ...], x: Node) -> Type:
    kind, size = _array(x), data[0]
    _require(size >= 1 and kind.length % size == 0, f"{size} does not divide {kind.length}")
    return Array(Array(kind.element, size), kind.length // size)


def _type_join(data: tuple[Any, ...], x: Node) -> Type:
    outer, inner = _nested(x)
    return Array(inner.element, inner.length * outer.length)


def _type_transpose(data: tuple[Any, ...], x: Node) -> Type:
    outer, inner = _nested(x)
    return Array(Array(inner.element, outer.length), inner.length)


def _type_slide(data: tuple[Any, ...], x: Node) -> Type:
    kind, (size, step) = _array(x), data
    _require(1 <= size <= kind.length, f"windows of {size} do not fit into {kind.length}")
    _require(
        step >= 1 and (kind.length - size) % step == 0,
        f"windows of {size}, one every {step}, do not end with the array, of {kind.length}",
    )
    return Array(Array(kind.element, size), (kind.length - size) // step + 1)


def _type_pad(data: tuple[Any, ...], x: Node) -> Type:
    kind, (left, right, mode, _) = _array(x), data
    _require(mode in MODES, f"modes are {', '.join(MODES)}, but not {mode!r}")
    _require(left >= 0 and right >= 0, f"it adds 0 or more, but not {left} and {right}")
    _require(mode != CONSTANT or isinstance(leaf(kind), Scalar), f"a constant is no part of {kind}")
    _require(
        mode not in ("mirror", "wrap") or max(left, right) <= kind.length,
        f"it adds {max(left, right)} elements of an array of {kind.length}",
    )
    return Array(kind.element, kind.length + left + right)


def _type_at(data: tuple[Any, ...], x: Node) -> Type:
    kind = _array(x)
    _require(0 <= data[0] < kind.length, f"it takes element {data[0]} of {kind.length}")
    return kind.element


def _type_get(data: tuple[Any, ...], x: Node) -> Type:
    _require(isinstance(x.type, Tuple), f"expected a tuple, but `{_short(x)}` is {x.type}")
    kind: Any = x.type
    _require(0 <= data[0] < len(kind.parts), f"it takes part {data[0]} of {len(kind.parts)}")
    return kind.parts[data[0]]  # type: ignore[no-any-return]


def _type_array(data: tuple[Any, ...]) -> Type:
    length, fun = data
    _require(length >= 1, f"an array has 1 element or more, but not {length}")
    _require(fun.types == (INT, INT), f"{fun.name} must take its place and the length, two int")
    return Array(fun.result, length)


def _type_place(data: tuple[Any, ...], x: Node) -> Type:
    _require(isinstance(leaf(x.type), Scalar), f"memory holds numbers, but this is {x.type}")
    return x.type


def _type_let(data: tuple[Any, ...], fun: Node, x: Node) -> Type:
    _takes(fun, x.type)
    return fun.type


_TYPES: Mapping[str, Callable[..., Type]] = {
    "input": lambda data: data[1],
    "var": lambda data: data[1],
    "number": lambda data: data[1],
    "fun": lambda data, body: body.type,
    "call": _type_call,
    "map": _type_map,
    "reduce": _type_reduce,
    "iterate": _type_iterate,
    "zip": _type_zip,
    "split": _type_split,
    "join": _type_join,
    "transpose": _type_transpose,
    "slide": _type_slide,
    "pad": _type_pad,
    "at": _type_at,
    "get": _type_get,
    "array": _type_array,
    "place": _type_place,
    "let": _type_let,
}

# ------------------------------------------------------------------------------------ spelling


def show(node: Node) -> str:
    """An expression as a person writes it; `x => ...` is a function."""
    return _spelled(node, {}, full=False)


def _short(node: Node) -> str:
    told = show(node)
    return told if len(told) < 60 else told[:60] + " ..."


def _spelled(node: Node, names: Mapping[Node, str], full: bool) -> str:
    """`full` spells what is left out for people: user functions' bodies, inputs' types."""

    if node.op == "var":
        return names.get(node, "?")
    if node.op == "fun":
        inner = dict(names)
        for parameter in node.data:
            inner[parameter] = _letters(len(inner))
        parameters = ", ".join(inner[p] for p in node.data)
        return f"({parameters} => {_spelled(node.body, inner, full)})"
    if node.op == "input":
        return f"{node.data[0]}: {node.type}" if full else str(node.data[0])
    if node.op == "number":
        return str(node.data[0])
    arguments = [_data_told(part, full) for part in _told_data(node, full)]
    arguments += [_spelled(child, names, full) for child in node.children]
    return f"{_name(node)}({', '.join(arguments)})"


def _letters(number: int) -> str:
    letter = "abcdefghijklmnopqrstuvwxyz"[number % 26]
    return letter + (str(number // 26) if number >= 26 else "")


def _name(node: Node) -> str:
    if node.op == "call":
        return str(node.data[0].name)
    if node.op == "place":
        return f"to_{node.data[0]}"
    if node.op in ("map", "reduce") and node.data[0] != "any":
        dim = f"_{node.data[1]}" if node.data[0] in PARALLEL else ""
        return f"{node.op}_{node.data[0]}{dim}"
    return node.op


def _told_data(node: Node, full: bool) -> tuple[Any, ...]:
    if node.op in ("map", "reduce", "place"):
        return ()
    if node.op == "call":
        return node.data if full else ()
    if node.op == "pad":
        return node.data if node.data[2] == CONSTANT else node.data[:3]
    return node.data


def _data_told(part: Any, full: bool) -> str:
    return repr(part) if full else str(getattr(part, "name", part))


# ------------------------------------------------------------------- functions, substitution


def variable(kind: Type) -> Node:
    """A new one; two are never equal."""
    return make("var", (), (next(_numbers), kind))


def fun(f: Callable[..., Node], *types: Type) -> Node:
    """The function that a Python function of nodes gives."""
    parameters = tuple(map(variable, types))
    return make("fun", (f(*parameters),), parameters)


def substitute(node: Node, values: Mapping[Node, Node]) -> Node:
    """The expression with other nodes in place of some."""
    if node in values:
        return values[node]
    children = tuple(substitute(child, values) for child in node.children)
    if all(new is old for new, old in zip(children, node.children, strict=True)):
        return node
    return make(node.op, children, node.data)


def apply(function: Node, *arguments: Node) -> Node:
    """The function's body with the arguments in place of its parameters."""
    return substitute(function.body, dict(zip(function.data, arguments, strict=True)))


def subexpressions(node: Node) -> Iterator[Node]:
    """The expression and all within, the outermost first."""
    yield node
    for child in node.children:
        yield from subexpressions(child)
