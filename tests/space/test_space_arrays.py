"""Points as arrays: drawn, encoded and moved between, held against brute force."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from harness.constraints.expression import Expression
from harness.core.errors import ExpressionError, UsageError
from harness.core.records import Config, Input, Outcome, Value
from harness.recordings.recording import RecordedTable, Recording
from harness.recordings.space import ListedSpace
from harness.space import ConstrainedSpace, PointArray, Space
from harness.space_file import Parameter

DOMAINS: tuple[Sequence[Value], ...] = (
    range(1, 6),
    range(0, 7, 3),
    (1, 2, 4, 8),
    (False, True),
    ("row", "column", "block"),
    (0.5, 1, 2.5),
    (None, 16, 32),
)
# What cannot be computed for some values, such as the sum with a text, is there on purpose.
TEMPLATES = (
    "{a} == {b} or {a} == 1",
    "{a} in [1, 2, 'row', true]",
    "{a} != 'row' or {b} == 16",
    "{a} == absent or {a} != {b}",
    "not {a}",
    "m > 2 or {a} != 4",
    "{a} + {b} <= 5",
    "{a} * {b} % 2 == 0",
    "{a} <= {b}",
)


def parameter(name: str, values: Sequence[Value]) -> Parameter:
    kind = "enum" if isinstance(values[0], (str, bool, type(None))) else "ordered"
    return Parameter(name, kind, values, "source", values[0])


def space(domains: dict[str, Sequence[Value]], *constraints: str, **values: Value) -> Space:
    parameters = [parameter(name, listed) for name, listed in domains.items()]
    return ConstrainedSpace(parameters, [Expression(text) for text in constraints], values)


@st.composite
def spaces(draw: st.DrawFn) -> Space:
    names = "ABCD"[: draw(st.integers(1, 4))]
    domains = {name: draw(st.sampled_from(DOMAINS)) for name in names}
    templates = draw(st.lists(st.sampled_from(TEMPLATES), max_size=4))
    picked = st.sampled_from(names)
    texts = [template.format(a=draw(picked), b=draw(picked)) for template in templates]
    return space(domains, *texts, m=draw(st.integers(1, 4)))


def all_places(checked: Space) -> list[tuple[int, ...]]:
    return list(itertools.product(*(range(len(p.values)) for p in checked.parameters)))


def legal_places(checked: Space) -> set[tuple[int, ...]]:
    return {place for place in all_places(checked) if checked.is_legal(checked.decode(place))}


def rows(places: PointArray) -> list[tuple[int, ...]]:
    return [tuple(row) for row in places.tolist()]


def is_countable(checked: Space) -> bool:
    """Whether every constraint can be computed for all values of its names."""
    try:
        return checked.count is not None
    except ExpressionError:
        return False


@settings(max_examples=50, deadline=None)
@given(spaces(), st.data())
def test_neighbours_are_the_legal_points_that_differ_in_one_parameter(
    checked: Space, data: st.DataObject
) -> None:
    here = np.array(data.draw(st.sampled_from(all_places(checked))), dtype=np.int32)
    found = rows(checked.neighbour_points(here))
    assert len(found) == len(set(found))
    expected = {p for p in legal_places(checked) if np.count_nonzero(np.array(p) != here) == 1}
    assert set(found) == expected


@settings(max_examples=40, deadline=None)
@given(spaces().filter(is_countable), st.integers(0, 2**32))
def test_samples_are_legal(checked: Space, seed: int) -> None:
    drawn = checked.sample_points(np.random.default_rng(seed), 40)
    assert drawn.dtype == np.int32
    legal = legal_places(checked)
    assert set(rows(drawn)) <= legal
    assert drawn.shape == (40 if legal else 0, len(checked.parameters))


@settings(max_examples=40, deadline=None)
@given(spaces())
def test_many_are_judged_as_one_is(checked: Space) -> None:
    points = all_places(checked)
    found = checked.are_legal(np.array(points, dtype=np.int32))
    assert {p for p, legal in zip(points, found, strict=True) if legal} == legal_places(checked)


@settings(max_examples=50, deadline=None)
@given(spaces())
def test_many_are_encoded_as_one_is(checked: Space) -> None:
    configs = [checked.decode(place) for place in all_places(checked)[:50]]
    places = checked.encode_all(configs)
    assert places.dtype == np.int32
    assert rows(places) == [checked.encode(config) for config in configs]


def test_what_is_no_value_cannot_be_encoded() -> None:
    checked = space({"A": (1, 2), "B": range(3)})
    assert checked.encode_all([]).shape == (0, 2)
    for bad in ({"A": 1.0, "B": 0}, {"A": 1, "B": 3}):
        with pytest.raises(UsageError, match="is not one of its values"):
            checked.encode_all([{"A": 1, "B": 0}, bad])


def tight() -> Space:
    domains: dict[str, Sequence[Value]] = {"A": range(1, 9), "B": (1, 2, 4), "C": ("x", "y")}
    return space(domains, "A % B == 0", "C == 'x' or A > 4")


def evenness(drawn: PointArray, legal: int) -> float:
    """The probability of counts as uneven as these, if all legal points are as likely."""
    counts = Counter(rows(drawn))
    assert len(counts) == legal
    return float(chisquare(list(counts.values())).pvalue)


def test_samples_are_uniform() -> None:
    drawn = tight().sample_points(np.random.default_rng(1), 5000)
    assert evenness(drawn, len(legal_places(tight()))) > 1e-3


def test_samples_that_are_left_to_rejection_are_uniform(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.constraints.solver.diagram.MAX_EDGES", 6)
    monkeypatch.setattr("harness.constraints.solver.solver.MAX_JOINT_ENTRIES", 2)
    checked = tight()
    assert checked.count is None
    drawn = checked.sample_points(np.random.default_rng(1), 5000)
    assert evenness(drawn, len(legal_places(tight()))) > 1e-3


def test_samples_are_uniform_where_counts_exceed_64_bits() -> None:
    names = [f"P{i}" for i in range(16)]
    domains: dict[str, Sequence[Value]] = {name: range(1, 33) for name in names}
    checked = space(domains, *(f"{a} <= {b}" for a, b in itertools.pairwise(names[:14])))
    big = space({**domains, **{f"Q{i}": range(32) for i in range(8)}}, "P0 <= P1", "Q0 != Q1")
    assert big.count is not None
    assert big.count > 2**64
    for wide in (checked, big):
        drawn = wide.sample_points(np.random.default_rng(3), 4000)
        assert all(map(wide.is_legal, map(wide.decode, rows(drawn))))
    # Of an ascending chain from 1 to 32, the last of 14 is n with probability proportional to
    # the number of chains of 13 up to n; of two in order, the first is n in 33 - n of 528.
    first = np.bincount(drawn[:, 0], minlength=32)
    expected = np.array([(32 - place) / 528 for place in range(32)])
    assert chisquare(first, expected * 4000).pvalue > 1e-3


def test_one_table_of_more_than_64_bits_is_drawn_from_uniformly() -> None:
    names = [f"P{i}" for i in range(14)]
    domains: dict[str, Sequence[Value]] = {name: range(40) for name in names}
    checked = space(domains, *(f"{a} != {b}" for a, b in itertools.pairwise(names)))
    assert checked.count == 40 * 39**13
    assert checked.count > 2**64
    drawn = checked.sample_points(np.random.default_rng(3), 4000)
    for axis in (0, 7, 13):
        assert chisquare(np.bincount(drawn[:, axis], minlength=40)).pvalue > 1e-3
    assert (np.diff(drawn, axis=1) != 0).all()


def test_a_search_that_finds_nothing_by_rejection_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    domains: dict[str, Sequence[Value]] = {f"P{i}": range(1, 18) for i in range(6)}
    checked = space(domains, " * ".join(domains) + " == 1")
    monkeypatch.setattr("harness.constraints.solver.diagram.MAX_EDGES", 10)
    monkeypatch.setattr("harness.space.draws._MAX_DRAWS", 2000)
    assert checked.sample_points(np.random.default_rng(0), 5).shape == (0, 6)


def near(here: int, extent: int) -> npt.NDArray[Any]:
    spread = {number * (extent - 1) // 31 for number in range(32)}
    wanted = {*range(max(0, here - 32), min(extent, here + 33)), *spread} - {here}
    return np.array(sorted(wanted))


@pytest.mark.parametrize("here", [0, 5, 700, 999])
def test_of_many_values_the_near_ones_and_some_spread_over_all_are_neighbours(here: int) -> None:
    checked = space({"A": range(1000), "B": range(64)}, "A + B < 1040")
    found = checked.neighbour_points(np.array([here, 3], dtype=np.int32))
    changed = found[found[:, 0] != here]
    assert changed[:, 0].tolist() == near(here, 1000).tolist()
    same = found[found[:, 0] == here]
    assert same[:, 1].tolist() == [
        place for place in range(64) if place != 3 and here + place < 1040
    ]


def test_ranges_of_more_values_than_32_bits_count_are_places_of_64_bits() -> None:
    checked = space({"A": range(1, 2**40), "B": (1, 2)}, "A % 2 == 0 or B == 1")
    drawn = checked.sample_points(np.random.default_rng(0), 100)
    assert drawn.dtype == np.int64
    assert all(checked.is_legal(checked.decode(row)) for row in rows(drawn))
    assert drawn[:, 0].max() > 2**32
    here = checked.encode_all([Config({"A": 2**33, "B": 1})])[0]
    assert {checked.decode(row)["B"] for row in rows(checked.neighbour_points(here))} == {1, 2}


# ------------------------------------------------------------------------ listed points


def listed_space(places: set[tuple[int, ...]], extents: Sequence[int]) -> ListedSpace:
    """A recording of these configurations, all of which worked."""
    table = RecordedTable(np.array(sorted(places), np.int32), [Outcome.OK] * len(places), (), {})
    parameters = tuple(parameter(f"P{k}", range(extent)) for k, extent in enumerate(extents))
    recording = Input({"recording": "some"})
    recorded = Recording(
        Path("some.csv"), "some", "", "csv", "", "", parameters, ("recording",), {recording: table}
    )
    return ListedSpace(recorded, recording)


@settings(max_examples=40, deadline=None)
@given(st.data(), st.sampled_from([(4, 3, 2), (2000, 5, 3), (2**31 - 1, 2**31 - 1, 2**31 - 1)]))
def test_neighbours_in_a_recording_are_its_rows_that_differ_in_one_parameter(
    data: st.DataObject, extents: tuple[int, ...]
) -> None:
    point = st.tuples(*(st.integers(0, 3).map(lambda n, e=extent: n % e) for extent in extents))
    recorded = data.draw(st.sets(point, min_size=1))
    checked = listed_space(recorded, extents)
    here = np.array(data.draw(point), np.int32)
    expected = {p for p in recorded if np.count_nonzero(np.array(p) != here) == 1}
    assert set(rows(checked.neighbour_points(here))) == expected
    config = checked.decode(here.tolist())
    if max(extents) < 10**4:  # all values are tried
        assert {checked.encode(c) for c in checked.neighbours(config, None)} == expected


def test_samples_of_a_recording_are_its_rows_uniformly() -> None:
    recorded = {(a, b) for a in range(9) for b in range(7) if (a + b) % 3}
    checked = listed_space(recorded, (9, 7))
    drawn = checked.sample_points(np.random.default_rng(2), 4000)
    assert set(rows(drawn)) == recorded
    every = np.array(all_places(checked), np.int32)
    assert set(rows(every[checked.are_legal(every)])) == recorded
    assert evenness(drawn, len(recorded)) > 1e-3


def test_rows_whose_numbers_need_more_than_64_bits_are_told_apart() -> None:
    rng = np.random.default_rng(5)
    recorded = set(map(tuple, rng.integers(30, size=(3000, 20)).tolist()))
    checked = listed_space(recorded, (30,) * 20)
    for place in sorted(recorded)[:50]:
        moved = ((place[0] + 1) % 30, *place[1:])
        assert checked.is_legal(checked.decode(place))
        assert not checked.is_legal(checked.decode(moved))
        assert place in rows(checked.neighbour_points(np.array(moved, np.int32)))
