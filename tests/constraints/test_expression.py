"""The expression language: what it means, what it refuses, and that arrays agree with scalars."""

import ast
import contextlib
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.constraints.expression import FUNCTIONS, WORDS, Expression
from harness.core.errors import ExpressionError

VALUES = {
    "A": 12, "B": 5, "Z": 0, "half": 0.5, "mode": "fast", "flag": None, "on": True,
}  # fmt: skip


def value(text):
    return Expression(text)(VALUES)


def test_expressions_mean_what_python_means():
    cases = {
        "A + B * 2": 22, "A / B": 2.4, "A // B": 2, "-A // B": -3, "A % B": 2,
        "2 ** B": 32, "2 ** -1": 0.5, "ceil_div(A, B)": 3, "min(A, B, 3)": 3,
        "max(A, B, 3)": 12, "abs(B - A)": 7, "ceil(A / B) + floor(A / B)": 5,
        "sqrt(A * 12)": 12, "log2(1024)": 10, "1 < B < A": True, "1 < A < B": False,
        "A in [1, 12] and B not in (1, 2)": True, "A if B > 5 else Z": 0,
        "mode == 'fast' or A < 3": True, "mode in ['slow', 3]": False,
        "on + on": 2, "not on": False, "on == true and not false": True,
        # `and` and `or` are true or false.
        "(A > 1 or B > 9) + 16": 17, "(7 or B) + 16": 17, "(true and not B) == false": True,
        "A or Z": True, "3 if A or Z else 4": 3, "not (A and Z)": True,
    }  # fmt: skip
    for text, expected in cases.items():
        assert value(text) == expected


def test_what_has_no_value_is_nan():
    for text in (
        "A / Z", "A // Z", "A % Z", "Z ** -1", "sqrt(-A)", "log2(Z)", "(-8) ** half",
        "min(A / Z, 1)", "min(1, A / Z)", "max(A / Z, 1)", "max(1, A / Z)",
    ):  # fmt: skip
        assert math.isnan(value(text))


def test_nan_is_no_condition_and_an_absent_flag_has_no_order():
    cases = {
        "A / Z != A / Z": True, "A / Z": False, "not A / Z": False, "A / Z or B": True,
        "(1 if A / Z else 2) == 2": True, "flag == absent": True,
        "flag != 3 and A != absent": True, "flag in [absent, 1]": True,
        "flag < 3 or flag >= 3 or A > absent": False, "flag == absent or flag * A < 1": True,
    }  # fmt: skip
    for text, holds in cases.items():
        assert Expression(text).holds(VALUES) is holds


NOT_ALLOWED = (
    "A.__class__.__bases__[0]", "[1, 2]", "A[0]", "lambda: 1", "(A := 3)", "f'{A}'", "1j", "None",
    "~A", "A << 3", "[" * 90 + "]" * 90,
)  # fmt: skip


def test_what_the_language_lacks_is_refused():
    cases = (
        ("", "`` cannot be read: it is empty"),
        ("A <=", "write arithmetic and comparisons over names, such as LU <= BLOCK / 4"),
        ("A && B", "write `and` instead of &&"),
        ("A || B", "write `or` instead of ||"),
        ("!A", "write `not` instead of !"),
        ("A = 4", "write == to compare"),
        ("A ? 1 : 2", "write `a if condition else b`"),
        ("ceil_div(A", "its brackets do not match"),
        ("a < 1 # note\n and b < 1", "cannot be read"),
        ("A.real", "`A.real` in `A.real` is not allowed"),
        *((text, "is not allowed") for text in NOT_ALLOWED),
        ("__import__('os').system('true')", "`__import__('os').system` in"),
        ("open('x')", "`open` in `open('x')` is not a function: there are abs, "),
        ("cell(A)", "did you mean `ceil`?"),
        ("min(A)", "takes 2 to 8 arguments, but got 1"),
        ("sqrt(A, B)", "takes 1 argument, but got 2"),
        ("sqrt(x=A)", "takes 1 argument, but got one by name"),
        ("min(*A, B)", "`*A` in `min(*A, B)` is not allowed"),
        ("A is 3", "`is` in `A is 3` is not allowed there: compare with =="),
        ("A in B", "needs a list such as [1, 2, 4]"),
        ("A in [1] == true", "needs a list"),
        ("1 < A in [2]", "`in` in `1 < A in [2]` is not allowed there"),
        ("+".join("1" * 400), "nested more than 100 deep"),
        ("(" * 400 + "1" + ")" * 400, "cannot be read"),
        ("~" * 900 + "1", "~~1"),  # by the parser or by us, as Python's version will
        ("1" * 2000, "at most 1,000 characters, but this one has 2,000"),
        ("A\0", "cannot be read"),
    )
    for text, printed in cases:
        with pytest.raises(ExpressionError) as caught:
            Expression(text)
        assert printed in str(caught.value)


NO_TEXT = "a text can be compared, not calculated with"


def test_what_cannot_be_computed_says_why():
    cases = (
        ("9" * 400 + " / 2 * half", "a number in it is too large"),
        *((text, NO_TEXT) for text in ("mode * 1000", "mode % A", "min(mode, A)", "-mode")),
        ("mode < A", "with mode=fast, A=12: a text and a number have no order"),
        ("flag * A", "an absent flag can be compared, not calculated with"),
    )
    for text, printed in cases:
        with pytest.raises(ExpressionError, match="cannot be computed") as caught:
            value(text)
        assert printed in str(caught.value)


def test_why_false_tells_the_values_in_the_order_of_the_text():
    text = "B * A <= 4 or on == false or flag > 1"
    expression, values = Expression(text), "B=5, A=12, on=true, flag=absent"
    assert expression.why_false(VALUES) == f"`{text}` is false with {values}"
    assert expression.why_false({**VALUES, "B": 0}) is None
    assert Expression("1 > 2").why_false({}) == "`1 > 2` is false"


def test_text_is_joined_to_one_line():
    assert Expression(" A <=\n  B ").text == "A <= B"


def test_logarithms_of_powers_of_two_are_exact():
    exponents, logarithm = list(range(-60, 60)), Expression("log2(x)")
    assert [logarithm({"x": 2.0**exponent}) for exponent in exponents] == exponents
    assert logarithm({"x": np.exp2(exponents)}).tolist() == exponents


LARGE = [2**53, 2**53 - 1, 94906267, 3**33]


def test_large_numbers_are_doubles_for_scalars_and_arrays_alike():
    cases = ("A * A", "A ** 2", "A + 1 == 2 ** 53 + 1", "A // 3 * 4", "A % 7")
    for text in cases:
        expression = Expression(text)
        assert expression({"A": np.array(LARGE)}).tolist() == [expression({"A": n}) for n in LARGE]


def test_whole_numbers_are_doubles_above_2_to_the_53():
    cases = {"3 ** 33": 3**33, "94906265 * 94906265": 94906265**2, "2 ** 53 - 1": 2**53 - 1,
     "2 ** 53 + 1 == 2 ** 53": True, "2 ** 1000 > 2 ** 999": True,
     "10 ** 200 * 10 ** 200": math.inf, "10 ** 200 * 10 ** 200 <= A": False}  # fmt: skip
    for text, expected in cases.items():
        assert repr(value(text)) == repr(expected)


_NAMES = st.sampled_from(["i", "j", "x", "b", "m"])
_LEAVES = _NAMES | st.integers(-9, 9).map(str) | st.sampled_from(["0.5", "true", "false"])


_TEMPLATES = [
    "({0} + {1})", "({0} - {1})", "({0} * {1})", "({0} / {1})", "({0} // {1})", "({0} % {1})",
    "({0} < {1})", "({0} <= {1})", "({0} > {1})", "({0} >= {1})", "({0} == {1})", "({0} != {1})",
    "({0} and {1})", "({0} or {1})", "({0} > 0 and not {1})", "({0} > 0 or not {1})",
    "(not {0})", "(-{0})", "({0} if {1} else {2})", "({0} in [{1}, {2}])",
    "({0} ** 0)", "({0} ** 2)", "({0} ** 3)", "({0} ** -1)", "({0} ** 0.5)",
]  # fmt: skip
for _name, (_fewest, _) in FUNCTIONS.items():
    _TEMPLATES.append(_name + ("({0})" if _fewest == 1 else "({0}, {1})"))


def _joined(parts):
    return st.builds(str.format, st.sampled_from(_TEMPLATES), parts, parts, parts)


_COLUMNS = {
    "i": [-3, 0, 1, 4, 1024],
    "j": [-7, 0, 2, 9],
    "x": [-1.5, 0.0, 0.25, 3.0],
    "b": [False, True],
}


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.recursive(_LEAVES, _joined, max_leaves=16))
def test_arrays_and_scalars_agree_on_random_expressions(text):
    try:
        expression = Expression(text)
    except ExpressionError:
        return
    shape = tuple(len(column) for column in _COLUMNS.values())
    arrays = {
        name: np.array(column).reshape([-1 if axis == place else 1 for axis in range(len(shape))])
        for place, (name, column) in enumerate(_COLUMNS.items())
    }
    try:
        table = np.broadcast_to(expression({**arrays, "m": 37}), shape)
    except ExpressionError:
        return  # what arrays refuse is computed by scalars
    for index in np.ndindex(shape):
        picked = {name: _COLUMNS[name][place] for name, place in zip(_COLUMNS, index, strict=True)}
        single = expression({**picked, "m": 37})
        assert table[index] == single or (math.isnan(single) and math.isnan(table[index]))


_PYTHONS = {
    "__builtins__": {}, "true": True, "false": False, "min": min, "max": max, "abs": abs,
    "ceil": math.ceil, "floor": math.floor, "sqrt": math.sqrt, "log2": math.log2,
    "ceil_div": lambda a, b: -(-a // b),
}  # fmt: skip


class _Truths(ast.NodeTransformer):
    """Makes the values of `and` and `or` true or false, as they are here."""

    def visit_BoolOp(self, node):
        self.generic_visit(node)
        return ast.Call(ast.Name("bool", ast.Load()), [node], [])


def _pythons_value(text, values):
    """What Python computes; None where that raises, or is a complex number."""
    tree = ast.fix_missing_locations(_Truths().visit(ast.parse(text, mode="eval")))
    try:
        computed = eval(compile(tree, "", "eval"), {"bool": bool, **_PYTHONS, **values})
    except (ArithmeticError, ValueError, TypeError):
        return None
    return computed if isinstance(computed, (int, float)) else None


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    st.recursive(_LEAVES, _joined, max_leaves=16).filter(lambda text: "** 0.5" not in text),
    st.tuples(*(st.sampled_from(column) for column in _COLUMNS.values())),
)
def test_random_expressions_are_python_s(text, picked):
    values = {**dict(zip(_COLUMNS, picked, strict=True)), "m": 37}
    expected = _pythons_value(text, values)
    if expected is None:
        return
    try:
        expression = Expression(text)
        computed = expression(values)
    except ExpressionError:
        return  # a number used as a condition, or too large
    assert bool(expression.holds(values)) == bool(expected)
    assert float(computed) == pytest.approx(float(expected), rel=1e-12, abs=0)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.text(alphabet="AB01.()[]<>=!&|,'\" \n#+-*/%:;{}@\\_~^?xinotrad", max_size=40))
def test_any_text_is_an_expression_or_refused(text):
    with contextlib.suppress(ExpressionError):
        assert Expression(text).names is not None


def test_names_are_those_that_need_values():
    text = "min(A, B) <= sqrt(max_group_size) and C in [D, true, absent]"
    assert Expression(text).names == {"A", "B", "max_group_size", "C", "D"}
    assert not Expression(" and ".join(WORDS)).names
