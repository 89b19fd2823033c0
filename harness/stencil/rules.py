"""Rewrite rules: from an expression to others that compute the same.

A rule is a function from a node to its possible replacements; `everywhere` applies it inside an
expression. The rules `mapped`, `in_local`, `in_private` and `unrolled` decide how an expression is
carried out; the others rearrange its computation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from harness.stencil.ir import Node, apply, make, subexpressions, substitute
from harness.stencil.language import (
    get,
    join,
    join2d,
    let,
    map2d,
    map_,
    reduce_,
    slide,
    slide2d,
    split,
    split2d,
    to_local,
    to_private,
    transpose,
    zip2d,
    zip_,
)
from harness.stencil.types import Array, Tuple, leaf, shape
from harness.stencil.views import REARRANGING, rearranges

Rule = Callable[[Node], Iterator[Node]]
Cut = tuple[Node, Callable[[Node], Node]]
"""An array cut into parts, and a function from one part to its share of the array."""


def everywhere(rule: Rule, node: Node) -> Iterator[Node]:
    """Apply a rule at one position; yield the expression for each position and each result."""
    yield from rule(node)
    for index, child in enumerate(node.children):
        for new in everywhere(rule, child):
            children = (*node.children[:index], new, *node.children[index + 1 :])
            yield make(node.op, children, node.data)


# --------------------------------------------------------------------- divide and conquer, fusion


def split_join(size: int) -> Rule:
    """Cut a map into parts: map(f, x) = join(map(map(f), split(size, x)))."""

    def rule(node: Node) -> Iterator[Node]:
        if _is_open(node) and _length(node) % size == 0 and 1 < size < _length(node):
            f, x = _function(node), node.children[1]
            yield join(map_(lambda part: map_(f, part), split(size, x)))

    return rule


def interchange(node: Node) -> Iterator[Node]:
    """Interchange two nested maps: columns of rows instead of rows of columns."""
    inner = node.children[0].body if _is_open(node) else node
    if inner is node or not _is_open(inner) or inner.children[1] is not node.children[0].data[0]:
        return
    f = _function(inner)
    if node.children[0].data[0] in subexpressions(inner.children[0]):
        return
    columns = map_(lambda column: map_(f, column), transpose(node.children[1]))
    yield transpose(columns)


def written_out(node: Node) -> Iterator[Node]:
    """Write iterations out: iterate(n, f, x) = f(... f(x))."""
    if node.op == "iterate":
        function, x = node.children
        for _ in range(node.data[0]):
            x = apply(function, x)
        yield x


def fuse_maps(node: Node) -> Iterator[Node]:
    """Fuse maps: map(f, map(g, x)) = map(x => f(g(x)), x), where g computes something.

    A g that only rearranges data, as windows of two dimensions do, stays: tiling has to see it.
    """
    if node.op == "map" and node.children[1].op == "map":
        f, inner = _function(node), node.children[1]
        if inner.data == node.data and _computes(inner.children[0]):
            g = _function(inner)
            yield map_(lambda x: f(g(x)), inner.children[1], *node.data)


def _computes(function: Node) -> bool:
    return any(node.op in ("call", "reduce") for node in subexpressions(function))


def fuse_reduce(node: Node) -> Iterator[Node]:
    """Fuse a map into a reduction: reduce(f, map(g, x)) = reduce((sum, x) => f(sum, g(x)), x)."""
    if node.op == "reduce" and node.children[2].op == "map":
        step, start, inner = node.children
        if inner.data[0] == "any":
            g = _function(inner)
            yield reduce_(
                lambda sum_, x: apply(step, sum_, g(x)), start, inner.children[1], node.data[0]
            )


# ----------------------------------------------------------------------------- overlapped tiling


def tile(size: int) -> Rule:
    """Turn a map over windows into a map over overlapping tiles of `size` windows."""

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
    windows, zipped = match_slide2d(x), match_zip2d(x)
    if windows is not None:
        (h, w), (down, right), array = windows
        size = (h - down + high * down, w - right + wide * right)
        parts = slide2d(size, (high * down, wide * right), array)
        return parts, lambda part: slide2d((h, w), (down, right), part)
    if zipped is not None:
        cuts = [_cut2d(array, high, wide) for array in zipped]
        return zip2d(*(parts for parts, _ in cuts)), lambda part: zip2d(*_within(cuts, part))
    return split2d((high, wide), x), lambda part: part


def _within(cuts: Sequence[Cut], part: Node) -> Iterator[Node]:
    return (within(get(index, part)) for index, (_, within) in enumerate(cuts))


def match_slide2d(x: Node) -> tuple[tuple[int, int], tuple[int, int], Node] | None:
    """Return the sizes, steps and array of slide2d(..., array); None for another expression."""
    if not (x.op == "map" and x.children[1].op == "slide"):
        return None
    (high, down), body = x.children[1].data, x.children[0].body
    is_transposed = body.op == "transpose" and body.children[0].op == "map"
    inner = body.children[0].children[0].body if is_transposed else body
    if inner.op != "slide":
        return None
    made = slide2d((high, inner.data[0]), (down, inner.data[1]), x.children[1].children[0])
    if made.key != x.key:
        return None
    return (high, inner.data[0]), (down, inner.data[1]), x.children[1].children[0]


def match_zip2d(x: Node) -> tuple[Node, ...] | None:
    """Return the arrays of zip2d(...); None for another expression."""
    if x.op == "map" and x.children[1].op == "zip" and x.children[0].body.op == "zip":
        arrays = x.children[1].children
        return arrays if zip2d(*arrays).key == x.key else None
    return None


# ------------------------------------------------------------------------ how it is carried out


def spine(node: Node) -> list[Node]:
    """List the nested maps that compute the result, the outermost first."""
    if node.op == "map" and not rearranges(node):
        return [node, *spine(node.children[0].body)]
    return [] if _next(node) is None else spine(_next(node))  # type: ignore[arg-type]


def lengths(node: Node) -> list[int]:
    """List the length of each map of the spine."""
    return [_length(map_node) for map_node in spine(node)]


def on_spine(rule: Rule, level: int, node: Node) -> Iterator[Node]:
    """Apply a rule to one map of the spine; level 0 is the outermost."""
    if node.op == "map" and not rearranges(node):
        if level == 0:
            yield from rule(node)
            return
        level -= 1
    if _next(node) is not None:
        for new in on_spine(rule, level, _next(node)):  # type: ignore[arg-type]
            yield _with_next(node, new)


def mapped(kinds: Sequence[tuple[str, int]]) -> Callable[[Node], Node]:
    """Carry out each map of the spine as one of `kinds`, from outside in."""

    def decided(node: Node) -> Node:
        for level, kind in enumerate(kinds):
            (node,) = on_spine(lambda x, k=kind: iter([make("map", x.children, k)]), level, node)  # type: ignore[misc]
        return node

    return decided


def _next(node: Node) -> Node | None:
    """Return the next node on the way to the map that computes the result."""
    if node.op == "map" and not rearranges(node):
        return node.children[0].body
    if node.op == "let":
        return node.children[0].body
    return node.children[-1] if node.op in REARRANGING else None


def _with_next(node: Node, new: Node) -> Node:
    if node.op == "let" or (node.op == "map" and not rearranges(node)):
        function = make("fun", (new,), node.children[0].data)
        return make(node.op, (function, *node.children[1:]), node.data)
    return make(node.op, (*node.children[:-1], new), node.data)


def reused(function: Node) -> dict[str, Node]:
    """Find the arrays that a function slides windows over: its parameter or parts of it."""
    slid = [x.children[0] for x in subexpressions(function.body) if x.op == "slide"]
    found = {_part(array, function.data[0]): array for array in slid}
    return {name: found[name] for name in sorted(n for n in found if n is not None)}


def in_local(arrays: Sequence[str], dims: Sequence[int]) -> Rule:
    """Copy reused arrays to local memory at the start of the innermost groups.

    Threads along `dims` share the copying. `arrays` are names that `names_of` returns.
    """

    def rule(node: Node) -> Iterator[Node]:
        if node.op != "map" or node.data[0] != "workgroup":
            return
        function = node.children[0]
        chosen = [x for name, x in reused(function).items() if name in arrays]
        if len(chosen) == len(arrays) > 0 and all(len(shape(x.type)) >= len(dims) for x in chosen):
            copied = [(x, to_local(_copy(x, _copy_kinds(x, dims)))) for x in chosen]
            yield _around(node, copied)

    return rule


def in_private(node: Node) -> Iterator[Node]:
    """Copy a function's arguments, arrays of at most 25 numbers, to private variables first."""
    if node.op != "map" or node.children[0].body.op == "let" or rearranges(node):
        return
    (parameter,) = node.children[0].data
    arrays = [parameter]
    if isinstance(parameter.type, Tuple):
        arrays = [get(k, parameter) for k in range(len(parameter.type.parts))]
    chosen = [x for x in arrays if shape(x.type) and math.prod(shape(x.type)) <= 25]
    chosen = [x for x in chosen if not isinstance(leaf(x.type), Tuple)]
    if chosen and not shape(node.children[0].type):
        kinds = [[("unroll", 0)] * len(shape(x.type)) for x in chosen]
        copied = [(x, to_private(_copy(x, k))) for x, k in zip(chosen, kinds, strict=True)]
        yield _around(node, copied)


def unrolled(node: Node) -> Iterator[Node]:
    """Unroll a reduction or a sequential map of at most 25 elements."""
    kinds = {"reduce": ("any", "seq"), "map": ("seq",)}
    if node.op in kinds and node.data[0] in kinds[node.op] and _length(node.children[-1]) <= 25:
        yield make(node.op, node.children, ("unroll", 0))


def names_of(node: Node) -> list[str]:
    """List the arrays that `in_local` can copy in the innermost groups."""
    groups = [x for x in subexpressions(node) if x.op == "map" and x.data[0] == "workgroup"]
    return list(reused(groups[-1].children[0])) if groups else []


def _around(node: Node, copied: Sequence[tuple[Node, Node]]) -> Node:
    """Make the map's function compute the copies first, and use them instead of the arrays."""
    function = node.children[0]
    body, (parameter,) = function.body, function.data
    for array, copy in copied:
        name = _part(array, parameter)
        same = [x for x in subexpressions(body) if _part(x, parameter) == name]
        body = _with_copy(body, same, copy)
    return make("map", (make("fun", (body,), function.data), node.children[1]), node.data)


def _with_copy(body: Node, arrays: Sequence[Node], copy: Node) -> Node:
    def within(own: Node) -> Node:
        return substitute(body, dict.fromkeys(arrays, own))

    return let(within, copy)


def _part(node: Node, parameter: Node) -> str | None:
    """Name a parameter "" and a part of it by its number; return None for another expression."""
    if node.op == "get" and node.children[0] is parameter:
        return str(node.data[0])
    return "" if node is parameter else None


def _copy_kinds(array: Node, dims: Sequence[int]) -> list[tuple[str, int]]:
    outer = len(shape(array.type)) - len(dims)
    return [("seq", 0)] * outer + [("local", dim) for dim in dims]


def _copy(x: Node, kinds: Sequence[tuple[str, int]]) -> Node:
    if not kinds:
        return x
    (kind, dim), *rest = kinds
    return map_(lambda element: _copy(element, rest), x, kind, dim)


# ------------------------------------------------------------------------------------- matching


def _is_open(node: Node) -> bool:
    """Return whether it is a map that computes something and has no decided kind."""
    return node.op == "map" and node.data[0] == "any" and not rearranges(node)


def _function(node: Node) -> Callable[[Node], Node]:
    """Return a map's function as a Python function."""
    return lambda x: apply(node.children[0], x)


def _function2d(node: Node) -> Callable[[Node], Node] | None:
    """Return the function that map2d applies to every element; None for another expression."""
    if not _is_open(node):
        return None
    row, inner = node.children[0].data[0], node.children[0].body
    is_pair = _is_open(inner) and inner.children[1] is row
    if not is_pair or row in subexpressions(inner.children[0]):
        return None
    return _function(inner)


def _length(node: Node) -> int:
    assert isinstance(node.type, Array)
    return node.type.length
