"""Measurements on data that their input no longer has."""

from __future__ import annotations

import pytest

from harness.core.records import Config, Input, Measurement, Outcome
from harness.results.columns import MeasurementRow, as_rows
from harness.results.fitting import changed_data_lines, digests_of_data, of_present_data

SMALL, LARGE = Input({"n": 1}), Input({"n": 2})
A, B, C = "a" * 64, "b" * 64, "c" * 64


def rows(*measured, minutes=()):
    """Measurements of inputs on data of these digests, in the order of the database; `minutes`
    says when each was made, if in another one."""
    at = minutes or range(len(measured))
    return as_rows(
        MeasurementRow(
            number,
            "search",
            Measurement(Config({"A": number}), i, Outcome.TIMEOUT, message="long", data_sha256=d),
            measured_at=f"2026-01-01T00:{minute:02}",
        )
        for number, ((i, d), minute) in enumerate(zip(measured, at, strict=True))
    )


def ids(kept):
    return [row.id for row in kept]


def test_of_the_last_measurement_if_nothing_else_is_known():
    kept, set_aside = of_present_data(
        rows((SMALL, A), (LARGE, B), (SMALL, C), (SMALL, A), (SMALL, C))
    )
    assert ids(kept) == [1, 2, 4]
    assert set_aside == {SMALL: 2}
    assert next(kept.measurements()).data_sha256 == B


def test_the_last_one_is_so_by_its_date():
    kept, _ = of_present_data(rows((SMALL, A), (SMALL, B), minutes=[9, 3]))
    assert ids(kept) == [0]


@pytest.mark.parametrize(
    ("present", "left"),
    [
        ({}, [0, 1, 2, 3]),
        ({SMALL: None, LARGE: None}, [0, 1, 2, 3]),
        ({SMALL: A}, [0, 2, 3]),
        ({SMALL: B}, [1, 2, 3]),
        ({SMALL: C}, [2, 3]),
        ({SMALL: C, LARGE: C}, [2]),
    ],
)
def test_of_the_present_data(present, left):
    kept, set_aside = of_present_data(
        rows((SMALL, A), (SMALL, B), (SMALL, None), (LARGE, A)), present
    )
    assert ids(kept) == left
    assert sum(set_aside.values()) == 4 - len(left)


def test_what_has_no_digest_counts_and_cannot_be_compared_with():
    assert of_present_data(rows((SMALL, A), (SMALL, B), (SMALL, None)))[1] == {}
    assert of_present_data(rows((SMALL, None), (SMALL, None)))[1] == {}
    assert ids(of_present_data(rows((SMALL, None), (SMALL, A)))[0]) == [0, 1]
    assert not len(of_present_data(as_rows(()))[0])
    assert not len(of_present_data(as_rows(()), {SMALL: A})[0])


def test_digests_are_those_of_the_selected_rows():
    assert digests_of_data(rows((SMALL, A), (SMALL, None), (SMALL, B))[1:]) == {B}


def test_the_inputs_are_named():
    assert not list(changed_data_lines({}))
    (line,) = changed_data_lines({SMALL: 1})
    assert "1 input " in line
    assert "1 measurement is set aside, of (n=1)" in line
    (line,) = changed_data_lines({SMALL: 1, LARGE: 3})
    assert "2 inputs " in line
    assert "4 measurements are set aside" in line
