"""Counting and indexing solutions, held against brute force."""

from __future__ import annotations

import functools
import itertools
import operator
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from benchmarks.space import read_cases
from harness.constraints.expression import Expression
from harness.constraints.solver import Solutions, TooLarge, constraint_factor
from harness.constraints.solver.bounds import Bounds, exactly
from harness.constraints.solver.residue import Inseparable, Residue
from harness.core.errors import ExpressionError
from harness.core.records import Config, Value

Domains = Mapping[str, Sequence[Value]]

TEMPLATES = (
    "{a} <= {b}",
    "{a} * {b} <= {n}",
    "{a} % {b} == 0",
    "{a} + {b} != {c}",
    "{a} / {b} < {c}",
    "{a} in [1, 2, {n}]",
    "{a} == {b} or {c} > {n}",
    "{a} < {n}",
    "not {a} == {b}",
    "m > {n} or {a} > 1",
)


def brute_force(domains: Domains, texts: Sequence[str], given: Mapping[str, Value]) -> set[Config]:
    constraints = [Expression(text) for text in texts]
    rows = (dict(zip(domains, row, strict=True)) for row in itertools.product(*domains.values()))
    return {
        Config(row) for row in rows if not any(c.why_false({**row, **given}) for c in constraints)
    }


def solve(domains: Domains, texts: Sequence[str], **given: Value) -> Solutions:
    return Solutions(domains, [Expression(text) for text in texts], given)


def listed(solutions: Solutions) -> list[Config]:
    return [Config(solutions[index]) for index in range(solutions.count)]


def random_problem(rng: random.Random) -> tuple[Domains, list[str]]:
    choices: list[Sequence[Value]] = [
        range(1, 5),
        range(0, 7, 3),
        (1, 2, 4),
        (False, True),
        (0.5, 1, 2.5),
        (None, 1, 4),
        (-2, 0, 2),
    ]
    domains = {name: rng.choice(choices) for name in "ABCDE"[: rng.randint(1, 5)]}
    names = list(domains)
    texts = [
        rng.choice(TEMPLATES).format(
            a=rng.choice(names), b=rng.choice(names), c=rng.choice(names), n=rng.randint(0, 6)
        )
        for _ in range(rng.randint(0, 4))
    ]
    return domains, texts


WAYS = {
    "tables": {},
    "diagrams of tables": {"solver.MAX_JOINT_ENTRIES": 0},
    "diagrams of conditions": {
        "solver.MAX_JOINT_ENTRIES": 0,
        "reduction._MAX_ENTRIES": 1,
        "reduction._MAX_ENTRIES_OF_FEW": 1,
    },
    "any": {"solver.MAX_JOINT_ENTRIES": 12, "reduction._MAX_ENTRIES_OF_FEW": 9},
}


@contextmanager
def solved_by(way: str) -> Iterator[None]:
    """How problems are solved that are too small to be solved but in one way."""
    with pytest.MonkeyPatch.context() as patch:
        for limit, value in WAYS[way].items():
            patch.setattr(f"harness.constraints.solver.{limit}", value)
        yield


@pytest.mark.parametrize("seed", range(100))
def test_random_problems_agree_with_brute_force(seed: int) -> None:
    domains, texts = random_problem(random.Random(seed))
    try:
        expected = brute_force(domains, texts, {"m": 3})
    except ExpressionError:
        return  # what cannot be computed has tests of its own
    for way in WAYS:
        with solved_by(way):
            solutions = solve(domains, texts, m=3)
            assert not solutions.left_out, way
            assert len(expected) == solutions.count, way
            assert set(listed(solutions)) == expected, way


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
RELATIONS = st.builds(
    "({} {} {})".format, TERMS, st.sampled_from(["<=", "<", ">=", ">", "==", "!="]), TERMS
)
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
NUMBERS: Domains = {"A": range(4), "B": (1, 2, 4), "C": (False, True), "D": (-1, 0.5, 2)}


@settings(max_examples=60, deadline=None)
@given(texts=st.lists(CONDITIONS, min_size=1, max_size=3))
def test_any_conditions_agree_with_brute_force(texts: list[str]) -> None:
    try:
        expected = brute_force(NUMBERS, texts, {"m": 3})
    except ExpressionError:
        return
    for way in WAYS:
        with solved_by(way):
            try:
                solutions = solve(NUMBERS, texts, m=3)
            except ExpressionError:
                continue
            found = listed(solutions)
        assert set(found) >= expected, way
        assert solutions.left_out or len(found) == len(expected), way


@settings(max_examples=100, deadline=None)
@given(text=CONDITIONS, known=st.permutations("ABCD"), count=st.integers(0, 3), data=st.data())
def test_bounds_hold_whatever_the_other_values_are(
    text: str, known: list[str], count: int, data: st.DataObject
) -> None:
    expression = Expression(text)
    residue = Residue(known, NUMBERS, {"m": 3})
    try:
        residue.add(expression)
    except Inseparable:
        return
    places = [data.draw(st.integers(0, len(NUMBERS[name]) - 1)) for name in known]
    bounds: dict[int, Bounds | None] = {}
    values: dict[int, npt.NDArray[Any]] = {}
    with np.errstate(all="ignore"):
        for number, part in enumerate(residue.parts):
            place = places[part.last]
            one = None if part.table is None else part.table[place : place + 1]
            values[number] = part.value(values) if one is None else one
            is_known = part.last < count
            bounds[number] = exactly(values[number]) if is_known else part.bounds(bounds)
    for number, value in values.items():
        found = bounds[number]
        if found is not None:
            assert found[0] <= value <= found[1]


PRODUCTS: Domains = {"A": (2**40, 2**52 + 1, 3), "B": (2**40, 5, 2**52 - 1), "C": (2**53, 7)}
FLAGS: Domains = {"mode": ("slow", "fast"), "flag": (None, 16, 32), "A": range(1, 100)}


@pytest.mark.parametrize(
    ("domains", "texts"),
    [
        ({"A": range(3), "B": ("x", "y")}, []),
        (FLAGS, ["mode == 'slow' or A < 50", "flag == absent or flag * A <= 640"]),
        (PRODUCTS, ["A * B * C % 7 == 0 or A * B < 2 ** 60"]),
        ({"E": range(100), "N": (10, 1000)}, ["E <= 20 and 2 ** E <= N"]),
        ({f"P{i}": range(4) for i in range(5)}, [f"P{i} <= P{i + 1}" for i in range(4)]),
    ],
    ids=["no constraint", "texts and absent flags", "above 64 bits", "short circuits", "chains"],
)
def test_solutions_are_those_of_brute_force(domains: Domains, texts: list[str]) -> None:
    found = listed(solve(domains, texts))
    expected = brute_force(domains, texts, {})
    assert len(found) == len(expected)
    assert set(found) == expected


def test_constraint_on_the_input_alone_allows_all_or_nothing() -> None:
    domains = {"A": range(3), "B": range(4)}
    assert solve(domains, ["m > 2"], m=3).count == 12
    assert solve(domains, ["m > 2"], m=2).count == 0


def test_comparison_with_an_absent_flag_is_false() -> None:
    solutions = solve({"F": (None, 1, 2)}, ["F < 2"])
    assert (solutions.count, solutions[0]) == (1, {"F": 1})


def test_values_keep_their_types() -> None:
    solutions = solve({"A": (1, 2), "B": (True, False), "C": (1.0, 0.5)}, ["A <= 1", "B", "C >= 1"])
    assert repr(solutions[0]) == "{'A': 1, 'B': True, 'C': 1.0}"


def test_index_outside_the_solutions_is_refused() -> None:
    solutions = solve({"A": range(5)}, ["A > 2"])
    for index in (-1, 2):
        with pytest.raises(IndexError):
            solutions[index]


def test_billions_of_points_open_in_a_second() -> None:
    domains = {f"P{i}": range(1, 33) for i in range(12)}
    texts = [f"P{i} <= P{i + 1}" for i in range(11)] + ["P0 + P5 <= m"]
    began = time.process_time()
    solutions = solve(domains, texts, m=40)
    rng = random.Random(0)
    drawn = [solutions[rng.randrange(solutions.count)] for _ in range(100)]
    assert time.process_time() - began < 10
    assert solutions.count > 10**9
    for config in drawn:
        assert not any(Expression(text).why_false({**config, "m": 40}) for text in texts)


def test_counts_above_64_bits_are_exact() -> None:
    domains = {f"P{i}": range(1000) for i in range(30)}
    assert solve(domains, ["P0 < P1", "P2 == P3"]).count == 499_500 * 1000 * 1000**26


@pytest.mark.parametrize("way", WAYS)
def test_indices_and_draws_are_the_same_solutions(way: str) -> None:
    domains: Domains = {"A": range(1, 9), "B": (1, 2, 4), "C": ("x", "y"), "D": range(3)}
    with solved_by(way):
        solutions = solve(domains, ["A % B == 0", "C == 'x' or A * D > 4"])
        places = solutions.points(range(solutions.count))
        drawn = Counter(map(tuple, solutions.draw(np.random.default_rng(1), 5000).tolist()))
    assert len(set(map(tuple, places.tolist()))) == solutions.count
    assert set(drawn) == set(map(tuple, places.tolist()))
    assert chisquare(list(drawn.values())).pvalue > 1e-3


# ------------------------------------------------------ too much for a table of all of it


def folded(
    operation: Callable[[int, int], int], numbers: Sequence[int], times: int
) -> Counter[int]:
    """How many ways lead to each sum or product of so many numbers."""
    found = Counter(numbers)
    for _ in range(times - 1):
        pairs = itertools.product(found.items(), numbers)
        found = Counter()
        for (value, ways), number in pairs:
            found[operation(value, number)] += ways
    return found


@pytest.mark.parametrize("relation", ["<=", "==", ">", "%"])
@pytest.mark.parametrize(("sign", "operation"), [("+", operator.add), ("*", operator.mul)])
def test_sums_and_products_of_many_are_counted(
    relation: str, sign: str, operation: Callable[[int, int], int]
) -> None:
    names = [f"P{i}" for i in range(8)]
    bound = 60 if sign == "+" else 4096
    text = f" {sign} ".join(names)
    text = f"({text}) % 7 == 3" if relation == "%" else f"{text} {relation} {bound}"
    ways = folded(operation, range(1, 13), 8)
    expected = sum(
        count
        for value, count in ways.items()
        if Expression(text.replace(f" {sign} ".join(names), "total")).holds({"total": value})
    )
    solutions = solve(dict.fromkeys(names, range(1, 13)), [text])
    assert solutions.count == expected
    drawn = solutions.draw(np.random.default_rng(0), 200)
    assert all(Expression(text).holds(dict(zip(names, row, strict=True))) for row in drawn + 1)


def test_shared_memory_of_tiles_is_counted() -> None:
    domains: Domains = {
        "bx": (1, 2, 4, 8, 16, *range(32, 513, 32)),
        "by": (1, 2, 4, 8, 16, 32),
        "tx": range(1, 9),
        "ty": range(1, 9),
        "t": range(1, 6),
        "power": (0, 1),
        "blocks": range(5),
    }
    used = "(bx * tx + t * 2) * (by * ty + t * 2) * (2 + power) * 4"
    texts = [
        "32 <= bx * by <= 1024",
        f"{used} <= 49152",
        f"blocks == 0 or {used} * blocks <= 102400",
    ]
    grid = np.meshgrid(*map(np.array, domains.values()), indexing="ij", sparse=True)
    columns = dict(zip(domains, grid, strict=True))
    held = functools.reduce(np.logical_and, (Expression(text).holds(columns) for text in texts))
    assert solve(domains, texts).count == np.count_nonzero(held)


@pytest.mark.parametrize(
    ("name", "legal"),
    [
        ("dedispersion", 11_130),
        ("gemm (CLBlast)", 116_928),
        ("microhh", 138_600),
        ("expdist", 294_000),
        ("hotspot", 349_853),
    ],
)
def test_spaces_of_published_kernels_have_the_published_counts(name: str, legal: int) -> None:
    case = read_cases()[name]
    texts = list(case.restrictions)
    if name == "expdist":  # a restriction that Kernel Tuner adds by itself
        texts.append("block_size_x * block_size_y <= 1024")
    assert solve(case.parameters, texts).count == legal


def test_values_that_nothing_supports_are_left_out_first() -> None:
    size = 4096
    domains: Domains = {name: range(1, size + 1) for name in ("L", "P", "G", "I")}
    texts = [f"{size} % L == 0", "L % P == 0", f"({size} / L) % G == 0", "(L / P) % I == 0"]
    solutions = solve(domains, texts)
    powers = range(13)
    expected = sum(
        1
        for local, private, groups, items in itertools.product(powers, repeat=4)
        if private <= local and groups <= 12 - local and items <= local - private
    )
    assert solutions.count == expected


def test_flags_that_may_be_absent_are_part_of_large_conditions() -> None:
    domains: Domains = {"F": (None, 16, 64), **dict.fromkeys(["A", "B", "C", "D"], range(1, 17))}
    text = "F == absent or F * A * B * C * D <= 65536"
    ways = folded(operator.mul, range(1, 17), 4)
    expected = sum(
        count * (1 + (16 * value <= 65536) + (64 * value <= 65536)) for value, count in ways.items()
    )
    assert solve(domains, [text]).count == expected


def test_what_cannot_be_held_is_left_out_and_told() -> None:
    names = [f"P{i}" for i in range(7)]
    primes = (7919, 104729, 1299709, 15485863, 32452843, 49979687, 67867967)
    scattered = " + ".join(f"{name} * {prime}" for name, prime in zip(names, primes, strict=True))
    texts = [f"({scattered}) % 1000003 == 5", "P0 <= P1", "P2 * P3 <= 64"]
    began = time.process_time()
    solutions = solve(dict.fromkeys(names, range(1, 17)), texts)
    assert time.process_time() - began < 20
    assert [constraint.text for constraint in solutions.left_out] == [texts[0]]
    assert (
        solutions.count
        == 136 * sum(1 for a in range(1, 17) for b in range(1, 17) if a * b <= 64) * 16**3
    )


@pytest.mark.parametrize(
    ("domains", "text"),
    [
        ({"A": range(10**4), "B": range(10**4)}, "A < B"),
        ({"A": range(2**53)}, "A % 3 == 0"),
        (
            {"A": tuple(f"a{i}" for i in range(500)), "B": tuple("b" * i for i in range(500))},
            "A==B",
        ),
        ({"A": range(2**52, 2**52 + 10**6)}, "A * A > 3"),
    ],
)
def test_too_large_is_said_before_the_work_is_done(domains: Domains, text: str) -> None:
    began = time.process_time()
    with pytest.raises(TooLarge):
        constraint_factor(Expression(text), domains, {})
    assert [constraint.text for constraint in solve(domains, [text]).left_out] == [text]
    assert time.process_time() - began < 10


def test_of_small_constraints_that_tie_much_together_some_are_left_out() -> None:
    domains = {f"P{i}": range(64) for i in range(8)}
    pairs = list(itertools.combinations(domains, 2))
    began = time.process_time()
    solutions = solve(domains, [f"{one} != {other}" for one, other in pairs])
    assert time.process_time() - began < 20
    assert 0 < len(solutions.left_out) < len(pairs)


def test_what_no_scalar_can_compute_either_is_an_error() -> None:
    with pytest.raises(ExpressionError, match="no order"):
        constraint_factor(Expression("A < 3"), {"A": (1, 2, "x")}, {})
