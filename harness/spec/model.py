"""The shape of a space file: the model that validates it and that its JSON Schema comes from.

What one value can say about itself is checked here; what needs several values, files or
expressions is checked in `harness.spec.checks`.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    Tag,
    model_validator,
)

from harness.records import shown

MAX_INTEGER = 2**53
MAX_FLAG_VALUES = 10_000
MAX_PARAMETERS = 500
MAX_CONSTRAINTS = 1000


def _plain(value: Any) -> Any:
    """One line of text, or a number that databases and JSON hold exactly."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"must be a finite number, but got {value}")
    if isinstance(value, int) and abs(value) > MAX_INTEGER:
        raise ValueError(f"must lie between -2**53 and 2**53 ({MAX_INTEGER}), but got {value}")
    if isinstance(value, str) and not value.isprintable():
        raise ValueError(f"must be a text of one line, but got {value!r}")
    return value


def _distinct(values: list[Any]) -> list[Any]:
    seen: dict[Any, Any] = {}
    for value in values:
        if value in seen:
            same = repr(value) == repr(seen[value])
            other = f"equals {shown(seen[value])}, which is there already"
            told = f"{shown(value)} {'is there twice' if same else other}"
            raise ValueError(f"{told}; give each value once")
        seen[value] = value
    return values


Scalar = Annotated[StrictBool | StrictInt | StrictFloat | StrictStr, AfterValidator(_plain)]
Values = Annotated[list[Scalar], AfterValidator(_distinct), Field(min_length=1)]
FeatureValue = Annotated[StrictInt | StrictFloat, AfterValidator(_plain)]
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Whole = Annotated[StrictInt, Field(ge=-MAX_INTEGER, le=MAX_INTEGER)]
Expression = StrictStr | StrictInt
Name = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=100)]
FlagName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]*$", max_length=100)]
Role = Literal["launch", "source", "choice"]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Range(_Part):
    min: Whole = Field(description="smallest value, included")
    max: Whole = Field(description="largest value, included")

    @model_validator(mode="after")
    def _ascends(self) -> _Range:
        if self.min > self.max:
            raise ValueError(f"`min <= max` must hold, but got (min={self.min}, max={self.max})")
        return self


class _Tuned(_Part):
    role: Role = Field(
        default="source",
        description="what it changes: the launch (block size), the source (unroll factor), or "
        "a choice between implementations",
    )


class IntegerParameter(_Range, _Tuned):
    """Whole numbers from min to max, by step."""

    type: Literal["integer"]
    step: StrictInt = Field(default=1, ge=1, le=MAX_INTEGER, description="distance between values")
    default: StrictInt = Field(description="the value of the baseline")


class LogIntegerParameter(_Range, _Tuned):
    """Whole numbers from min to max, searched on a logarithmic scale."""

    type: Literal["log_integer"]
    min: StrictInt = Field(ge=1, le=MAX_INTEGER, description="smallest value, included")
    default: StrictInt = Field(description="the value of the baseline")


def _power_of_two(value: int) -> int:
    if value & (value - 1):
        below, above = 1 << (value.bit_length() - 1), 1 << value.bit_length()
        raise ValueError(f"{value} is not a power of two; the nearest are {below} and {above}")
    return value


PowerOfTwo = Annotated[StrictInt, Field(ge=1, le=MAX_INTEGER), AfterValidator(_power_of_two)]


class PowerOfTwoParameter(_Range, _Tuned):
    """The powers of two from min to max."""

    type: Literal["power_of_two"]
    min: PowerOfTwo = Field(description="smallest value, a power of two")
    max: PowerOfTwo = Field(description="largest value, a power of two")
    default: StrictInt = Field(description="the value of the baseline")


class BooleanParameter(_Tuned):
    """False or true; the source sees 0 or 1."""

    type: Literal["boolean"]
    default: StrictBool = Field(description="the value of the baseline")


class ListedParameter(_Tuned):
    """The listed values: numbers in ascending order are searched as a scale, others by name."""

    type: Literal["values"] = "values"
    values: Values = Field(description="every value that it may take, each once")
    default: Scalar = Field(description="the value of the baseline")


PARAMETER_TYPES = ("power_of_two", "integer", "log_integer", "boolean", "values")


def _type_of(value: Any) -> str | None:
    if not isinstance(value, dict):
        return None
    kind = value.get("type", "values" if "values" in value else None)
    return kind if kind in PARAMETER_TYPES else None


Parameter = Annotated[
    Annotated[PowerOfTwoParameter, Tag("power_of_two")]
    | Annotated[IntegerParameter, Tag("integer")]
    | Annotated[LogIntegerParameter, Tag("log_integer")]
    | Annotated[BooleanParameter, Tag("boolean")]
    | Annotated[ListedParameter, Tag("values")],
    Discriminator(_type_of, custom_error_type="parameter_type", custom_error_message="no type"),
]


def _has_place_for_value(option: str) -> str:
    if "{value}" not in option:
        raise ValueError(f"must contain {{value}}, where the value goes, but got '{option}'")
    return option


Option = Annotated[StrictStr, AfterValidator(_plain), AfterValidator(_has_place_for_value)]
_OPTION_HELP = "how the flag is spelled, where --NAME={value} (nvcc) or -NAME={value} is wrong"


class FlagRange(_Range):
    """A compiler flag that takes a number, or is absent."""

    step: StrictInt = Field(default=1, ge=1, le=MAX_INTEGER, description="distance between values")
    option: Option | None = Field(default=None, description=_OPTION_HELP)

    @model_validator(mode="after")
    def _is_short(self) -> FlagRange:
        count = (self.max - self.min) // self.step + 1
        if count > MAX_FLAG_VALUES:
            raise ValueError(
                f"a flag has at most {MAX_FLAG_VALUES:,} values, but min, max and step give "
                f"{count:,}; narrow the range or widen the step"
            )
        return self


class FlagValues(_Part):
    """A compiler flag that takes one of these values, or is absent."""

    values: Values = Field(description="every value that it may take, beside being absent")
    option: Option | None = Field(default=None, description=_OPTION_HELP)


def _flag_type(value: Any) -> str | None:
    if value == "boolean":
        return "boolean"
    if isinstance(value, dict):
        return "listed" if "values" in value else "range"
    return None


Flag = Annotated[
    Annotated[Literal["boolean"], Tag("boolean")]
    | Annotated[FlagRange, Tag("range")]
    | Annotated[FlagValues, Tag("listed")],
    Discriminator(_flag_type, custom_error_type="flag_type", custom_error_message="no flag"),
]


class Sources(_Part):
    """Separate sources of one kernel for each language; one of them may be left out."""

    cuda: StrictStr | None = Field(default=None, description="CUDA C++ source")
    opencl: StrictStr | None = Field(default=None, description="OpenCL C source")

    @model_validator(mode="after")
    def _one_at_least(self) -> Sources:
        if self.cuda is None and self.opencl is None:
            raise ValueError("needs `cuda: FILE`, `opencl: FILE` or both")
        return self


def _source_type(value: Any) -> str | None:
    if isinstance(value, str):
        return "file"
    return "files" if isinstance(value, dict) else None


Source = Annotated[
    Annotated[StrictStr, Tag("file")] | Annotated[Sources, Tag("files")],
    Discriminator(_source_type, custom_error_type="source_type", custom_error_message="no source"),
]


def _function_type(value: Any) -> str | None:
    if isinstance(value, str):
        return "name"
    return "names" if isinstance(value, list) else None


Functions = Annotated[
    Annotated[Name, Tag("name")]
    | Annotated[
        Annotated[list[Name], Field(min_length=1), AfterValidator(_distinct)], Tag("names")
    ],
    Discriminator(
        _function_type, custom_error_type="function_type", custom_error_message="no function"
    ),
]


class Kernel(_Part):
    """What is tuned. Paths are relative to the space file."""

    function: Functions = Field(description="the kernel's name in the source")
    source: Source = Field(description="one file for CUDA and OpenCL, or one for each")
    host: StrictStr = Field(description="Python file with arguments() and reference()")

    @property
    def functions(self) -> tuple[str, ...]:
        """The kernels that a run launches."""
        return (self.function,) if isinstance(self.function, str) else tuple(self.function)


class Flags(_Part):
    """Compiler flags to tune, by compiler; each may also be absent, which is the default."""

    nvcc: dict[FlagName, Flag] = Field(
        default_factory=dict, max_length=MAX_PARAMETERS, description="used by the cuda backend"
    )
    opencl: dict[FlagName, Flag] = Field(
        default_factory=dict, max_length=MAX_PARAMETERS, description="used by the opencl backend"
    )


class LaunchModel(_Part):
    """Expressions over parameters, input features and device limits, one per dimension."""

    group: list[Expression] = Field(
        min_length=1, max_length=3, description="work-items (threads) per group (block)"
    )
    grid: list[Expression] = Field(min_length=1, max_length=3, description="groups (blocks)")

    @model_validator(mode="after")
    def _same_dimensions(self) -> LaunchModel:
        if len(self.group) != len(self.grid):
            raise ValueError(
                "`group` and `grid` must have as many dimensions as each other, but got "
                f"{len(self.group)} and {len(self.grid)}; in a list written [a, b], an "
                "expression that contains a comma needs quotes"
            )
        return self


def _launch_type(value: Any) -> str | None:
    if value == "host":
        return "host"
    return "sizes" if isinstance(value, dict) else None


Launch = Annotated[
    Annotated[Literal["host"], Tag("host")] | Annotated[LaunchModel, Tag("sizes")],
    Discriminator(_launch_type, custom_error_type="launch_type", custom_error_message="no launch"),
]


class Inputs(_Part):
    """What the kernel is run on, told by numbers; not tuned."""

    features: list[Name] = Field(min_length=1, description="names of the numbers of an input")
    values: list[dict[str, FeatureValue]] = Field(
        min_length=1, description="the inputs to tune for, each with a number for every feature"
    )


class Verify(_Part):
    """|found - expected| <= atol + rtol * |expected|; by default by the output's dtype."""

    rtol: Number | None = Field(default=None, ge=0, lt=1, description="relative tolerance")
    atol: Number | None = Field(default=None, ge=0, description="absolute tolerance")


class Measure(_Part):
    """How one configuration is timed."""

    warmup: StrictInt = Field(
        default=1, ge=1, le=1000, description="launches before the timed ones"
    )
    repeats: StrictInt = Field(default=20, ge=1, le=100_000, description="timed launches at most")
    min_repeats: StrictInt = Field(
        default=5,
        ge=2,
        le=100_000,
        description="timed launches before precision may end the timing",
    )
    precision: Number = Field(
        default=0.005,
        ge=0,
        lt=1,
        description="stop when the mean's confidence interval is +- this part of the mean",
    )
    confidence: Number = Field(
        default=0.95, gt=0, lt=1, description="probability of every confidence interval"
    )
    give_up_at: Number = Field(
        default=2.0, ge=1, description="stop when surely this many times slower than the best"
    )
    timeout_s: Number = Field(
        default=30.0, gt=0, le=86_400, description="seconds that one configuration may take"
    )

    @model_validator(mode="after")
    def _fewest_before_most(self) -> Measure:
        if "min_repeats" in self.model_fields_set and self.min_repeats > self.repeats:
            raise ValueError(
                "`min_repeats <= repeats` must hold, but got "
                f"(min_repeats={self.min_repeats}, repeats={self.repeats})"
            )
        return self


class Search(_Part):
    """How the space is searched, where the command line does not say otherwise."""

    technique: StrictStr = Field(
        default="auto", min_length=1, description="a search technique's name, or auto"
    )
    test_limit: StrictInt = Field(
        default=100, ge=1, le=10**9, description="configurations measured per input at most"
    )


class SpaceFile(_Part):
    """A tuning space: a kernel, what may be tuned about it, and its inputs."""

    model_config = ConfigDict(extra="forbid", frozen=True, title="harness space")

    name: Name = Field(description="what results are filed under")
    title: StrictStr = Field(default="", description="one line for people")
    kernel: Kernel = Field(description="the function, its source and its host module")
    parameters: dict[Name, Parameter] = Field(
        min_length=1, max_length=MAX_PARAMETERS, description="what is tuned; macros of the source"
    )
    flags: Flags = Field(default_factory=Flags, description="compiler flags to tune as well")
    constraints: list[StrictStr] = Field(
        default_factory=list,
        max_length=MAX_CONSTRAINTS,
        description="conditions that every legal configuration satisfies",
    )
    launch: Launch = Field(description="sizes of the group and of the grid, or `host`")
    inputs: Inputs = Field(description="what the kernel is run on")
    verify: Verify = Field(default_factory=Verify, description="when a result is right")
    measure: Measure = Field(default_factory=Measure, description="how long to time")
    search: Search = Field(default_factory=Search, description="how to search")
