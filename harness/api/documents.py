"""The JSON document that each command prints with --json, its parts, and its JSON Schema.

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
from harness.core.observations import ENERGY_SPREAD, PEAK_FRACTION, RATES

FORMAT = 4
SCHEMA_DIALECT = "https://json-schema.org/draft/2020-12/schema"

D = TypeVar("D", bound="JsonDocument")


class JsonDocument(BaseModel):
    """A document, or a part of one. A value is the attribute of a record that has its name, or
    the one to which `value_of` leads."""

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


def value_of(path: str) -> Any:
    """Take a value from where a path of attributes and indices leads."""
    return Field(validation_alias=_alias(path))


def perhaps_of(path: str) -> Any:
    """Take a value from where a path leads; null where a record on it is None."""
    return Field(None, validation_alias=_alias(path))


def _alias(path: str) -> AliasPath:
    first, *others = path.split(".")
    return AliasPath(first, *(int(part) if part.isdigit() else part for part in others))


def _finite(number: float | None) -> float | None:
    return number if number is not None and math.isfinite(number) else None


JsonConfig = dict[str, bool | int | float | str | None]
Number = Annotated[float | None, BeforeValidator(_finite)]
Count = Annotated[int, BeforeValidator(len)]
Text = Annotated[str, BeforeValidator(str)]


class EstimateDocument(JsonDocument):
    """A share or a ratio with its confidence interval."""

    value: float
    low: float
    high: Number


class RatioDocument(EstimateDocument):
    """A ratio with its confidence interval; `is_faster` where it is significantly above 1."""

    is_faster: bool = False


class EnergyDocument(JsonDocument):
    """The energy of a measurement, with half its 95 % confidence interval, null where that is
    not known."""

    value: float = value_of("observed.energy_j")
    spread: float | None = perhaps_of(f"observed.{ENERGY_SPREAD}")


class TradeOffDocument(JsonDocument):
    """A configuration for which none is both faster and takes less energy, by the search."""

    config: JsonConfig
    time_s: float
    energy_j: float = value_of("observed.energy_j")


class InputDocument(JsonDocument):
    """The result of one input. `best` was the fastest; `recommended` is the default where the best
    is not significantly faster. `time_s` and `energy_j`, of one launch or run, are of the
    recommended configuration, and null where they were not measured. Spreads are half the
    confidence interval, null of a single sample. `measured` and `legal` count configurations;
    `legal` is null where it is not known. `default_outcome` is `ok`, or how the default
    failed, with its `default_message`; null where it was not measured. `speedup` is over the
    default, `outcomes` counts configurations. `gb_per_s`, `gflop_per_s` and `peak_fraction`, of the
    recommended configuration, follow from the `work` of the space; null without it.
    `time_against_energy` has the configurations for which none is both faster and takes less
    energy, with `config`, `time_s` and `energy_j`, the fastest first."""

    input: JsonConfig = value_of("report.problem")
    best: JsonConfig | None = perhaps_of("report.best.config")
    recommended: JsonConfig | None = perhaps_of("report.recommended.config")
    time_s: Number = perhaps_of("report.recommended.time_s")
    time_spread_s: Number
    default_s: Number = perhaps_of("report.baseline.time_s")
    default_spread_s: Number
    default_outcome: str | None = perhaps_of("default.outcome")
    default_message: str
    speedup: RatioDocument | None = value_of("report.speedup")
    ties: int = value_of("report.within_noise")
    measured: int = value_of("report.measured")
    legal: int | None = value_of("report.legal")
    outcomes: dict[str, int] = value_of("report.outcomes")
    note: str = value_of("report.note")
    gb_per_s: Number = perhaps_of(f"report.recommended.observed.{RATES['bytes']}")
    gflop_per_s: Number = perhaps_of(f"report.recommended.observed.{RATES['flops']}")
    peak_fraction: Number = perhaps_of(f"report.recommended.observed.{PEAK_FRACTION}")
    energy_j: EnergyDocument | None = perhaps_of("energy.best")
    default_energy_j: EnergyDocument | None = perhaps_of("energy.default")
    time_against_energy: list[TradeOffDocument] = value_of("front")


class JudgedDocument(JsonDocument):
    """One way to choose: its slowdown against the best known, on held-out inputs."""

    name: str
    slowdown: RatioDocument = value_of("mean")
    worst: float
    within_5_percent: float = value_of("near")


class PortfolioDocument(JsonDocument):
    """Configurations that together suit all inputs best, and the slowdown of the best of as many on
    held-out inputs."""

    configs: list[JsonConfig]
    slowdown: RatioDocument = value_of("slowdowns.mean")


class ChoiceDocument(JsonDocument):
    """What was learnt across inputs; `speedup` is over one configuration for all."""

    name: str
    is_worth_it: bool
    speedup: RatioDocument
    inputs: int
    rule: list[str]
    sentence: str
    judged: list[JudgedDocument]


class SingleDocument(JsonDocument):
    """The configuration to use on every input, and those `where_illegal`, in order. `speedup` is
    over the default on the `inputs` that the finals judged; null for the default."""

    config: JsonConfig
    where_illegal: list[JsonConfig] = value_of("others")
    speedup: RatioDocument | None
    inputs: int


class FlagFileDocument(JsonDocument):
    """A file that a value of a flag passes to the compiler: by an option, with its path."""

    flag: str
    value: str
    option: str
    sha256: str


class ResultsDocument(JsonDocument):
    """The results of one space on one device; `advice` says in a sentence what to use, `tried` how
    many configurations it rests on, `health` whether winners spill registers, what the worst takes
    and how many failed, `statistic` whether times are medians or means, and `confidence` the
    probability of their confidence intervals. `warnings` are sentences: what was left out, on how
    many inputs the default failed or times are noisy. `flag_files` are those of configurations."""

    space: str = value_of("campaign.space_name")
    device: str = value_of("campaign.environment.device")
    backend: str = value_of("campaign.environment.backend")
    platform: str = value_of("campaign.environment.platform")
    driver: str = value_of("campaign.environment.driver")
    compiler: str = value_of("campaign.environment.compiler")
    cache: str = value_of("campaign.environment.cache")
    timer: str = value_of("campaign.environment.timer")
    clock: str = value_of("campaign.environment.clock")
    program_sha256: str = value_of("campaign.key.program_sha256")
    campaign: int = value_of("campaign.key.campaign")
    statistic: str = value_of("campaign.statistic")
    confidence: float = value_of("campaign.confidence")
    databases: list[str]
    default: JsonConfig = value_of("findings.results.default")
    advice: str = value_of("findings.advice")
    tried: str = value_of("findings.tried")
    health: str
    inputs: list[InputDocument]
    warnings: list[str]
    single: SingleDocument | None = value_of("findings.single")
    choice: ChoiceDocument | None
    why_no_choice: str
    flag_files: list[FlagFileDocument]


class FailureDocument(JsonDocument):
    """Failed configurations with one reason; `example` is one of them, on `input`."""

    outcome: str = value_of("kind")
    reason: Annotated[str, BeforeValidator(informative_line)] = value_of("members.0.message")
    count: Count = value_of("members")
    example: JsonConfig = value_of("members.0.config")
    input: JsonConfig = value_of("members.0.input")


class InputBitsDocument(JsonDocument):
    """The classes of configurations whose outputs have equal bits on one input. Those that are
    `varying` from run to run are in none. `slowdown` is that of the fastest in the default's class;
    null, as `in_default`, where the default's bits are not known."""

    input: JsonConfig = value_of("problem")
    configs: int
    varying: int
    classes: int
    in_default: int | None
    slowdown: float | None


class BitsDocument(JsonDocument):
    """Measured configurations with equal values of the parameters `split_by` have equal bits;
    `slowdown` is a geometric mean over the inputs."""

    split_by: list[str]
    slowdown: float | None
    inputs: list[InputBitsDocument]


class AnalysisDocument(JsonDocument):
    """One space on one device; `importance` has the share of the squared error that a tree's splits
    on a parameter remove, `r2` the tree's accuracy on held-out samples. `portfolios` say what each
    further configuration gains, where there is a choice by input. `bits` is null where no bits of
    outputs are known."""

    results: ResultsDocument
    failures: list[FailureDocument]
    importance: dict[str, float] | None
    r2: Number = perhaps_of("explanation.accuracy.r2")
    portfolios: list[PortfolioDocument]
    bits: BitsDocument | None


class ProgramDocument(JsonDocument):
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


# ------------------------------------------------------------------ the document of a command


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
    results: ResultsDocument | None
    next: list[list[str]]


class AnalyseDocument(_HeadedDocument):
    """What `analyse --json` prints; `summary` has each program on each device."""

    analyses: list[AnalysisDocument]
    summary: list[ProgramDocument]


class TargetDocument(JsonDocument):
    """The compilation for one device or architecture; `why_failed` is of the default, and empty
    where it compiles."""

    target: str = value_of("name")
    is_default_ok: Annotated[bool, BeforeValidator(operator.not_)] = value_of("results.0.failure")
    why_failed: str = value_of("results.0.failure")
    compiled: Count = value_of("results")
    failed: int
    machine_codes: Count = value_of("codes")


class SpaceDocument(JsonDocument):
    """A valid space; `legal` is the number of legal configurations by input, null where it is too
    large to count; of more than 100 inputs, only the first and those with the least and the
    greatest value of a feature are counted. `why_host_failed` and, with --run and of a program,
    `why_run_failed` are empty where the host module and the default work, or were not run;
    `why_not_run` says why the default was not run, or not on all inputs, though --run is there."""

    name: str = value_of("spec.name")
    path: Text = value_of("spec.path")
    points: int = value_of("size.points")
    inputs: list[JsonConfig] = value_of("spec.inputs")
    legal: list[int | None] | None
    default: JsonConfig = value_of("spec.default")
    targets: list[TargetDocument] = value_of("documents")
    why_host_failed: str
    why_run_failed: str
    why_not_run: str

    @property
    def is_ok(self) -> bool:
        """Whether the default, and the host module, worked in all that was asked for."""
        is_built = all(target.is_default_ok for target in self.targets)
        return is_built and not (self.why_host_failed or self.why_run_failed or self.why_not_run)

    def __str__(self) -> str:
        targets = [f"{t.target}: {t.why_failed}" for t in self.targets if not t.is_default_ok]
        reasons = [*targets, self.why_host_failed, self.why_run_failed, self.why_not_run]
        whys = filter(None, reasons)
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
    median_s: float = value_of("timing.median_s")
    time_s: float = value_of("timing.time_s")
    statistic: str = value_of("timing.statistic")
    samples: int = value_of("timing.count")


def _timed(measurement: Any) -> Any:
    return measurement if measurement is not None and measurement.timing is not None else None


_Side = Annotated[ComparedMeasurementDocument | None, BeforeValidator(_timed)]


class ComparedDocument(JsonDocument):
    """One row: `of` is `best` or `default`, `ratio` CANDIDATE's time over BASE's. The ratio, its
    interval and its `p_value` are null where nothing was tested. `upper_limit` is the largest
    slowdown that may have been missed, null where the verdict is clear."""

    kernel: str
    device: str = value_of("environment.device")
    cache: str = value_of("environment.cache")
    timer: str = value_of("environment.timer")
    clock: str = value_of("environment.clock")
    input: JsonConfig = value_of("problem")
    of: str = value_of("subject")
    verdict: str
    base: _Side
    candidate: _Side
    ratio: float | None = perhaps_of("change.ratio.value")
    low: float | None = perhaps_of("change.ratio.low")
    high: float | None = perhaps_of("change.ratio.high")
    p_value: float | None = perhaps_of("change.p_value")
    upper_limit: float | None
    notes: list[str]


class CompareDocument(_HeadedDocument):
    """What `compare --json` prints. `status` is the exit code, `tested` counts the rows that were
    measured on both sides, `upper_limit` is the largest of all rows, `counts` is by verdict."""

    status: int
    level: float = value_of("comparison.rules.level")
    threshold: float = value_of("comparison.rules.threshold")
    tested: int = value_of("comparison.tested")
    upper_limit: float | None = perhaps_of("comparison.least_certain.1")
    summary: str
    counts: dict[str, int] = value_of("comparison.counts")
    notes: list[str] = value_of("comparison.notes")
    comparisons: list[ComparedDocument] = value_of("comparison.rows")


class WeightsDocument(JsonDocument):
    """The workload that weighs the inputs, and the shares of its calls with inputs that were
    measured, that lie between measured ones, and that lie outside of the tuned range."""

    workload: Text = value_of("workload.path")
    calls: int = value_of("workload.total")
    inputs: Count = value_of("workload.calls")
    measured: float
    between: float = value_of("near")
    outside: float


class DispatchDocument(_HeadedDocument):
    """What `dispatch --json` prints. `tried` says how many configurations it rests on;
    `why_not_written` is empty where `files` were written, and
    `weights` null without --weights."""

    space: str = value_of("learnt.results.campaign.space_name")
    device: str = value_of("learnt.results.campaign.environment.device")
    single: SingleDocument = value_of("learnt.single")
    choice: ChoiceDocument | None
    why_no_choice: str = value_of("learnt.findings.why_no_choice")
    tried: str = value_of("learnt.findings.tried")
    notices: list[str]
    folder: Text = value_of("learnt.options.output")
    files: list[str]
    why_not_written: str = value_of("learnt.why_not_written")
    weights: WeightsDocument | None = value_of("learnt.findings.coverage")


class ReportedDocument(JsonDocument):
    """One part of a report."""

    space: str = value_of("campaign.space_name")
    device: str = value_of("campaign.environment.device")
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
