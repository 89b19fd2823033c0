"""The JSON documents that commands print with --json, and their JSON Schemas.

Times are in seconds. A bound that is infinite, and a number that is not known, is null. New keys
may be added; `format` changes where one is removed or changes its meaning.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Annotated, Any, TypeVar

from pydantic import AliasPath, BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter

from harness import __version__
from harness.analysis.failures import informative_line
from harness.core.errors import UsageError
from harness.core.text import suggestion

FORMAT = 3
SCHEMA_DIALECT = "https://json-schema.org/draft/2020-12/schema"

D = TypeVar("D", bound="Document")


class Document(BaseModel):
    """A document, or a part of one. A value is the attribute of a record that has its name, or
    the one to which `_of` leads."""

    model_config = ConfigDict(
        from_attributes=True,
        populate_by_name=True,
        frozen=True,
        defer_build=True,
        json_schema_serialization_defaults_required=True,
    )

    @classmethod
    def describe(cls: type[D], **records: object) -> D:
        """Describe records."""
        return cls.model_validate(SimpleNamespace(**records))


def _of(*path: str | int) -> Any:
    """Take a value from where a path of attributes leads."""
    return Field(validation_alias=AliasPath(*path))  # type: ignore[arg-type]


def _perhaps(*path: str | int) -> Any:
    """Take a value from where a path of attributes leads; null where a record on it is None."""
    return Field(None, validation_alias=AliasPath(*path))  # type: ignore[arg-type]


def _finite(number: float | None) -> float | None:
    return number if number is not None and math.isfinite(number) else None


def _spread_s(timing: Any) -> float | None:
    """Return half the confidence interval of a time, as the table of inputs has it."""
    from harness.stats.timing import half_width_of  # here: not every document needs SciPy

    return None if timing is None or timing.count == 1 else _finite(half_width_of(timing))


JsonConfig = dict[str, bool | int | float | str | None]
_Number = Annotated[float | None, BeforeValidator(_finite)]
_Spread = Annotated[float | None, BeforeValidator(_spread_s)]
_Count = Annotated[int, BeforeValidator(len)]
_Text = Annotated[str, BeforeValidator(str)]


class EstimateDocument(Document):
    """A share or a ratio with its 95 % confidence interval."""

    value: float
    low: float
    high: _Number


class RatioDocument(EstimateDocument):
    """A ratio with its confidence interval; `is_faster` where it is significantly above 1."""

    is_faster: bool = False


class ObservedDocument(Document):
    """An observation of a measurement, with half its 95 % confidence interval, null where that is
    not known."""

    value: float
    spread: float | None


class InputDocument(Document):
    """The result of one input. `best` was the fastest; `recommended` is the default where the best
    is not significantly faster. `time_s` and `energy_j`, of one launch or run, are of the
    recommended configuration, and null where they were not measured. Spreads are half the 95 %
    confidence interval, null of a single sample. `default_outcome` is `ok`, or how the default
    failed, with its `default_message`; null where it was not measured. `speedup` is over the
    default, `outcomes` counts configurations."""

    input: JsonConfig = _of("report", "problem")
    best: JsonConfig | None = _perhaps("report", "best", "config")
    recommended: JsonConfig | None = _perhaps("report", "recommended", "config")
    time_s: _Number = _perhaps("report", "recommended", "time_s")
    time_spread_s: _Spread = _perhaps("report", "recommended", "timing")
    default_s: _Number = _perhaps("report", "baseline", "time_s")
    default_spread_s: _Spread = _perhaps("report", "baseline", "timing")
    default_outcome: str | None = _perhaps("default", "outcome")
    default_message: str
    speedup: RatioDocument | None = _of("report", "speedup")
    ties: int = _of("report", "within_noise")
    measured: int = _of("report", "measured")
    legal: int | None
    outcomes: dict[str, int] = _of("report", "outcomes")
    note: str = _of("report", "note")
    energy_j: ObservedDocument | None
    default_energy_j: ObservedDocument | None


class JudgedDocument(Document):
    """One way to choose: its slowdown against the best known, on held-out inputs."""

    name: str
    slowdown: RatioDocument = _of("mean")
    worst: float
    within_5_percent: float = _of("near")


class PortfolioDocument(Document):
    """Configurations that together suit all inputs best, and the slowdown of the best of as many on
    held-out inputs."""

    configs: list[JsonConfig]
    slowdown: RatioDocument = _of("slowdowns", "mean")


class ChoiceDocument(Document):
    """What was learnt across inputs; `speedup` is over one configuration for all."""

    name: str
    is_worth_it: bool
    speedup: RatioDocument
    inputs: int
    rule: list[str]
    sentence: str
    judged: list[JudgedDocument]


class SingleDocument(Document):
    """The configuration to use on every input, and those `where_illegal`, in order. `speedup` is
    over the default on the `inputs` that the finals judged; null for the default."""

    config: JsonConfig
    where_illegal: list[JsonConfig] = _of("others")
    speedup: RatioDocument | None
    inputs: int


class FlagFileDocument(Document):
    """A file that a value of a flag passes to the compiler: by an option, with its path."""

    flag: str
    value: str
    option: str
    sha256: str


class ResultsDocument(Document):
    """The results of one space on one device; `advice` says in a sentence what to use, and
    `statistic` whether times are medians or means. `warnings` are sentences: what was left out, on
    how many inputs the default failed or times are noisy. `flag_files` are those of
    configurations."""

    space: str = _of("campaign", "space_name")
    device: str = _of("campaign", "environment", "device")
    backend: str = _of("campaign", "environment", "backend")
    platform: str = _of("campaign", "environment", "platform")
    driver: str = _of("campaign", "environment", "driver")
    compiler: str = _of("campaign", "environment", "compiler")
    cache: str = _of("campaign", "environment", "cache")
    program_sha256: str = _of("campaign", "key", "program_sha256")
    campaign: int = _of("campaign", "key", "campaign")
    statistic: str = _of("campaign", "statistic")
    databases: list[str]
    default: JsonConfig = _of("findings", "results", "default")
    advice: str = _of("findings", "advice")
    inputs: list[InputDocument]
    warnings: list[str]
    single: SingleDocument | None = _of("findings", "single")
    choice: ChoiceDocument | None
    why_no_choice: str
    flag_files: list[FlagFileDocument]


class HeadedDocument(Document):
    """What every document begins with."""

    harness: str = __version__
    format: int = FORMAT


class ErrorDocument(HeadedDocument):
    """What every command prints with --json when it ends with exit code 2."""

    error: str


class TuneDocument(HeadedDocument):
    """What `tune --json` prints. `has_failed` is true where the exit code is not 0: nothing was
    measured, or nothing worked on an input. A default that fails while others work
    is in `results.warnings`. `warnings` are those of the run, as on standard error. `next` has the
    commands to run next, each as a list of words: `analyse` shows the results again, and `tune`
    continues the search."""

    database: str
    has_failed: bool
    warnings: list[str]
    report: str | None
    results: ResultsDocument | None
    next: list[list[str]]


class FailureDocument(Document):
    """Failed configurations with one reason; `example` is one of them, on `input`."""

    outcome: str = _of("kind")
    reason: Annotated[str, BeforeValidator(informative_line)] = _of("members", 0, "message")
    count: _Count = _of("members")
    example: JsonConfig = _of("members", 0, "config")
    input: JsonConfig = _of("members", 0, "input")


class AnalysisDocument(Document):
    """One space on one device; `importance` has the share of the squared error that a tree's splits
    on a parameter remove, `r2` the tree's accuracy on held-out samples. `portfolios` say what each
    further configuration gains, where there is a choice by input."""

    results: ResultsDocument
    failures: list[FailureDocument]
    importance: dict[str, float] | None
    r2: _Number = _perhaps("explanation", "accuracy", "r2")
    portfolios: list[PortfolioDocument]


class ProgramDocument(Document):
    """One program on one device: `failures` counts failed tests by kind, `speedups` has the best
    configurations' geometric mean over the inputs, by baseline; `inputs` counts these inputs.
    `statistic` says whether configurations were compared by the median or the mean."""

    program: str
    device: str
    tests: int
    failures: dict[str, int]
    speedups: dict[str, RatioDocument]
    inputs: dict[str, int]
    statistic: str


class AnalyseDocument(HeadedDocument):
    """What `analyse --json` prints; `summary` has each program on each device."""

    analyses: list[AnalysisDocument]
    summary: list[ProgramDocument]


class TargetDocument(Document):
    """The compilation for one device or architecture; `why_failed` is of the default, and empty
    where it compiles. `without_effect` has the parameters that change no build, each with the
    number of builds that were tried; null without --compile."""

    target: str = _of("inspection", "name")
    is_default_ok: Annotated[bool, BeforeValidator(operator.not_)] = _of("results", 0, "failure")
    why_failed: str = _of("results", 0, "failure")
    compiled: _Count = _of("results")
    failed: int
    machine_codes: _Count = _of("codes")
    without_effect: dict[str, int] | None


class SpaceDocument(Document):
    """A valid space; `legal` is the number of legal configurations by input, null where it is too
    large to count; of more than 100 inputs, only the first and those with the least and the
    greatest value of a feature are counted. `why_host_failed` and, with --run and of a program,
    `why_run_failed` are empty where the host module and the default work, or were not run.
    `feature_sources` says where the launcher of a program finds each feature; it is empty for
    kernels, and where `why_no_launcher` says why."""

    name: str = _of("spec", "name")
    path: _Text = _of("spec", "path")
    points: int = _of("size", "points")
    inputs: list[JsonConfig] = _of("spec", "inputs")
    legal: list[int | None] | None
    default: JsonConfig
    targets: list[TargetDocument] = _of("documents")
    why_host_failed: str
    why_run_failed: str
    feature_sources: dict[str, str] = _of("launcher")
    why_no_launcher: str


class FaultDocument(Document):
    """A fault of a space; line 0 is the file as a whole."""

    path: str
    line: int
    text: str


class CheckDocument(HeadedDocument):
    """What `check --json` prints; with `faults` there are no spaces."""

    is_ok: bool
    spaces: list[SpaceDocument]
    faults: list[FaultDocument]


class ComparedMeasurementDocument(Document):
    """One side of a comparison; `statistic` says whether `time_s` is the median or the mean."""

    configuration: JsonConfig = _of("config")
    median_s: float = _of("timing", "median_s")
    time_s: float = _of("timing", "time_s")
    statistic: str = _of("timing", "statistic")
    samples: int = _of("timing", "count")


def _timed(measurement: Any) -> Any:
    return measurement if measurement is not None and measurement.timing is not None else None


_Side = Annotated[ComparedMeasurementDocument | None, BeforeValidator(_timed)]


class ComparedDocument(Document):
    """One row: `of` is `best` or `default`, `ratio` CANDIDATE's time over BASE's. The ratio, its
    interval and its `p_value` are null where nothing was tested. `upper_limit` is the largest
    slowdown that may have been missed, null where the verdict is clear."""

    kernel: str
    device: str = _of("environment", "device")
    cache: str = _of("environment", "cache")
    input: JsonConfig = _of("problem")
    of: str = _of("subject")
    verdict: str
    base: _Side
    candidate: _Side
    ratio: float | None = _perhaps("change", "ratio", "value")
    low: float | None = _perhaps("change", "ratio", "low")
    high: float | None = _perhaps("change", "ratio", "high")
    p_value: float | None = _perhaps("change", "p_value")
    upper_limit: float | None
    notes: list[str]


class CompareDocument(HeadedDocument):
    """What `compare --json` prints. `status` is the exit code, `tested` counts the rows that were
    measured on both sides, `upper_limit` is the largest of all rows, `counts` is by verdict."""

    status: int
    level: float = _of("comparison", "rules", "level")
    threshold: float = _of("comparison", "rules", "threshold")
    tested: int = _of("comparison", "tested")
    upper_limit: float | None = _perhaps("comparison", "least_certain", 1)
    summary: str
    counts: dict[str, int] = _of("comparison", "counts")
    notes: list[str] = _of("comparison", "notes")
    comparisons: list[ComparedDocument] = _of("comparison", "rows")


class WeightsDocument(Document):
    """The workload that weighs the inputs, and the shares of its calls with inputs that were
    measured, that lie between measured ones, and that lie outside of the tuned range."""

    workload: _Text = _of("workload", "path")
    calls: int = _of("workload", "total")
    inputs: _Count = _of("workload", "calls")
    measured: EstimateDocument
    between: EstimateDocument = _of("near")
    outside: EstimateDocument


class DispatchDocument(HeadedDocument):
    """What `dispatch --json` prints; `why_not_written` is empty where `files` were written, and
    `weights` null without --weights."""

    space: str = _of("learnt", "results", "campaign", "space_name")
    device: str = _of("learnt", "results", "campaign", "environment", "device")
    single: SingleDocument = _of("learnt", "single")
    choice: ChoiceDocument | None
    why_no_choice: str = _of("learnt", "why_no_choice")
    notices: list[str]
    folder: _Text = _of("learnt", "options", "output")
    files: list[str]
    why_not_written: str = _of("learnt", "why_not_written")
    weights: WeightsDocument | None = _of("learnt", "coverage")


class ReportedDocument(Document):
    """One part of a report."""

    space: str = _of("campaign", "space_name")
    device: str = _of("campaign", "environment", "device")
    inputs: _Count = _of("measured")


class ReportDocument(HeadedDocument):
    """What `report --json` prints."""

    report: _Text
    results: list[ReportedDocument]


DOCUMENTS: Mapping[str, type[HeadedDocument]] = {
    "analyse": AnalyseDocument,
    "check": CheckDocument,
    "compare": CompareDocument,
    "dispatch": DispatchDocument,
    "report": ReportDocument,
    "tune": TuneDocument,
}
"""The document that each command prints with --json."""


def document_schema(command: str) -> dict[str, Any]:
    """Return the JSON Schema of what a command prints with --json: its document, or an error."""
    if command not in DOCUMENTS:
        raise UsageError(f"`{command}` prints no JSON; {suggestion(command, DOCUMENTS)}")
    adapter = TypeAdapter[Any](DOCUMENTS[command] | ErrorDocument)  # type: ignore[arg-type]
    return {"$schema": SCHEMA_DIALECT, **adapter.json_schema(mode="serialization")}
