"""Mappings: YAML files that describe the columns of a CSV recording.

name: sgemm                      # optional, as are device, default, features, outcome, ignore
device: GTX 680                  # optional, as are backend, platform, driver, compiler, cache
parameters: [MWG, NWG]           # or each with its values: {MWG: [16, 32], NWG: [16]}
features: [m, n]
times: {columns: [run 1, run 2], unit: ms}
outcome: {column: status, message: log, ok: [passed], build_failed: [no compile]}
ignore: [date]                   # columns that may differ between rows that are repeats
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, StrictStr, ValidationError

from harness.core.errors import SpecError
from harness.core.records import Outcome
from harness.core.text import printable
from harness.recordings.columns import OWN_WORDS, Columns, listed_readers
from harness.recordings.t4 import UNITS
from harness.space_file import read_document
from harness.space_file.document import Location
from harness.space_file.messages import describe_errors
from harness.space_file.model import Number
from harness.space_file.tuned import Scalar, StrictModel

Names = list[StrictStr]
Time = Annotated[Number, Field(ge=0)]
Values = Annotated[list[Scalar | None], Field(min_length=1)]
_IS_TIME = re.compile(
    r"time|runtime|duration|latency|elapsed|^run\b|(^|_|\()(s|ms|us|ns)\)?$", re.I
)
_NO_TIME = re.compile(r"compil|build|stamp|date|unit", re.I)
_UNIT = re.compile(r"(?:^|[^a-z])(s|ms|us|ns|seconds|milliseconds)(?![a-z])", re.I)
_OUTCOME = re.compile(r"outcome|status|invalidity|result|error", re.I)
_MESSAGE = re.compile(r"message|log|reason", re.I)
_PLAIN = re.compile(r"[A-Za-z_][\w ()./%-]*")
_WORDS = ("true", "false", "null")


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
    ignore: Names = Field(default_factory=list)

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
            ignored=tuple(self.ignore),
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
    columns = mapping.columns()
    for location, text in _conflicts(columns):
        document.fault(location, text)
    if document.faults:
        raise SpecError(document.faults)
    return columns


def _conflicts(columns: Columns) -> Iterator[tuple[Location, str]]:
    """Yield the faults that concern several keys."""
    both = [name for name in columns.ignored if name in columns.used]
    if both:
        yield ("ignore",), f"`ignore` names {both[0]}, but another key does too; keep one"


def draft_mapping(header: Sequence[str]) -> str:
    """Draft a mapping as YAML, guessed from the columns' names."""
    return "".join(f"    {line}\n" for line in _lines(header))


def _lines(header: Sequence[str]) -> Iterator[str]:
    times = [name for name in header if _IS_TIME.search(name) and not _NO_TIME.search(name)]
    outcome = next((name for name in header if _OUTCOME.fullmatch(name)), None)
    message = next((name for name in header if outcome and _MESSAGE.fullmatch(name)), None)
    others = [name for name in header if name not in (*times, outcome, message)]
    yield f"parameters: [{_listed(others)}]  # keep here what was tuned"
    yield "features: []  # move here what distinguishes inputs, such as sizes"
    yield "ignore: []  # move here what is neither"
    yield f"times: {{columns: [{_listed(times)}], unit: {_unit_of(times)}}}  # or s, us, ns"
    if outcome is not None:
        columns = f"column: {_plain(outcome)}" + (
            f", message: {_plain(message)}" if message else ""
        )
        yield f"outcome: {{{columns}}}  # add ok: [WORD, ...], build_failed: [WORD, ...]"


def _unit_of(times: Sequence[str]) -> str:
    """Return the first unit among the names, else milliseconds, which most tuners write."""
    units = (found[1].lower() for name in times if (found := _UNIT.search(name)))
    return next((unit for unit in units if unit in UNITS), "ms")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(_plain, names))


def _plain(name: str) -> str:
    """Quote a name where YAML would not read it as this text."""
    is_plain = _PLAIN.fullmatch(name) and name.strip() == name and name.lower() not in _WORDS
    return name if is_plain else json.dumps(printable(name))
