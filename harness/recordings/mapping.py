"""Mappings: YAML files that describe the columns of a CSV recording.

name: sgemm                      # optional, as are device, features and outcome
device: GTX 680
parameters: [MWG, NWG]           # or each with its values: {MWG: [16, 32], NWG: [16]}
features: [m, n]
times: {columns: [run 1, run 2], unit: ms}
outcome: {column: status, message: log, ok: [passed], build_failed: [no compile]}
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, StrictStr, ValidationError

from harness.core.errors import SpecError
from harness.core.records import Outcome
from harness.core.text import printable
from harness.recordings.columns import OWN_WORDS, Columns, listed_readers
from harness.recordings.t4 import UNITS
from harness.space_file import read_document
from harness.space_file.messages import describe_errors
from harness.space_file.model import Number
from harness.space_file.tuned import Scalar, StrictModel

Names = list[StrictStr]
Time = Annotated[Number, Field(ge=0)]
Values = Annotated[list[Scalar | None], Field(min_length=1)]


class _TimeColumns(StrictModel):
    columns: Names = Field(min_length=1, description="the columns that hold times")
    unit: Literal[
        "s", "seconds", "ms", "milliseconds", "us", "microseconds", "ns", "nanoseconds"
    ] = "s"
    least: Time = float("-inf")
    most: Time = float("inf")


class _OutcomeColumn(StrictModel):
    """The column of outcomes, the column of messages, and the words of each outcome."""

    column: StrictStr | None = None
    message: StrictStr | None = None
    ok: Names = Field(default_factory=list)
    illegal: Names = Field(default_factory=list)
    build_failed: Names = Field(default_factory=list)
    launch_failed: Names = Field(default_factory=list)
    out_of_memory: Names = Field(default_factory=list)
    wrong_result: Names = Field(default_factory=list)
    implausible: Names = Field(default_factory=list)
    timeout: Names = Field(default_factory=list)
    crashed: Names = Field(default_factory=list)

    def words(self) -> dict[str, Outcome]:
        """Return the outcome of each word."""
        return {word: o for o in Outcome for word in getattr(self, o.value)}


def _with_values(parameters: Any) -> Any:
    """Give parameters that are only named no values: any value may occur."""
    is_names = isinstance(parameters, list) and all(isinstance(p, str) for p in parameters)
    return dict.fromkeys(parameters) if is_names else parameters


class _Mapping(StrictModel):
    name: StrictStr = ""
    device: StrictStr = "unknown"
    parameters: Annotated[
        dict[StrictStr, Values | None], Field(min_length=1), BeforeValidator(_with_values)
    ] = Field(description="the columns that were tuned")
    features: Names = Field(default_factory=list)
    times: _TimeColumns = Field(description="the columns that hold times, and their unit")
    outcome: _OutcomeColumn = _OutcomeColumn()

    def columns(self) -> Columns:
        """Return the meaning of the columns."""
        parameters = {name: values or () for name, values in self.parameters.items()}
        return Columns(
            title=self.name,
            device=self.device or "unknown",
            parameters=parameters,
            features=tuple(self.features),
            times=tuple(self.times.columns),
            per_s=UNITS[self.times.unit],
            least=self.times.least,
            most=self.times.most,
            outcome=self.outcome.column,
            message=self.outcome.message,
            words=self.outcome.words() or OWN_WORDS,
            readers=listed_readers(parameters),
        )


def read_mapping(path: Path) -> Columns:
    """Read a mapping; raises SpecError with all of its faults."""
    document = read_document(path)
    try:
        mapping = _Mapping.model_validate(document.data)
    except ValidationError as error:
        described = describe_errors(error.errors(), document.data, model=_Mapping)
        for location, text in described.items():
            document.fault(location, text)
        raise SpecError(document.faults) from None
    if document.faults:
        raise SpecError(document.faults)
    return mapping.columns()


def example_mapping(header: Sequence[str]) -> str:
    """Write a mapping as YAML for a person to complete, with all columns of a file."""
    columns = json.dumps([printable(name) for name in header], ensure_ascii=False)
    return (
        f"    parameters: {columns}  # keep here what was tuned\n"
        "    features: []  # move here what distinguishes inputs, such as sizes\n"
        "    times: {columns: [], unit: ms}  # move here the times; the unit may be s, us or ns\n"
        "    outcome: {column: null}  # move here the column that says what failed\n"
        "\nLeave out all other columns. docs/recordings.md explains each key."
    )
