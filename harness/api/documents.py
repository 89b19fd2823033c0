"""The parts of the JSON documents that commands print with --json.

Times are in seconds. A bound that is infinite, and a number that is not known, is null. New keys
may be added; `format` changes where one is removed or changes its meaning.
"""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Annotated, Any, TypeVar

from pydantic import AliasPath, BaseModel, BeforeValidator, ConfigDict, Field

from harness.analysis.failures import informative_line
from harness.core.observations import ENERGY_SPREAD, PEAK_FRACTION, RATES

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


def value_of(*path: str | int) -> Any:
    """Take a value from where a path of attributes leads."""
    return Field(validation_alias=AliasPath(*path))  # type: ignore[arg-type]


def perhaps_of(*path: str | int) -> Any:
    """Take a value from where a path of attributes leads; null where a record on it is None."""
    return Field(None, validation_alias=AliasPath(*path))  # type: ignore[arg-type]


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

    value: float = value_of("observed", "energy_j")
    spread: float | None = perhaps_of("observed", ENERGY_SPREAD)


class TradeOffDocument(JsonDocument):
    """A configuration for which none is both faster and takes less energy, by the search."""

    config: JsonConfig
    time_s: float
    energy_j: float = value_of("observed", "energy_j")


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

    input: JsonConfig = value_of("report", "problem")
    best: JsonConfig | None = perhaps_of("report", "best", "config")
    recommended: JsonConfig | None = perhaps_of("report", "recommended", "config")
    time_s: Number = perhaps_of("report", "recommended", "time_s")
    time_spread_s: Number
    default_s: Number = perhaps_of("report", "baseline", "time_s")
    default_spread_s: Number
    default_outcome: str | None = perhaps_of("default", "outcome")
    default_message: str
    speedup: RatioDocument | None = value_of("report", "speedup")
    ties: int = value_of("report", "within_noise")
    measured: int = value_of("report", "measured")
    legal: int | None = value_of("report", "legal")
    outcomes: dict[str, int] = value_of("report", "outcomes")
    note: str = value_of("report", "note")
    gb_per_s: Number = perhaps_of("report", "recommended", "observed", RATES["bytes"])
    gflop_per_s: Number = perhaps_of("report", "recommended", "observed", RATES["flops"])
    peak_fraction: Number = perhaps_of("report", "recommended", "observed", PEAK_FRACTION)
    energy_j: EnergyDocument | None = perhaps_of("energy", "best")
    default_energy_j: EnergyDocument | None = perhaps_of("energy", "default")
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
    slowdown: RatioDocument = value_of("slowdowns", "mean")


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

    space: str = value_of("campaign", "space_name")
    device: str = value_of("campaign", "environment", "device")
    backend: str = value_of("campaign", "environment", "backend")
    platform: str = value_of("campaign", "environment", "platform")
    driver: str = value_of("campaign", "environment", "driver")
    compiler: str = value_of("campaign", "environment", "compiler")
    cache: str = value_of("campaign", "environment", "cache")
    program_sha256: str = value_of("campaign", "key", "program_sha256")
    campaign: int = value_of("campaign", "key", "campaign")
    statistic: str = value_of("campaign", "statistic")
    confidence: float = value_of("campaign", "confidence")
    databases: list[str]
    default: JsonConfig = value_of("findings", "results", "default")
    advice: str = value_of("findings", "advice")
    tried: str = value_of("findings", "tried")
    health: str
    inputs: list[InputDocument]
    warnings: list[str]
    single: SingleDocument | None = value_of("findings", "single")
    choice: ChoiceDocument | None
    why_no_choice: str
    flag_files: list[FlagFileDocument]


class FailureDocument(JsonDocument):
    """Failed configurations with one reason; `example` is one of them, on `input`."""

    outcome: str = value_of("kind")
    reason: Annotated[str, BeforeValidator(informative_line)] = value_of("members", 0, "message")
    count: Count = value_of("members")
    example: JsonConfig = value_of("members", 0, "config")
    input: JsonConfig = value_of("members", 0, "input")


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
    r2: Number = perhaps_of("explanation", "accuracy", "r2")
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
