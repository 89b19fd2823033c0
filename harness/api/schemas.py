"""The JSON document that each command prints with --json, and its JSON Schema.

New keys may be added; `format` changes where one is removed or changes its meaning.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, TypeAdapter

from harness import __version__
from harness.api import documents
from harness.api.documents import Count, JsonConfig, JsonDocument, Text, perhaps_of, value_of

FORMAT = 4
SCHEMA_DIALECT = "https://json-schema.org/draft/2020-12/schema"


class _HeadedDocument(JsonDocument):
    """What every document begins with."""

    harness: str = __version__
    format: int = FORMAT


class ErrorDocument(_HeadedDocument):
    """What every command prints with --json when it ends with exit code 2."""

    error: str


class TuneDocument(_HeadedDocument):
    """What `tune --json` and `replay --json` print. `has_failed` is true where the exit code is not
    0: nothing was measured, or nothing worked on an input. A default that fails while others work
    is in `results.warnings`. `warnings` are those of the run, as on standard error. `next` has the
    commands to run next, each as a list of words: `analyse` shows the results again, and the
    command itself continues the search."""

    database: str
    has_failed: bool
    warnings: list[str]
    report: str | None
    results: documents.ResultsDocument | None
    next: list[list[str]]


class AnalyseDocument(_HeadedDocument):
    """What `analyse --json` prints; `summary` has each program on each device."""

    analyses: list[documents.AnalysisDocument]
    summary: list[documents.ProgramDocument]


class TargetDocument(JsonDocument):
    """The compilation for one device or architecture; `why_failed` is of the default, and empty
    where it compiles."""

    target: str = value_of("name")
    is_default_ok: Annotated[bool, BeforeValidator(operator.not_)] = value_of(
        "results", 0, "failure"
    )
    why_failed: str = value_of("results", 0, "failure")
    compiled: Count = value_of("results")
    failed: int
    machine_codes: Count = value_of("codes")


class SpaceDocument(JsonDocument):
    """A valid space; `legal` is the number of legal configurations by input, null where it is too
    large to count; of more than 100 inputs, only the first and those with the least and the
    greatest value of a feature are counted. `why_host_failed` and, with --run and of a program,
    `why_run_failed` are empty where the host module and the default work, or were not run."""

    name: str = value_of("spec", "name")
    path: Text = value_of("spec", "path")
    points: int = value_of("size", "points")
    inputs: list[JsonConfig] = value_of("spec", "inputs")
    legal: list[int | None] | None
    default: JsonConfig = value_of("spec", "default")
    targets: list[TargetDocument] = value_of("documents")
    why_host_failed: str
    why_run_failed: str

    @property
    def is_ok(self) -> bool:
        """Whether the default, and the host module, worked in all that was tried."""
        is_built = all(target.is_default_ok for target in self.targets)
        return is_built and not self.why_host_failed and not self.why_run_failed

    def __str__(self) -> str:
        targets = [f"{t.target}: {t.why_failed}" for t in self.targets if not t.is_default_ok]
        whys = filter(None, [*targets, self.why_host_failed, self.why_run_failed])
        return "\n".join([f"{self.name}: {'OK' if self.is_ok else 'FAILED'}", *whys])


class FaultDocument(JsonDocument):
    """A fault of a space; line 0 is the file as a whole."""

    path: str
    line: int
    text: str


class CheckDocument(_HeadedDocument):
    """What `check --json` prints; with `faults` there are no spaces."""

    is_ok: bool
    spaces: list[SpaceDocument]
    faults: list[FaultDocument]


class ComparedMeasurementDocument(JsonDocument):
    """One side of a comparison; `statistic` says whether `time_s` is the median or the mean."""

    configuration: JsonConfig = value_of("config")
    median_s: float = value_of("timing", "median_s")
    time_s: float = value_of("timing", "time_s")
    statistic: str = value_of("timing", "statistic")
    samples: int = value_of("timing", "count")


def _timed(measurement: Any) -> Any:
    return measurement if measurement is not None and measurement.timing is not None else None


_Side = Annotated[ComparedMeasurementDocument | None, BeforeValidator(_timed)]


class ComparedDocument(JsonDocument):
    """One row: `of` is `best` or `default`, `ratio` CANDIDATE's time over BASE's. The ratio, its
    interval and its `p_value` are null where nothing was tested. `upper_limit` is the largest
    slowdown that may have been missed, null where the verdict is clear."""

    kernel: str
    device: str = value_of("environment", "device")
    cache: str = value_of("environment", "cache")
    input: JsonConfig = value_of("problem")
    of: str = value_of("subject")
    verdict: str
    base: _Side
    candidate: _Side
    ratio: float | None = perhaps_of("change", "ratio", "value")
    low: float | None = perhaps_of("change", "ratio", "low")
    high: float | None = perhaps_of("change", "ratio", "high")
    p_value: float | None = perhaps_of("change", "p_value")
    upper_limit: float | None
    notes: list[str]


class CompareDocument(_HeadedDocument):
    """What `compare --json` prints. `status` is the exit code, `tested` counts the rows that were
    measured on both sides, `upper_limit` is the largest of all rows, `counts` is by verdict."""

    status: int
    level: float = value_of("comparison", "rules", "level")
    threshold: float = value_of("comparison", "rules", "threshold")
    tested: int = value_of("comparison", "tested")
    upper_limit: float | None = perhaps_of("comparison", "least_certain", 1)
    summary: str
    counts: dict[str, int] = value_of("comparison", "counts")
    notes: list[str] = value_of("comparison", "notes")
    comparisons: list[ComparedDocument] = value_of("comparison", "rows")


class WeightsDocument(JsonDocument):
    """The workload that weighs the inputs, and the shares of its calls with inputs that were
    measured, that lie between measured ones, and that lie outside of the tuned range."""

    workload: Text = value_of("workload", "path")
    calls: int = value_of("workload", "total")
    inputs: Count = value_of("workload", "calls")
    measured: float
    between: float = value_of("near")
    outside: float


class DispatchDocument(_HeadedDocument):
    """What `dispatch --json` prints. `tried` says how many configurations it rests on;
    `why_not_written` is empty where `files` were written, and
    `weights` null without --weights."""

    space: str = value_of("learnt", "results", "campaign", "space_name")
    device: str = value_of("learnt", "results", "campaign", "environment", "device")
    single: documents.SingleDocument = value_of("learnt", "single")
    choice: documents.ChoiceDocument | None
    why_no_choice: str = value_of("learnt", "findings", "why_no_choice")
    tried: str = value_of("learnt", "findings", "tried")
    notices: list[str]
    folder: Text = value_of("learnt", "options", "output")
    files: list[str]
    why_not_written: str = value_of("learnt", "why_not_written")
    weights: WeightsDocument | None = value_of("learnt", "findings", "coverage")


class ReportedDocument(JsonDocument):
    """One part of a report."""

    space: str = value_of("campaign", "space_name")
    device: str = value_of("campaign", "environment", "device")
    inputs: Count = value_of("measured")


class ReportDocument(_HeadedDocument):
    """What `report --json` prints."""

    report: Text
    results: list[ReportedDocument]


DOCUMENTS: Mapping[str, type[_HeadedDocument]] = {
    "analyse": AnalyseDocument,
    "check": CheckDocument,
    "compare": CompareDocument,
    "dispatch": DispatchDocument,
    "replay": TuneDocument,
    "report": ReportDocument,
    "tune": TuneDocument,
}
"""The document that each command prints with --json."""


def document_schema(command: str) -> dict[str, Any]:
    """Return the JSON Schema of what a command prints with --json: its document, or an error."""
    adapter = TypeAdapter[Any](DOCUMENTS[command] | ErrorDocument)  # type: ignore[arg-type]
    return {"$schema": SCHEMA_DIALECT, **adapter.json_schema(mode="serialization")}
