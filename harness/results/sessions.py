"""The tuning commands of a database: what each was asked for, and what it left out."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.core.records import Input
from harness.core.text import escaped
from harness.results.notes import one_line

LEFT_OUT = "left out: "
"""The prefix of the reason for an input whose data cannot be made or whose default fails."""


@dataclass(frozen=True)
class Command:
    """One tuning command; dates are ISO 8601 in UTC.

    `left_out` and `stages` are known when it has ended. `left_out` has the inputs that were not
    measured, or not to the end, with the reason. `stages` has, by each stage that began after the
    search, what the stage left out; an empty text for nothing.
    """

    uuid: str
    inputs: tuple[Input, ...]
    started_at: str
    ended_at: str | None
    """None while the command runs, and where it was stopped by hand or killed."""
    left_out: Mapping[Input, str]
    stages: Mapping[str, str]
    arguments: tuple[str, ...] = ()
    """The words that the user typed after `tune`, without passwords; none in Python."""


def command_of(row: Mapping[Any, Any]) -> Command:
    """Make the record of a row of commands."""
    return Command(
        row["uuid"],
        tuple(map(Input, row["inputs"])),
        row["started_at"],
        row["ended_at"],
        {Input(features): why for features, why in row["left_out"]},
        dict(row["stages"]),
        tuple(row["arguments"] or ()),
    )


def stored_begin(
    inputs: Iterable[Input], arguments: Sequence[str], started_at: str
) -> dict[str, object]:
    """Return what a command was asked for, as `command_of` reads it."""
    return {
        "uuid": uuid.uuid4().hex,
        "started_at": started_at,
        "inputs": [dict(problem) for problem in inputs],
        "arguments": list(map(escaped, arguments)),
        **stored_end({}, {}),
    }


def stored_end(left_out: Mapping[Input, str], stages: Mapping[str, str]) -> dict[str, object]:
    """Return what a command left out, as `command_of` reads it."""
    return {
        "left_out": [[dict(problem), one_line(why)] for problem, why in left_out.items()],
        "stages": {stage: one_line(text) for stage, text in stages.items()},
    }
