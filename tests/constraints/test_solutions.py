"""Counting and indexing solutions, held against brute force."""

import itertools
import operator
import random
import time
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.constraints.expression import Expression
from harness.constraints.parts import TooLarge, truth_table
from harness.constraints.solutions import Solutions
from harness.core.errors import ExpressionError


def brute_force(domains, texts, given):
    """What all constraints allow; what cannot be computed is not allowed."""
    constraints = [Expression(text) for text in texts]
    allowed = []
    for point in np.ndindex(*map(len, domains.values())):
        row = dict(given)
        for name, place in zip(domains, point, strict=True):
            row[name] = domains[name][place]
        if all(constraint.allows(row) for constraint in constraints):
            allowed.append(list(point))
    return allowed


def solve(domains, texts, **given):
    return Solutions(domains, [Expression(text) for text in texts], given)


def check_against_brute_force(domains, texts, given):
    """Count, list, judge and find the nearest of all points of small domains."""
    solutions, expected = solve(domains, texts, **given), brute_force(domains, texts, given)
    assert not solutions.left_out
    assert solutions.count == len(expected)
    assert sorted(solutions.points(range(solutions.count)).tolist()) == expected
    extents = [len(values) for values in domains.values()]
    points = np.array(list(np.ndindex(*extents)))
    assert points[solutions.contains(points)].tolist() == expected
    for here in points[:: max(1, len(points) // 3)]:
        away = {}
        for name, extent, place in zip(domains, extents, here, strict=True):
            away[name] = abs(np.arange(extent) - place) / extent
        nearest = solutions.nearest(here.tolist(), away.__getitem__, random.Random(0))
        assert (nearest is None) == (not expected)
        if nearest is not None:
            assert nearest in expected
            costs = (abs(np.array([nearest, *expected]) - here) / extents).sum(axis=1)
            assert costs[0] == pytest.approx(min(costs))


# Everything that the language has, over whole numbers, fractions, zeros and truths.
TERMS = st.recursive(
    st.sampled_from(["A", "B", "C", "D", "m", "2", "3", "0.5", "0"]),
    lambda term: st.one_of(
        st.builds(
            "({} {} {})".format, term, st.sampled_from(["+", "-", "*", "/", "//", "%"]), term
        ),
        st.builds("{}({}, {})".format, st.sampled_from(["min", "max", "ceil_div"]), term, term),
        st.builds("({} if {} > {} else {})".format, term, term, term, term),
        st.builds("{}({})".format, st.sampled_from(["abs", "-", "ceil", "sqrt", "log2"]), term),
    ),
    max_leaves=6,
)
SIGNS = st.sampled_from(["<=", "<", ">=", ">", "==", "!="])
RELATIONS = st.builds("({} {} {})".format, TERMS, SIGNS, TERMS)
CONDITIONS = st.recursive(
    st.one_of(
        RELATIONS,
        st.builds("({} <= {} < {})".format, TERMS, TERMS, TERMS),
        st.builds("({} in [1, 2, {}])".format, TERMS, TERMS),
    ),
    lambda condition: st.one_of(
        st.builds("({} {} {})".format, condition, st.sampled_from(["and", "or"]), condition),
        st.builds("(not {})".format, condition),
    ),
    max_leaves=4,
)
NUMBERS = {"A": range(4), "B": (1, 2, 4), "C": (False, True), "D": (-1, 0.5, 2)}


@settings(max_examples=50, deadline=None)
@given(texts=st.lists(CONDITIONS, min_size=1, max_size=3))
def test_any_conditions_agree_with_brute_force(texts):
    check_against_brute_force(NUMBERS, texts, {"m": 3})


PRODUCTS = {"A": (2**40, 2**52 + 1, 3), "B": (2**40, 5, 2**52 - 1), "C": (2**53, 7)}
WORDS = {"W": ("x", "y"), "V": ("y", "z"), "A": (1, 2)}
FLAGS = {"mode": ("slow", "fast"), "flag": (None, 16, 32), "A": range(1, 100)}


F_A_B = {"F": (None, 2), "A": range(3), "B": range(3)}


@pytest.mark.parametrize(
    "domains, texts",
    [
        ({"A": range(3), "B": ("x", "y")}, []),  # no constraint
        # Texts and absent flags.
        (FLAGS, ["mode == 'slow' or A < 50", "flag == absent or flag * A <= 640"]),
        (PRODUCTS, ["A * B * C % 7 == 0 or A * B < 2 ** 60"]),  # above 64 bits
        (F_A_B, ["not F * A * B > 2"]),  # not computable, negated
        (F_A_B, ["A > 1 or F * A * B >= 0"]),  # not computable behind an alternative
        (WORDS, ["W == V or A > 1", "W != 'x' or A < 2"]),  # texts
        ({"F": (None, 1, 2), "A": (1, 2)}, ["F < 2"]),  # an absent flag has no order
        ({"A": range(3), "B": range(3)}, ["(A if B > 1 else word) == 2"]),  # a choice of a text
        ({"E": range(100), "N": (10, 1000)}, ["E <= 20 and 2 ** E <= N"]),  # short circuits
        ({f"P{i}": range(4) for i in range(5)}, [f"P{i} <= P{i + 1}" for i in range(4)]),
    ],
)
def test_solutions_are_those_of_brute_force(domains, texts):
    check_against_brute_force(domains, texts, {"word": "a"})


# ------------------------------------------------------ too much for a table of all of it


NUMBERS_FROM_1 = range(1, 13)


def folded(operation, times):
    """How many ways lead to each sum or product of so many of the numbers."""
    ways = Counter(NUMBERS_FROM_1)
    for _ in range(times - 1):
        longer = Counter[int]()
        for (value, count), number in itertools.product(ways.items(), NUMBERS_FROM_1):
            longer[operation(value, number)] += count
        ways = longer
    return ways


@pytest.mark.parametrize("relation", ["{} <= {}", "{} == {}", "{} > {}", "({}) % 7 == 3"])
@pytest.mark.parametrize(
    "sign, operation, bound", [(" + ", operator.add, 40), (" * ", operator.mul, 4096)]
)
def test_sums_and_products(relation, sign, operation, bound):
    names = [f"P{i}" for i in range(6)]
    constraint = Expression(relation.format(sign.join(names), bound))
    condition = Expression(relation.format("total", bound))
    solutions = solve(dict.fromkeys(names, NUMBERS_FROM_1), [constraint.text])
    ways = folded(operation, 6)
    assert solutions.count == sum(ways[n] for n in ways if condition.holds({"total": n}))
    for row in solutions.draw(np.random.default_rng(0), 100) + 1:
        assert constraint.holds(dict(zip(names, row, strict=True)))


def test_many_values_among_others_are_counted():
    solutions = solve({"A": range(1, 10**5 + 1), "B": range(1, 9)}, ["A % B == 0"])
    assert solutions.count == sum(10**5 // b for b in range(1, 9))


def test_a_random_graph_of_constraints_is_counted_soon():
    """30 parameters, connected by 35 constraints over two of them each."""
    rng = random.Random(0)
    domains = {f"P{i}": range(1, 9) for i in range(30)}
    relations = ["{} * {} <= 24", "{} % {} == 0", "{} + {} <= 10", "{} <= {}", "{} != {}"]
    texts = []
    for _ in range(35):
        first, second = rng.sample(list(domains), 2)
        texts.append(rng.choice(relations).format(first, second))
    began = time.process_time()
    solutions = solve(domains, texts)
    assert time.process_time() - began < 2  # 0.05 s on an idle core
    assert not solutions.left_out
    assert solutions.contains(solutions.draw(np.random.default_rng(0), 100)).all()


def test_flags_that_may_be_absent_are_part_of_large_conditions():
    domains = dict.fromkeys("ABCD", NUMBERS_FROM_1)
    domains["F"] = (None, 16, 64)
    ways = folded(operator.mul, 4)
    expected = sum(ways[n] * (1 + (n <= 4096) + (n <= 1024)) for n in ways)
    assert solve(domains, ["F == absent or F * A * B * C * D <= 65536"]).count == expected


@pytest.fixture
def short_of_room(monkeypatch):
    monkeypatch.setattr("harness.constraints.solutions.MOST_EDGES", (1 << 12,))


def test_a_constraint_without_structure_is_left_out(short_of_room):
    names = [f"P{i}" for i in range(7)]
    primes = (7919, 104729, 1299709, 15485863, 32452843, 49979687, 67867967)
    scattered = " + ".join(f"{name} * {prime}" for name, prime in zip(names, primes, strict=True))
    texts = [f"({scattered}) % 1000003 == 5", "P0 <= P1", "P2 * P3 <= 64"]
    solutions = solve(dict.fromkeys(names, range(1, 17)), texts)
    assert [constraint.text for constraint in solutions.left_out] == [texts[0]]
    small_products = sum(a * b <= 64 for a in range(1, 17) for b in range(1, 17))
    assert solutions.count == 136 * small_products * 16**3


@pytest.mark.parametrize(
    "domains, text",
    [
        ({"A": range(10**4), "B": range(10**4)}, "A < B"),
        ({"A": range(2**53)}, "A % 3 == 0"),
        ({name: tuple(name * i for i in range(500)) for name in "AB"}, "A == B"),
    ],
)
def test_too_large_is_said_before_the_work_is_done(domains, text):
    began = time.process_time()
    with pytest.raises(TooLarge):
        truth_table(Expression(text).holds, domains, {})
    assert [constraint.text for constraint in solve(domains, [text]).left_out] == [text]
    assert time.process_time() - began < 10


def test_of_small_constraints_that_tie_much_together_some_are_left_out(short_of_room):
    domains = {f"P{i}": range(16) for i in range(6)}
    pairs = list(itertools.combinations(domains, 2))
    solutions = solve(domains, [f"{first} != {second}" for first, second in pairs])
    assert 0 < len(solutions.left_out) < len(pairs)


def test_what_no_scalar_can_compute_either_is_an_error():
    with pytest.raises(ExpressionError, match="no order"):
        truth_table(Expression("A < 3").holds, {"A": (1, 2, "x")}, {})
