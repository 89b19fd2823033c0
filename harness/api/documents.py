"""The JSON documents that commands print with --json, as types (schemas: harness.api.schemas).

Times are in seconds. A bound that is infinite, and a number that is not known, is null. New keys
may be added; `format` changes where one is removed or changes its meaning.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from harness import __version__

FORMAT = 3

JsonValue = bool | int | float | str | None
JsonConfig = dict[str, JsonValue]


@dataclass(frozen=True)
class RatioDocument:
    """A ratio with its confidence interval; `is_faster` where it is significantly above 1."""

    value: float
    low: float
    high: float | None
    is_faster: bool


@dataclass(frozen=True)
class ObservedDocument:
    """An observation of a measurement, with half its 95 % confidence interval, null where that is
    not known."""

    value: float
    spread: float | None


@dataclass(frozen=True)
class InputDocument:
    """The result of one input. `best` was the fastest; `recommended` is the default where the best
    is not significantly faster. `time_s` and `energy_j`, of one launch or run, are of the
    recommended configuration, and null where they were not measured. Spreads are half the 95 %
    confidence interval, null of a single sample. `default_outcome` is `ok`, or how the default
    failed, with its `default_message`; null where it was not measured. `speedup` is over the
    default, `outcomes` counts configurations."""

    input: JsonConfig
    best: JsonConfig | None
    recommended: JsonConfig | None
    time_s: float | None
    time_spread_s: float | None
    default_s: float | None
    default_spread_s: float | None
    default_outcome: str | None
    default_message: str
    speedup: RatioDocument | None
    ties: int
    measured: int
    legal: int | None
    outcomes: dict[str, int]
    note: str
    energy_j: ObservedDocument | None
    default_energy_j: ObservedDocument | None


@dataclass(frozen=True)
class JudgedDocument:
    """One way to choose: its slowdown against the best known, on held-out inputs."""

    name: str
    slowdown: RatioDocument
    worst: float
    within_5_percent: float


@dataclass(frozen=True)
class PortfolioDocument:
    """Configurations that together suit all inputs best, and the slowdown of the best of as many on
    held-out inputs."""

    configs: list[JsonConfig]
    slowdown: RatioDocument


@dataclass(frozen=True)
class ChoiceDocument:
    """What was learnt across inputs; `speedup` is over one configuration for all."""

    name: str
    is_worth_it: bool
    speedup: RatioDocument
    inputs: int
    rule: list[str]
    sentence: str
    judged: list[JudgedDocument]


@dataclass(frozen=True)
class SingleDocument:
    """The configuration to use on every input, and those `where_illegal`, in order. `speedup` is
    over the default on the `inputs` that the finals judged; null for the default."""

    config: JsonConfig
    where_illegal: list[JsonConfig]
    speedup: RatioDocument | None
    inputs: int


@dataclass(frozen=True)
class FlagFileDocument:
    """A file that a value of a flag passes to the compiler: by an option, with its path."""

    flag: str
    value: str
    option: str
    sha256: str


@dataclass(frozen=True)
class ResultsDocument:
    """The results of one space on one device; `advice` says in a sentence what to use, and
    `statistic` whether times are medians or means. `warnings` are sentences: what was left out, on
    how many inputs the default failed or times are noisy. `flag_files` are those of
    configurations."""

    space: str
    device: str
    backend: str
    platform: str
    driver: str
    compiler: str
    cache: str
    program_sha256: str
    campaign: int
    statistic: str
    databases: list[str]
    default: JsonConfig
    advice: str
    inputs: list[InputDocument]
    warnings: list[str]
    single: SingleDocument | None
    choice: ChoiceDocument | None
    why_no_choice: str
    flag_files: list[FlagFileDocument]


@dataclass(frozen=True)
class HeadedDocument:
    """What every document begins with."""

    harness: str = field(default=__version__, kw_only=True)
    format: int = field(default=FORMAT, kw_only=True)


@dataclass(frozen=True)
class ErrorDocument(HeadedDocument):
    """What every command prints with --json when it ends with exit code 2."""

    error: str


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class FailureDocument:
    """Failed configurations with one reason; `example` is one of them, on `input`."""

    outcome: str
    reason: str
    count: int
    example: JsonConfig
    input: JsonConfig


@dataclass(frozen=True)
class AnalysisDocument:
    """One space on one device; `importance` has the share of the squared error that a tree's splits
    on a parameter remove, `r2` the tree's accuracy on held-out samples. `portfolios` say what each
    further configuration gains, where there is a choice by input."""

    results: ResultsDocument
    failures: list[FailureDocument]
    importance: dict[str, float] | None
    r2: float | None
    portfolios: list[PortfolioDocument]


@dataclass(frozen=True)
class ProgramDocument:
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


@dataclass(frozen=True)
class AnalyseDocument(HeadedDocument):
    """What `analyse --json` prints; `summary` has each program on each device."""

    analyses: list[AnalysisDocument]
    summary: list[ProgramDocument]


@dataclass(frozen=True)
class FaultDocument:
    """A fault of a space; line 0 is the file as a whole."""

    path: str
    line: int
    text: str


@dataclass(frozen=True)
class TargetDocument:
    """The compilation for one device or architecture; `why_failed` is of the default, and empty
    where it compiles. `without_effect` has the parameters that change no build, each with the
    number of builds that were tried; null without --compile."""

    target: str
    is_default_ok: bool
    why_failed: str
    compiled: int
    failed: int
    machine_codes: int
    without_effect: dict[str, int] | None


@dataclass(frozen=True)
class SpaceDocument:
    """A valid space; `legal` is the number of legal configurations by input, null where it is too
    large to count; of more than 100 inputs, only the first and those with the least and the
    greatest value of a feature are counted. `why_host_failed` and, with --run and of a program,
    `why_run_failed` are empty where the host module and the default work, or were not run.
    `feature_sources` says where the launcher of a program finds each feature; it is empty for
    kernels, and where `why_no_launcher` says why."""

    name: str
    path: str
    points: int
    inputs: list[JsonConfig]
    legal: list[int | None] | None
    default: JsonConfig
    targets: list[TargetDocument]
    why_host_failed: str
    why_run_failed: str
    feature_sources: dict[str, str]
    why_no_launcher: str


@dataclass(frozen=True)
class CheckDocument(HeadedDocument):
    """What `check --json` prints; with `faults` there are no spaces."""

    is_ok: bool
    spaces: list[SpaceDocument]
    faults: list[FaultDocument]


@dataclass(frozen=True)
class ComparedMeasurementDocument:
    """One side of a comparison; `statistic` says whether `time_s` is the median or the mean."""

    configuration: JsonConfig
    median_s: float
    time_s: float
    statistic: str
    samples: int


@dataclass(frozen=True)
class ComparedDocument:
    """One row: `of` is `best` or `default`, `ratio` CANDIDATE's time over BASE's. The ratio, its
    interval and its `p_value` are null where nothing was tested. `upper_limit` is the largest
    slowdown that may have been missed, null where the verdict is clear."""

    kernel: str
    device: str
    cache: str
    input: JsonConfig
    of: str
    verdict: str
    base: ComparedMeasurementDocument | None
    candidate: ComparedMeasurementDocument | None
    ratio: float | None
    low: float | None
    high: float | None
    p_value: float | None
    upper_limit: float | None
    notes: list[str]


@dataclass(frozen=True)
class CompareDocument(HeadedDocument):
    """What `compare --json` prints. `status` is the exit code, `tested` counts the rows that were
    measured on both sides, `upper_limit` is the largest of all rows, `counts` is by verdict."""

    status: int
    level: float
    threshold: float
    tested: int
    upper_limit: float | None
    summary: str
    counts: dict[str, int]
    notes: list[str]
    comparisons: list[ComparedDocument]


@dataclass(frozen=True)
class ShareDocument:
    """A share with its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class WeightsDocument:
    """The workload that weighs the inputs, and the shares of its calls with inputs that were
    measured, that lie between measured ones, and that lie outside of the tuned range."""

    workload: str
    calls: int
    inputs: int
    measured: ShareDocument
    between: ShareDocument
    outside: ShareDocument


@dataclass(frozen=True)
class DispatchDocument(HeadedDocument):
    """What `dispatch --json` prints; `why_not_written` is empty where `files` were written, and
    `weights` null without --weights."""

    space: str
    device: str
    single: SingleDocument
    choice: ChoiceDocument | None
    why_no_choice: str
    notices: list[str]
    folder: str
    files: list[str]
    why_not_written: str
    weights: WeightsDocument | None


@dataclass(frozen=True)
class ReportedDocument:
    """One part of a report."""

    space: str
    device: str
    inputs: int


@dataclass(frozen=True)
class ReportDocument(HeadedDocument):
    """What `report --json` prints."""

    report: str
    results: list[ReportedDocument]
