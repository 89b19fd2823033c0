"""Stencils' language: types with lengths, errors that name the expression, index arithmetic."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.stencil import (
    Node,
    array,
    at,
    get,
    grid,
    iterate,
    join,
    map2d,
    map_,
    map_local,
    number,
    pad,
    pad2d,
    reduce_,
    slide,
    slide2d,
    split,
    to_local,
    transpose,
    user_fun,
    zip_,
)
from harness.stencil.arith import PADDINGS, Index, Variable, constant
from harness.stencil.types import INT, StencilError

X = grid("x", 12)
IMAGE = grid("image", 8, 6)
add = user_fun("add", "x y", "x + y")


@pytest.mark.parametrize(
    ("expression", "kind"),
    [
        (slide(3, 1, pad(1, 1, "clamp", X)), "[[float]3]12"),
        (slide(5, 2, pad(1, 0, "wrap", X)), "[[float]5]5"),
        (split(4, X), "[[float]4]3"),
        (join(split(4, X)), "[float]12"),
        (transpose(IMAGE), "[[float]8]6"),
        (zip_(X, split(1, X)), "[(float, [float]1)]12"),
        (slide2d((3, 2), 1, IMAGE), "[[[[float]2]3]5]6"),
        (map2d(lambda x: add(x, x), IMAGE), "[[float]6]8"),
        (reduce_(add, 0.0, X), "float"),
        (iterate(3, lambda x: map_(lambda e: add(e, e), x), X), "[float]12"),
        (at(2, IMAGE), "[float]6"),
        (array(4, user_fun("ramp", "i n", "i", (INT, INT))), "[float]4"),
    ],
)
def test_types_have_lengths(expression: Node, kind: str) -> None:
    assert str(expression.type) == kind


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: slide(3, 1, at(0, X)), "slide(3, 1, at(0, x)): expected an array, but `at(0, x)`"),
        (lambda: slide(5, 3, X), "slide(5, 3, x): windows of 5, one every 3, do not end with the"),
        (lambda: split(5, X), "split(5, x): 5 does not divide 12"),
        (lambda: join(X), "join(x): expected an array of arrays, not [float]12"),
        (lambda: zip_(X, IMAGE), "zip(x, image): the lengths differ: 8, 12"),
        (lambda: at(12, X), "at(12, x): it takes element 12 of 12"),
        (lambda: get(0, X), "get(0, x): expected a tuple, but `x` is [float]12"),
        (lambda: pad(1, 1, "clmp", X), "pad(1, 1, clmp, x): the mode is one of constant, clamp,"),
        (lambda: map_(lambda e: add(e), X), "add(?): add takes 2 arguments, but gets 1"),
        (lambda: add(number(1), X), "add(1.0f, x): add takes float y, but `x` is [float]12"),
        (lambda: reduce_(lambda a, e: X, 0.0, X), "the function returns [float]12, not float"),
        (lambda: iterate(2, lambda x: slide(1, 1, x), X), "takes [float]12, so it must"),
        (lambda: to_local(zip_(X, X)), "to_local(zip(x, x)): memory holds numbers, not [("),
        (lambda: reduce_(add, 0.0, X, "local"), "a reduction is one of any, seq, unroll, not"),
        (lambda: grid("global_x", 4), "grid('global_x', ...): 'global_x' is not a valid name, or"),
        (lambda: grid("été", 4), "'été' is not a valid name"),
        (lambda: user_fun("step", "x", "x"), "user_fun('step', 'x', ...): 'step' is not a valid"),
        (lambda: user_fun("f", "int x", "x"), "user_fun('f', 'int x', ...): 'int' is not a"),
        (lambda: user_fun("f", "x x", "x"), "parameters must have different names"),
    ],
)
def test_an_error_names_the_expression(make: Callable[[], object], message: str) -> None:
    with pytest.raises(StencilError) as error:
        make()
    assert message in str(error.value)


def test_expressions_are_equal_up_to_the_names_of_variables() -> None:
    def twice(name: str) -> Node:
        other = user_fun(name, "x y", "x + y")
        return map_(lambda a: map_(lambda b: other(b, b), a), pad2d(1, 1, "clamp", IMAGE))

    assert str(twice("add")) == str(twice("add"))
    assert str(twice("add")) != str(twice("plus"))
    assert str(map_(lambda e: e, X)) != str(map_local(0, lambda e: e, X))


# ------------------------------------------------------------------------------ index arithmetic

VARIABLES = (Variable("x", 0, 6), Variable("y", 0, 10))


@st.composite
def indices(draw: st.DrawFn, depth: int = 3) -> Index:
    """Draw sums as views make them, without negative numerators."""
    if depth == 0:
        leaf = st.sampled_from([*(v.index for v in VARIABLES), constant(draw(st.integers(0, 9)))])
        return draw(leaf)
    inner = draw(indices(depth - 1))
    by = draw(st.integers(1, 7))
    kind = draw(st.sampled_from(["+", "*", "/", "%", *PADDINGS]))
    if kind == "+":
        return inner + draw(indices(depth - 1))
    if kind == "*":
        return inner * by
    if kind == "/":
        return inner // by
    if kind == "%":
        return inner % by
    # Padding may reach at most the array's length beyond it.
    least = max(by, (inner.high - by) // 2 + 1)
    return (inner + -by).padded(kind, max(least, inner.high - draw(st.integers(0, 3))))


@settings(max_examples=50, deadline=None)
@given(indices())
def test_text_in_c_range_and_value_agree(index: Index) -> None:
    """C's division is Python's, since nothing is negative."""
    names = {"min": min, "max": max}
    text = index.text.replace("/", "//")
    for x in range(7):
        for y in range(11):
            value = int(index.value({"x": x, "y": y}))
            assert eval(text, names, {"x": x, "y": y}) == value, text
            assert index.low <= value <= index.high, text


def test_indices_are_simplified_by_their_ranges() -> None:
    x, y = (v.index for v in VARIABLES)
    assert ((y * 7 + x) // 7, (y * 7 + x) % 7) == (y, x)
    assert (x * 8) // 4 == x * 2
    assert ((x + 3) // 4) * 4 + (x + 3) % 4 == x + 3
    assert x.padded("clamp", 7) == x
    assert (x + -1).padded("clamp", 7).text == "max(x - 1, 0)"
    assert (x // 2) // 3 == x // 6
