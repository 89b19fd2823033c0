"""The shape of a space file: the model that validates it and that its JSON Schema comes from.

What one value can say about itself is checked here; what needs several values, files or
expressions is checked in `harness.spec.checks`.
"""

from __future__ import annotations

import difflib
import math
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    FiniteFloat,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    Tag,
    field_validator,
    model_validator,
)

Scalar = StrictBool | StrictInt | StrictFloat | StrictStr
Expression = StrictStr | StrictInt
Name = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=100)]
FlagName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]*$", max_length=100)]
Role = Literal["launch", "source", "choice"]

MAX_INTEGER = 2**53


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Range(_Part):
    min: StrictInt = Field(ge=-MAX_INTEGER, le=MAX_INTEGER, description="smallest value, included")
    max: StrictInt = Field(ge=-MAX_INTEGER, le=MAX_INTEGER, description="largest value, included")

    @model_validator(mode="after")
    def _ascends(self) -> _Range:
        if self.min > self.max:
            raise ValueError(f"`min <= max` must hold, but got (min={self.min}, max={self.max})")
        return self


class _Tuned(_Part):
    role: Role = Field("source", description="how it acts: on the launch, in the source, a choice")


class IntegerParameter(_Range, _Tuned):
    """Whole numbers from min to max."""

    type: Literal["integer"]
    step: StrictInt = Field(1, ge=1, description="distance between values")
    default: StrictInt = Field(description="the value of the baseline")


class LogIntegerParameter(_Range, _Tuned):
    """Whole numbers from min to max, searched on a logarithmic scale."""

    type: Literal["log_integer"]
    min: StrictInt = Field(ge=1, le=MAX_INTEGER, description="smallest value, included")
    default: StrictInt = Field(description="the value of the baseline")


class PowerOfTwoParameter(_Range, _Tuned):
    """The powers of two from min to max."""

    type: Literal["power_of_two"]
    min: StrictInt = Field(ge=1, le=2**52, description="smallest value, a power of two")
    max: StrictInt = Field(ge=1, le=2**52, description="largest value, a power of two")
    default: StrictInt = Field(description="the value of the baseline")

    @field_validator("min", "max")
    @classmethod
    def _is_power(cls, value: int) -> int:
        if value & (value - 1):
            below, above = 1 << (value.bit_length() - 1), 1 << value.bit_length()
            raise ValueError(f"{value} is not a power of two; the nearest are {below} and {above}")
        return value


class BooleanParameter(_Tuned):
    """False or true; the source sees 0 or 1."""

    type: Literal["boolean"]
    default: StrictBool = Field(description="the value of the baseline")


class ListedParameter(_Tuned):
    """The listed values: numbers in ascending order are searched as a scale, others by name."""

    type: Literal["values"] = "values"
    values: list[Scalar] = Field(min_length=1, description="every value that it may take")
    default: Scalar = Field(description="the value of the baseline")

    @field_validator("values")
    @classmethod
    def _are_distinct(cls, values: list[Any]) -> list[Any]:
        return _finite_and_distinct(values)


def _finite_and_distinct(values: list[Any]) -> list[Any]:
    for index, value in enumerate(values):
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"values must be finite, but got {value}")
        if value in values[:index]:
            raise ValueError(f"the value {value!r} is there twice; give each value once")
    return values


_TYPES = ("power_of_two", "integer", "log_integer", "boolean", "values")


def _type_of(value: Any) -> str | None:
    if not isinstance(value, dict):
        return None
    kind = value.get("type", "values" if "values" in value else None)
    return kind if kind in _TYPES else None


Parameter = Annotated[
    Annotated[PowerOfTwoParameter, Tag("power_of_two")]
    | Annotated[IntegerParameter, Tag("integer")]
    | Annotated[LogIntegerParameter, Tag("log_integer")]
    | Annotated[BooleanParameter, Tag("boolean")]
    | Annotated[ListedParameter, Tag("values")],
    Discriminator(
        _type_of,
        custom_error_type="parameter_type",
        custom_error_message="needs `type: ...` (" + ", ".join(_TYPES[:4]) + ") or `values: [...]`",
    ),
]


class FlagRange(_Range):
    """A compiler flag that takes a number, or is absent."""

    step: StrictInt = Field(1, ge=1)
    option: StrictStr | None = Field(None, description="its spelling, with {value} in it")


class FlagValues(_Part):
    """A compiler flag that takes one of these values, or is absent."""

    values: list[Scalar] = Field(min_length=1)
    option: StrictStr | None = Field(None, description="its spelling, with {value} in it")

    @field_validator("values")
    @classmethod
    def _are_distinct(cls, values: list[Any]) -> list[Any]:
        return _finite_and_distinct(values)


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
    Discriminator(
        _flag_type,
        custom_error_type="flag_type",
        custom_error_message="must be `boolean`, `{min: .., max: ..}` or `{values: [..]}`",
    ),
]


class Sources(_Part):
    """Separate sources of one kernel for each language; one of them may be left out."""

    cuda: StrictStr | None = Field(None, description="CUDA C++ source")
    opencl: StrictStr | None = Field(None, description="OpenCL C source")

    @model_validator(mode="after")
    def _one_at_least(self) -> Sources:
        if self.cuda is None and self.opencl is None:
            raise ValueError("needs `cuda: FILE`, `opencl: FILE` or both")
        return self


class Kernel(_Part):
    """What is tuned. Paths are relative to the space file."""

    function: Name = Field(description="the kernel's name in the source")
    source: StrictStr | Sources = Field(description="one file for CUDA and OpenCL, or one for each")
    host: StrictStr = Field(description="Python file with arguments() and reference()")


class Flags(_Part):
    """Compiler flags to tune, by compiler; each may also be absent, which is the default."""

    nvcc: dict[FlagName, Flag] = Field(default_factory=dict, description="used by cuda")
    opencl: dict[FlagName, Flag] = Field(default_factory=dict, description="used by opencl")


class LaunchModel(_Part):
    """Expressions over parameters, input features and device limits, one per dimension."""

    group: list[Expression] = Field(min_length=1, max_length=3, description="work-items per group")
    grid: list[Expression] = Field(min_length=1, max_length=3, description="groups")

    @model_validator(mode="after")
    def _same_dimensions(self) -> LaunchModel:
        if len(self.group) != len(self.grid):
            raise ValueError(
                f"group and grid must have as many dimensions as each other, "
                f"but got {len(self.group)} and {len(self.grid)}"
            )
        return self


class Inputs(_Part):
    """What the kernel is run on, told by numbers; not tuned."""

    features: list[Name] = Field(min_length=1)
    values: list[dict[str, StrictInt | StrictFloat]] = Field(min_length=1)


class Verify(_Part):
    """|found - expected| <= atol + rtol * |expected|; by default by the output's dtype."""

    rtol: FiniteFloat | None = Field(None, ge=0)
    atol: FiniteFloat | None = Field(None, ge=0)


class Measure(_Part):
    """How one configuration is timed."""

    warmup: StrictInt = Field(1, ge=1, le=1000, description="launches before the timed ones")
    repeats: StrictInt = Field(20, ge=1, le=100_000, description="timed launches at most")
    min_repeats: StrictInt = Field(5, ge=2, le=100_000, description="timed launches at least")
    precision: FiniteFloat = Field(
        0.005, ge=0, lt=1, description="stop when the mean's confidence interval is +- this part"
    )
    confidence: FiniteFloat = Field(0.95, gt=0, lt=1, description="of every interval")
    give_up_at: FiniteFloat = Field(
        2.0, ge=1, description="stop when surely this many times slower than the best so far"
    )
    timeout_s: FiniteFloat = Field(30.0, gt=0, description="wall-clock limit of a configuration")


class Search(_Part):
    """How the space is searched, where the command line does not say otherwise."""

    technique: StrictStr = Field("auto", description="an OpenTuner technique, or auto")
    test_limit: StrictInt = Field(100, ge=1, description="configurations measured per input")


class SpaceFile(_Part):
    """A tuning space: a kernel, what may be tuned about it, and its inputs."""

    model_config = ConfigDict(extra="forbid", frozen=True, title="harness space")

    name: Name
    title: StrictStr = ""
    kernel: Kernel
    parameters: dict[Name, Parameter] = Field(min_length=1)
    flags: Flags = Field(default_factory=Flags)
    constraints: list[StrictStr] = Field(default_factory=list)
    launch: LaunchModel
    inputs: Inputs
    verify: Verify = Field(default_factory=Verify)
    measure: Measure = Field(default_factory=Measure)
    search: Search = Field(default_factory=Search)


def nearest(name: str, names: list[str]) -> str:
    """`; did you mean NAME?` or, where nothing is near, what there is."""
    near = difflib.get_close_matches(name, names, 1, cutoff=0.6)
    return f"did you mean `{near[0]}`?" if near else f"there is {', '.join(sorted(names))}"
