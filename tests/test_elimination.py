"""Counting and indexing solutions, held against brute force."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Mapping, Sequence

import pytest

from harness.elimination import Solutions, TooLarge, constraint_factor
from harness.errors import ExpressionError
from harness.expression import Expression
from harness.records import Config, Value

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


def agrees_with_brute_force(domains: Domains, texts: Sequence[str], **given: Value) -> bool:
    solutions = solve(domains, texts, **given)
    listed = [Config(solutions[index]) for index in range(solutions.count)]
    expected = brute_force(domains, texts, given)
    return len(listed) == len(expected) and set(listed) == expected


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


@pytest.mark.parametrize("seed", range(120))
def test_random_problems_agree_with_brute_force(seed: int) -> None:
    domains, texts = random_problem(random.Random(seed))
    try:
        expected = brute_force(domains, texts, {"m": 3})
    except ExpressionError:
        with pytest.raises(ExpressionError):
            solve(domains, texts, m=3)
        return
    assert len(expected) == solve(domains, texts, m=3).count
    assert agrees_with_brute_force(domains, texts, m=3)


def test_without_constraints_every_point_is_a_solution() -> None:
    assert agrees_with_brute_force({"A": range(3), "B": ("x", "y")}, [])


def test_constraint_on_the_input_alone_allows_all_or_nothing() -> None:
    domains = {"A": range(3), "B": range(4)}
    assert solve(domains, ["m > 2"], m=3).count == 12
    assert solve(domains, ["m > 2"], m=2).count == 0


def test_texts_and_absent_flags_take_part() -> None:
    domains = {"mode": ("slow", "fast"), "flag": (None, 16, 32), "A": range(1, 100)}
    texts = ["mode == 'slow' or A < 50", "flag == absent or flag * A <= 640"]
    assert agrees_with_brute_force(domains, texts)


def test_comparison_with_an_absent_flag_is_false() -> None:
    solutions = solve({"F": (None, 1, 2)}, ["F < 2"])
    assert (solutions.count, solutions[0]) == (1, {"F": 1})


def test_products_above_64_bits_are_judged_exactly() -> None:
    domains = {"A": (2**40, 2**52 + 1, 3), "B": (2**40, 5, 2**52 - 1), "C": (2**53, 7)}
    assert agrees_with_brute_force(domains, ["A * B * C % 7 == 0 or A * B < 2 ** 60"])


def test_short_circuits_protect_what_follows_them() -> None:
    domains = {"E": range(100), "N": (10, 1000)}
    assert agrees_with_brute_force(domains, ["E <= 20 and 2 ** E <= N"])


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


def test_equal_chains_of_constraints_give_distinct_solutions() -> None:
    domains = {f"P{i}": range(4) for i in range(5)}
    assert agrees_with_brute_force(domains, [f"P{i} <= P{i + 1}" for i in range(4)])


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
        solve(domains, [text])
    assert time.process_time() - began < 10


def test_too_large_where_small_constraints_tie_much_together() -> None:
    domains = {f"P{i}": range(64) for i in range(8)}
    pairs = itertools.combinations(domains, 2)
    with pytest.raises(TooLarge, match="together"):
        solve(domains, [f"{one} != {other}" for one, other in pairs])


def test_what_no_scalar_can_compute_either_is_an_error() -> None:
    with pytest.raises(ExpressionError, match="no order"):
        constraint_factor(Expression("A < 3"), {"A": (1, 2, "x")}, {})
