"""The meaning of a CSV file's columns: a space implies it, or a mapping, a YAML file, says it.

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
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, StrictStr, ValidationError

from harness.core.errors import RecordingError, SpecError
from harness.core.records import Outcome, Value
from harness.core.text import printable
from harness.recordings.cells import CsvFile, listed_value, readings, whole_or_real
from harness.recordings.kernel_tuner import plain_value
from harness.recordings.recording import typed
from harness.recordings.t4 import UNITS
from harness.space_file import Spec, read_document
from harness.space_file.messages import describe_errors
from harness.space_file.model import Number
from harness.space_file.tuned import Scalar, StrictModel

Names = list[StrictStr]
Time = Annotated[Number, Field(ge=0)]
Values = Annotated[list[Scalar | None], Field(min_length=1)]

OWN_WORDS: Mapping[str, Outcome] = {"": Outcome.OK, **{o.value: o for o in Outcome}}
"""The words of an outcome column that harness writes; the default of a mapping."""


@dataclass(frozen=True, kw_only=True)
class Columns:
    """The columns of a CSV recording.

    `parameters` maps each name to its listed values; an empty list means the values that occur.
    `per_s` is the number of time units in a second. A time outside `least` to `most` marks a
    failed configuration. `is_mapped` is false where a space implies the columns: then a missing
    time is an error. `readers` turn the cells of columns with known values into these. For
    `compiler` see Recording.
    """

    title: str
    device: str
    parameters: Mapping[str, Sequence[Value]]
    features: tuple[str, ...]
    times: tuple[str, ...]
    per_s: float = 1.0
    least: float = float("-inf")
    most: float = float("inf")
    outcome: str | None = None
    message: str | None = None
    words: Mapping[str, Outcome] = field(default_factory=lambda: OWN_WORDS)
    compiler: str | None = None
    is_mapped: bool = True
    ignored: tuple[str, ...] = ()
    readers: Mapping[str, Callable[[str], Value]] = field(default_factory=dict)

    @property
    def used(self) -> list[str]:
        """Every column that is read, and that the file must have."""
        outcome = [name for name in (self.outcome, self.message) if name is not None]
        return [*self.features, *self.parameters, *self.times, *outcome]


def listed_readers(
    parameters: Mapping[str, Sequence[Value]],
) -> dict[str, Callable[[str], Value]]:
    """Return a function from cell to value for each column with listed values."""
    return {name: partial(listed_value, name, known) for name, known in parameters.items() if known}


def columns_of_space(file: CsvFile, spec: Spec) -> Columns:
    """Return the columns of a file that holds the space's own parameters.

    The columns, in any order, are the features, the parameters, `time_s` and optionally `outcome`
    and `message`. Flags of one compiler may be among the parameters. Raises RecordingError for
    flags of two.
    """
    compiler = _compiler(file, spec)
    parameters = {p.name: p.values for p in spec.tuned_for(compiler)}
    # The values in the space's inputs, so that a cell of 64.0 is their 64.
    known = {n: {typed(problem[n]) for problem in spec.inputs} for n in spec.features}
    features = {name: partial(_feature, name, values) for name, values in known.items()}
    return Columns(
        title=spec.title,
        device=file.path.name,
        parameters=parameters,
        features=tuple(spec.features),
        times=("time_s",),
        outcome="outcome" if "outcome" in file.header else None,
        message="message" if "message" in file.header else None,
        compiler=compiler,
        is_mapped=False,
        readers=listed_readers(parameters) | features,
    )


def _compiler(file: CsvFile, spec: Spec) -> str | None:
    found = sorted({p.compiler for p in spec.parameters if p.compiler and p.name in file.header})
    if len(found) > 1:
        flags = " and ".join(found)
        raise RecordingError(f"{file.path}:1: has flags of {flags}; keep those of one compiler")
    return found[0] if found else None


def _feature(name: str, known: Set[tuple[type, Value]], cell: str) -> Value:
    """Return the value that a cell means; the space's inputs need not have it.

    Raises ValueError where it is a word and all of theirs are numbers.
    """
    word = cell.strip()
    for reading in readings(word):
        if typed(reading) in known:
            return reading
    try:
        return whole_or_real(name, word)
    except ValueError:
        if not any(kind is str for kind, _ in known):
            raise
    return plain_value(name, word)


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
    ignore: Names = Field(
        default_factory=list, description="columns that may be left out, such as dates and comments"
    )

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
            ignored=tuple(self.ignore),
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
        "    ignore: []  # move here all other columns\n"
        "\ndocs/recordings.md explains each key."
    )
