"""Rewrite rules: from an expression to others that compute the same.

A rule is a function from a node to its possible replacements; `everywhere` applies it inside an
expression. The rules `mapped`, `in_local`, `in_private` and `unrolled` decide how an expression is
carried out; the others rearrange its computation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from harness.stencil import (
    get,
    join,
    join2d,
    let,
    map2d,
    map_,
    slide,
    slide2d,
    split,
    split2d,
    to_local,
    to_private,
    zip2d,
    zip_,
)
from harness.stencil.ir import REARRANGING, Node, make
from harness.stencil.types import Array, Tuple, leaf, shape

Rule = Callable[[Node], Iterator[Node]]
Kind = tuple[str, int]
"""How a map is carried out, and along which dimension."""
Cut = tuple[Node, Callable[[Node], Node]]
"""An array cut into parts, and a function from one part to its share of the array."""

_SMALL = 25  # the elements that are unrolled, or private: a window of 5 x 5


def everywhere(rule: Rule, node: Node) -> Iterator[Node]:
    """Apply a rule at one position; yield the expression for each position and each result."""
    yield from rule(node)
    for index, child in enumerate(node.children):
        for new in everywhere(rule, child):
            children = (*node.children[:index], new, *node.children[index + 1 :])
            yield make(node.op, children, node.data)


# ----------------------------------------------------------------------------- overlapped tiling


def tile(size: int) -> Rule:
    """Cut a map into parts of `size` elements; the tiles of parts of windows overlap."""

    def rule(node: Node) -> Iterator[Node]:
        if _is_open(node) and _length(node) % size == 0 and 1 < size < _length(node):
            f = _function(node)
            parts, within = _cut(node.children[1], size)
            yield join(map_(lambda part: map_(f, within(part)), parts))

    return rule


def tile2d(high: int, wide: int) -> Rule:
    """Turn two nested maps over windows into maps over tiles of `high` rows, `wide` columns."""

    def rule(node: Node) -> Iterator[Node]:
        f = _function2d(node)
        if f is None:
            return
        rows, columns = shape(node.type)[:2]
        if rows % high == 0 and columns % wide == 0 and (high, wide) != (rows, columns):
            parts, within = _cut2d(node.children[1], high, wide)
            yield join2d(map2d(lambda part: map2d(f, within(part)), parts))

    return rule


def _cut(x: Node, size: int) -> Cut:
    if x.op == "slide":
        (length, step), array = x.data, x.children[0]
        parts = slide(length - step + size * step, size * step, array)
        return parts, lambda part: slide(length, step, part)
    if x.op == "zip":
        cuts = [_cut(array, size) for array in x.children]
        return zip_(*(parts for parts, _ in cuts)), lambda part: zip_(*_within(cuts, part))
    if x.op == "map" and x.data[0] == "any":
        f, (parts, within) = _function(x), _cut(x.children[1], size)
        return parts, lambda part: map_(f, within(part))
    return split(size, x), lambda part: part


def _cut2d(x: Node, high: int, wide: int) -> Cut:
    windows, zipped = _match_slide2d(x), _match_zip2d(x)
    if windows is not None:
        (h, w), (down, right), array = windows
        size = (h - down + high * down, w - right + wide * right)
        parts = slide2d(size, (high * down, wide * right), array)
        return parts, lambda part: slide2d((h, w), (down, right), part)
    if zipped is not None:
        cuts = [_cut2d(array, high, wide) for array in zipped]
        return zip2d(*(parts for parts, _ in cuts)), lambda part: zip2d(*_within(cuts, part))
    if (f := _function2d(x)) is not None:
        parts, within = _cut2d(x.children[1], high, wide)
        return parts, lambda part: map2d(f, within(part))
    return split2d((high, wide), x), lambda part: part


def _within(cuts: Sequence[Cut], part: Node) -> Iterator[Node]:
    return (within(get(index, part)) for index, (_, within) in enumerate(cuts))


def _match_slide2d(x: Node) -> tuple[tuple[int, int], tuple[int, int], Node] | None:
    """Return the sizes, steps and array of slide2d(..., array); None for another expression."""
    if not (x.op == "map" and x.children[1].op == "slide"):
        return None
    columns = [node.data for node in x.children[0].subexpressions() if node.op == "slide"]
    if len(columns) != 1:
        return None
    ((wide, right),), (high, down) = columns, x.children[1].data
    size, step, array = (high, wide), (down, right), x.children[1].children[0]
    return (size, step, array) if _has_function_of(slide2d(size, step, array), x) else None


def _match_zip2d(x: Node) -> tuple[Node, ...] | None:
    """Return the arrays of zip2d(...); None for another expression."""
    if x.op == "map" and x.children[1].op == "zip" and x.children[0].body.op == "zip":
        arrays = x.children[1].children
        return arrays if _has_function_of(zip2d(*arrays), x) else None
    return None


def _has_function_of(node: Node, other: Node) -> bool:
    return str(node.children[0]) == str(other.children[0])


# ------------------------------------------------------------------------ how it is carried out


def spine(node: Node) -> list[Node]:
    """List the nested maps that compute the result, the outermost first."""
    inner = _next(node)
    own = [node] if node.op == "map" and not node.rearranges else []
    return own if inner is None else [*own, *spine(inner)]


def on_spine(rule: Rule, level: int, node: Node) -> Iterator[Node]:
    """Apply a rule to one map of the spine; level 0 is the outermost."""
    is_map = node.op == "map" and not node.rearranges
    inner = _next(node)
    if is_map and level == 0:
        yield from rule(node)
    elif inner is not None:
        for new in on_spine(rule, level - is_map, inner):
            yield _with_next(node, new)


def mapped(kinds: Sequence[Kind], node: Node) -> Node:
    """Carry out each map of the spine as one of `kinds`, from outside in."""
    for level, kind in enumerate(kinds):
        (node,) = on_spine(partial(_of_kind, kind), level, node)
    return node


def _of_kind(kind: Kind, node: Node) -> Iterator[Node]:
    yield make("map", node.children, kind)


def _next(node: Node) -> Node | None:
    """Return the next node on the way to the map that computes the result."""
    if _enters(node):
        return node.children[0].body
    return node.children[-1] if node.op in REARRANGING else None


def _enters(node: Node) -> bool:
    """Return whether the way goes on in the node's function."""
    return node.op == "let" or (node.op == "map" and not node.rearranges)


def _with_next(node: Node, new: Node) -> Node:
    if _enters(node):
        function = make("fun", (new,), node.children[0].data)
        return make(node.op, (function, *node.children[1:]), node.data)
    return make(node.op, (*node.children[:-1], new), node.data)


def names_of(node: Node) -> list[str]:
    """List the arrays that `in_local` can copy in the innermost groups."""
    groups = [x for x in node.subexpressions() if x.op == "map" and x.data[0] == "workgroup"]
    return list(_reused(groups[-1].children[0])) if groups else []


def _reused(function: Node) -> dict[str, Node]:
    """Find the arrays that a function slides windows over: its parameter or parts of it."""
    slid = [x.children[0] for x in function.body.subexpressions() if x.op == "slide"]
    by_name = {_part(array, function.data[0]): array for array in slid}
    return {name: by_name[name] for name in sorted(n for n in by_name if n is not None)}


def in_local(names: Sequence[str], dims: Sequence[int]) -> Rule:
    """Copy reused arrays to local memory at the start of the innermost groups.

    Threads along `dims` share the copying. `names` are some that `names_of` returns.
    """

    def copied(x: Node) -> Node:
        outer = len(shape(x.type)) - len(dims)
        return to_local(_copy(x, [("seq", 0)] * outer + [("local", dim) for dim in dims]))

    def rule(node: Node) -> Iterator[Node]:
        if node.op == "map" and node.data[0] == "workgroup":
            arrays = [x for name, x in _reused(node.children[0]).items() if name in names]
            has_dims = all(len(shape(x.type)) >= len(dims) for x in arrays)
            if len(arrays) == len(names) > 0 and has_dims:
                yield _with_copies(node, arrays, copied)

    return rule


def in_private(node: Node) -> Iterator[Node]:
    """Copy a function's arguments, arrays of at most 25 numbers, to private variables first."""
    if node.op != "map" or node.children[0].body.op == "let" or node.rearranges:
        return
    (parameter,) = node.children[0].data
    arrays = [parameter]
    if isinstance(parameter.type, Tuple):
        arrays = [get(k, parameter) for k in range(len(parameter.type.parts))]
    arrays = [x for x in arrays if shape(x.type) and math.prod(shape(x.type)) <= _SMALL]
    arrays = [x for x in arrays if not isinstance(leaf(x.type), Tuple)]
    if arrays and not shape(node.children[0].type):
        yield _with_copies(
            node, arrays, lambda x: to_private(_copy(x, [("unroll", 0)] * len(shape(x.type))))
        )


def unrolled(node: Node) -> Iterator[Node]:
    """Unroll a reduction or a sequential map of at most 25 elements."""
    kinds = {"reduce": ("any", "seq"), "map": ("seq",)}
    if node.op in kinds and node.data[0] in kinds[node.op] and _length(node.children[-1]) <= _SMALL:
        yield make(node.op, node.children, ("unroll", 0))


def _with_copies(node: Node, arrays: Sequence[Node], copied: Callable[[Node], Node]) -> Node:
    """Make the map's function copy arrays first, and use the copies instead."""
    function = node.children[0]
    body, (parameter,) = function.body, function.data
    for array in arrays:
        name = _part(array, parameter)
        same = [x for x in body.subexpressions() if _part(x, parameter) == name]
        body = let(partial(_replaced, body, same), copied(array))
    return make("map", (make("fun", (body,), function.data), node.children[1]), node.data)


def _replaced(body: Node, same: Sequence[Node], copy: Node) -> Node:
    return body.with_values(dict.fromkeys(same, copy))


def _part(node: Node, parameter: Node) -> str | None:
    """Name a parameter "" and a part of it by its number; return None for another expression."""
    if node.op == "get" and node.children[0] is parameter:
        return str(node.data[0])
    return "" if node is parameter else None


def _copy(x: Node, kinds: Sequence[Kind]) -> Node:
    if not kinds:
        return x
    kind, *rest = kinds
    return map_(lambda element: _copy(element, rest), x, *kind)


# ------------------------------------------------------------------------------------- matching


def _is_open(node: Node) -> bool:
    """Return whether it is a map that computes something and has no decided kind."""
    return node.op == "map" and node.data[0] == "any" and not node.rearranges


def _function(node: Node) -> Callable[[Node], Node]:
    """Return a map's function as a Python function."""
    return lambda x: node.children[0].applied_to(x)


def _function2d(node: Node) -> Callable[[Node], Node] | None:
    """Return the function that map2d applies to every element; None for another expression."""
    if not _is_open(node):
        return None
    row, inner = node.children[0].data[0], node.children[0].body
    is_pair = _is_open(inner) and inner.children[1] is row
    if not is_pair or row in inner.children[0].subexpressions():
        return None
    return _function(inner)


def _length(node: Node) -> int:
    assert isinstance(node.type, Array)
    return node.type.length
