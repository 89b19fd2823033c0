"""Constraints checked on one configuration and on arrays of them, held against plain Python."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from harness.constraints.expression import Expression
from harness.constraints.solver import Factor
from harness.core.records import Value
from harness.space import judge as module
from harness.space.judge import Judge, holds
from harness.space.points import Points
from harness.space_file import Parameter

DOMAINS: dict[str, Sequence[Value]] = {
    "A": (1, 2, 4, 8),
    "B": range(-1, 3),
    "W": ("row", "column"),
    "F": (None, 0.5, 1.0),
    "C": (False, True),
}
RULES: dict[str, Callable[[Mapping[str, Any]], bool]] = {
    "A * B <= limit": lambda c: c["A"] * c["B"] <= 6,
    "W == 'row' or A > 2": lambda c: c["W"] == "row" or c["A"] > 2,
    "A // B >= 1": lambda c: c["B"] != 0 and c["A"] // c["B"] >= 1,  # B may be 0
    "F == absent or F * A < 4": lambda c: c["F"] is None or c["F"] * c["A"] < 4,
    "not C or B > 0": lambda c: not c["C"] or c["B"] > 0,
}
"""Constraints, and the same in Python."""


def judge(domains: dict[str, Sequence[Value]], *texts: str, **given: Value) -> Judge:
    parameters = [
        Parameter(name, "ordered", values, "source", values[0]) for name, values in domains.items()
    ]
    return Judge(Points(parameters), [Expression(text) for text in texts], given)


def small() -> Judge:
    return judge(DOMAINS, *RULES, limit=6)


AXES = [range(len(values)) for values in DOMAINS.values()]
POINTS = np.array(list(itertools.product(*AXES)))
CONFIGS = [
    {name: DOMAINS[name][index] for name, index in zip(DOMAINS, point, strict=True)}
    for point in POINTS.tolist()
]


@pytest.fixture(params=["tables", "no tables"])
def either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Judge:
    """A judge that looks constraints up, and one that computes them."""
    if request.param == "no tables":
        monkeypatch.setattr(module, "_MAX_TABLE_ENTRIES", 0)
    return small()


def test_each_point_satisfies_what_python_says(either: Judge) -> None:
    assert [c.text for c in either.constraints] == list(RULES)
    for constraint in either.constraints:
        wanted = [RULES[constraint.text](config) for config in CONFIGS]
        assert either.held(constraint, POINTS).tolist() == wanted, constraint.text
        assert [either.satisfies([constraint], config) for config in CONFIGS] == wanted
    legal = [all(rule(config) for rule in RULES.values()) for config in CONFIGS]
    assert either.all_held(either.constraints, POINTS).tolist() == legal
    assert [either.satisfies(either.constraints, config) for config in CONFIGS] == legal
    assert 0 < sum(legal) < len(legal)


def test_changes_are_legal_where_all_constraints_hold(either: Judge) -> None:
    legal = either.all_held(either.constraints, POINTS)
    for here in POINTS[::7]:
        assert either.legal_changes(here, POINTS).tolist() == legal.tolist()


def test_the_broken_constraints_are_listed() -> None:
    checked = small()
    for config in CONFIGS[::5]:
        broken = [c.text for c in checked.broken(checked.constraints, config)]
        assert broken == [text for text, rule in RULES.items() if not rule(config)]


def test_constraints_are_kept_once_and_only_where_they_decide() -> None:
    checked = judge({"A": (1, 2)}, "A > 0", "A > 1", "A > 1", "A < limit", limit=5)
    assert [c.text for c in checked.constraints] == ["A > 1"]
    assert {name: len(found) for name, found in checked.naming.items()} == {"A": 1}


def test_a_constraint_that_cannot_be_computed_everywhere_decides() -> None:
    checked = judge({"A": (0, 1)}, "1 // A == 1")
    assert checked.held(checked.constraints[0], np.array([[0], [1]])).tolist() == [False, True]


@pytest.mark.parametrize(("count", "kept"), [(4096, 0), (4097, 1)])
def test_of_many_combinations_it_is_not_asked_whether_they_decide(count: int, kept: int) -> None:
    assert len(judge({"A": range(count)}, "A >= 0").constraints) == kept


def test_combinations_are_those_of_the_names_alone() -> None:
    checked = small()
    counts = [checked.combinations(constraint) for constraint in checked.constraints]
    assert counts == [16, 8, 16, 12, 8]


@pytest.mark.parametrize(("count", "is_table"), [(65_536, True), (65_537, False)])
def test_larger_tables_are_not_made(count: int, is_table: bool) -> None:
    checked = judge({"A": range(count)}, "A > 3")
    assert (checked._table(checked.constraints[0]) is not None) == is_table


def test_tables_of_16_million_entries_are_kept_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Factor(("A",), np.ones(1, dtype=bool))
    monkeypatch.setattr(module, "constraint_factor", lambda *given: table)
    checked = judge({"A": range(65_536)}, *(f"A > {number}" for number in range(257)))
    found = [checked._table(constraint) is table for constraint in checked.constraints]
    assert found == [True] * 256 + [False]


@pytest.mark.parametrize(("entries", "tables"), [(8, 2), (7, 1), (12, 3), (11, 2)])
def test_all_tables_together_are_bounded(
    entries: int, tables: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MAX_KEPT_ENTRIES", entries)
    checked = judge({"A": range(4)}, "A > 0", "A > 1", "A > 2")
    found = [checked._table(constraint) for constraint in checked.constraints]
    assert sum(table is not None for table in found) == tables


def test_whole_numbers_too_large_for_arrays_are_judged_one_by_one() -> None:
    checked = judge({"A": (1, 2**62), "B": (1, 4)}, "A * B < 2 ** 63")
    points = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    assert checked.held(checked.constraints[0], points).tolist() == [True, True, True, False]


def test_what_cannot_be_computed_does_not_hold() -> None:
    assert holds(Expression("A > 1"), {"A": 2})
    assert not holds(Expression("A > 1"), {"A": 1})
    assert not holds(Expression("W > 1"), {"W": "row"})
