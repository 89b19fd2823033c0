"""The mapping of a CSV recording: a YAML file that says what the columns are.

name: sgemm                      # optional, as are device, features, outcome and ignore
device: GTX 680
parameters: [MWG, NWG]           # or each with its values: {MWG: [16, 32], NWG: [16]}
features: [m, n]
times: {columns: [run 1, run 2], unit: ms}
outcome: {column: status, message: log, ok: [passed], build_failed: [no compile]}
ignore: [date]                   # the other columns
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, StrictStr

from harness.core.files import WRITTEN_BY
from harness.core.records import Outcome, Value
from harness.core.text import printable
from harness.recordings.files import printable_lines
from harness.recordings.json_file import UNITS
from harness.recordings.recording import RecordedOutcome
from harness.space_file.messages import StrictModel
from harness.space_file.model import Number
from harness.space_file.tuned import Scalar

TECHNIQUE = "technique"
"""The column of what asked for a configuration, in files that harness writes."""

_HEAD = f"# {WRITTEN_BY}; the next export to this name replaces it.\n"

_Names = list[StrictStr]
_Time = Annotated[Number, Field(ge=0)]
_Values = Annotated[list[Scalar | None], Field(min_length=1)]


class TimeColumns(StrictModel):
    """The columns of times, their unit, and bounds: a time beyond them marks a failure."""

    columns: _Names = Field(min_length=1)
    """the columns that hold times"""
    unit: Literal["s", "ms", "us", "ns"] = "s"
    least: _Time = float("-inf")
    most: _Time = float("inf")


class OutcomeColumns(StrictModel):
    """The column of outcomes, the column of messages, and the words of each outcome."""

    column: StrictStr | None = None
    message: StrictStr | None = None
    ok: _Names = Field(default_factory=list)
    illegal: _Names = Field(default_factory=list)
    build_failed: _Names = Field(default_factory=list)
    launch_failed: _Names = Field(default_factory=list)
    out_of_memory: _Names = Field(default_factory=list)
    wrong_result: _Names = Field(default_factory=list)
    implausible: _Names = Field(default_factory=list)
    timeout: _Names = Field(default_factory=list)
    crashed: _Names = Field(default_factory=list)

    def words(self) -> dict[str, Outcome]:
        """Return the outcome of each word; of the words that harness writes, where none is
        listed."""
        words = {word: outcome for outcome in Outcome for word in getattr(self, outcome.value)}
        return words or {"": Outcome.OK, **{outcome.value: outcome for outcome in Outcome}}


def _with_values(parameters: Any) -> Any:
    """Give parameters that are only named no values: any value may occur."""
    is_names = isinstance(parameters, list) and all(isinstance(p, str) for p in parameters)
    return dict.fromkeys(parameters) if is_names else parameters


class ColumnMapping(StrictModel):
    """The meaning of the columns of a CSV file."""

    name: StrictStr = ""
    device: StrictStr = "unknown"
    parameters: Annotated[
        dict[StrictStr, _Values | None], Field(min_length=1), BeforeValidator(_with_values)
    ]
    """the columns that were tuned"""
    features: _Names = Field(default_factory=list)
    times: TimeColumns
    """the columns that hold times, and their unit"""
    outcome: OutcomeColumns = OutcomeColumns()
    ignore: _Names = Field(default_factory=list)
    """columns that may be left out, such as dates and comments"""

    def used(self) -> list[str]:
        """Return every column that is read, and that the file must have."""
        outcome = [name for name in (self.outcome.column, self.outcome.message) if name is not None]
        return [*self.features, *self.parameters, *self.times.columns, *outcome]


class OutcomeReader:
    """Reads the outcome and the times of rows.

    With a mapping, an empty cell, nan and a time outside the mapping's bounds mark failures;
    under a space they are errors.
    """

    def __init__(self, header: Sequence[str], mapping: ColumnMapping, is_mapped: bool) -> None:
        times = mapping.times
        outcome = mapping.outcome
        self._times = times
        self._per_s = UNITS[times.unit]
        self._is_mapped = is_mapped
        self._times_at = [(printable(name), header.index(name)) for name in times.columns]
        self._words = outcome.words()
        self._column = printable(outcome.column or "")
        self._word_at = None if outcome.column is None else header.index(outcome.column)
        self._message_at = None if outcome.message is None else header.index(outcome.message)

    def read(self, row: Sequence[str]) -> RecordedOutcome:
        """Read a row; raises ValueError for an unknown word, and for what is no time."""
        if self._word_at is not None:
            word = row[self._word_at].strip()
            if word not in self._words:
                needed = f"it must be one of {', '.join(map(repr, self._words))}"
                raise ValueError(f"{self._column} is {printable(word)!r}; {needed}")
            if self._words[word] is not Outcome.OK:
                text = "" if self._message_at is None else printable_lines(row[self._message_at])
                message = text or f"{printable(row[self._word_at])}, as recorded"
                return RecordedOutcome(self._words[word], message=message)
        samples_s = []
        for name, index in self._times_at:
            time_s = self._seconds(name, row[index])
            if time_s is None:
                cell = printable(row[index].strip()) or "empty"
                message = f"{name} is {cell}, which is no time"
                return RecordedOutcome(Outcome.LAUNCH_FAILED, message=message)
            samples_s.append(time_s)
        return RecordedOutcome(Outcome.OK, samples_s)

    def _seconds(self, name: str, text: str) -> float | None:
        """Parse a time; None where it marks a failure."""
        hint = ", unless times.least and times.most of the mapping exclude it"
        try:
            time = float(text) if text.strip() else math.nan
        except ValueError:
            time = -1.0
            hint = ""
        else:
            if self._is_mapped and not self._times.least <= time <= self._times.most:  # or nan
                return None
        if 0 < time < math.inf:
            return time / self._per_s
        needed = f"a time above 0{hint if self._is_mapped else ''}"
        raise ValueError(f"{name} is {printable(text)!r}; it must be {needed}")


def mapping_text(
    name: str, device: str, features: Sequence[str], values: Mapping[str, Sequence[Value]]
) -> str:
    """Return the mapping of a file of `csv_lines`: YAML with a line for each key."""
    mapping = ColumnMapping(
        name=name,
        device=device,
        parameters={name: list(known) for name, known in values.items()},
        features=list(features),
        times=TimeColumns(columns=["time_s"], unit="s"),
        outcome=OutcomeColumns(column="outcome", message="message"),
        ignore=[TECHNIQUE],
    )
    data = mapping.model_dump(mode="json", exclude_unset=True)
    # JSON's values are valid YAML 1.2.
    return _HEAD + "".join(f"{key}: {json.dumps(value)}\n" for key, value in data.items())
