"""Read the cells of a row of measurements as parts of a record; each refuses what it cannot read.

The stages are in the column `stage`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from harness.core.records import Build, Outcome, StopReason, Timing
from harness.core.worst_element import WorstElement
from harness.results.notes import ABLATION

CROSS = "cross"
SEARCHED = ("search", CROSS)
"""The stages of the search, and of measuring configurations across inputs: each once."""

CANDIDATE, CHOICE, FINAL = "candidate", "choice", "final"
"""The interleaved stages: a dispatcher's candidates; an input's finalists, to choose the winner;
and the winner with the default, to judge it."""

LATER = (CANDIDATE, CHOICE, FINAL, ABLATION)
"""The stages after the search."""

STAGES = (*SEARCHED, *LATER)

BUILD_COLUMNS = tuple(field.name for field in fields(Build) if field.name != "cached")


def names_read(row: Mapping[Any, Any]) -> tuple[str, ...] | None:
    """Return the parameters that the host module read, from a row of measurements.

    Raises ValueError where the row holds no list of names.
    """
    names = row["host_read"]
    if names is not None and not (isinstance(names, list) and all(type(n) is str for n in names)):
        raise ValueError(f"host_read is {names!r}")
    return None if names is None else tuple(names)


def timing_of(row: Mapping[Any, Any], samples_s: Sequence[float]) -> Timing | None:
    """Return the timing of a row of measurements; raises ValueError where its outcome has none."""
    if Outcome(row["outcome"]) is Outcome.OK:
        return Timing(tuple(samples_s), StopReason(row["stopped"]), _occasions(row))
    if samples_s:
        raise ValueError(f"it has samples although its outcome is {row['outcome']}")
    return None


def _occasions(row: Mapping[Any, Any]) -> tuple[int, ...]:
    sizes = row["occasions"]
    if sizes is None:
        return ()
    if not (isinstance(sizes, list) and all(type(size) is int for size in sizes)):
        raise ValueError(f"occasions is {sizes!r}")
    return tuple(sizes)


def worst_element_of(row: Mapping[Any, Any]) -> WorstElement | None:
    """Return the worst element of a wrong result, from a row of measurements.

    NaN and infinity are stored as text.
    """
    stored = row["worst_element"]
    if stored is None:
        return None
    index, wrong_count, count = stored["index"], stored["wrong_count"], stored["count"]
    whole = [*index, wrong_count, count]
    if type(stored["argument"]) is not str or any(type(number) is not int for number in whole):
        raise ValueError(f"worst_element is {stored!r}")
    return WorstElement(
        argument=stored["argument"],
        index=tuple(index),
        found=_number(stored["found"]),
        expected=_number(stored["expected"]),
        tolerance=_number(stored["tolerance"]),
        wrong_count=wrong_count,
        count=count,
    )


def _number(number: object) -> int | float:
    if isinstance(number, str):
        return float(number)
    if isinstance(number, (int, float)):
        return number
    raise ValueError(f"{number!r} is no number")
