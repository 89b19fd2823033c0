"""The shape of one parameter or compiler flag in a space file."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    Discriminator,
    Field,
    GetPydanticSchema,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    Tag,
    model_validator,
)
from pydantic_core import core_schema

from harness.constraints.arithmetic import MAX_EXACT
from harness.constraints.expression import Expression
from harness.core.errors import ExpressionError
from harness.core.records import shown
from harness.space_file.messages import PARAMETER_TYPES, StrictModel

MAX_FLAG_VALUES = 10_000


def plain(value: Any) -> Any:
    """Check that a value is one line of text, or a number that databases and JSON store exactly."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"must be a finite number, but got {value}")
    if isinstance(value, int) and abs(value) > MAX_EXACT:
        raise ValueError(f"must lie between -2**53 and 2**53 ({MAX_EXACT}), but got {value}")
    if isinstance(value, str) and not value.isprintable():
        raise ValueError(f"must be a text of one line, but got {value!r}")
    return value


def distinct(values: list[Any]) -> list[Any]:
    """Check that no two values are equal."""
    seen: dict[Any, Any] = {}
    for value in values:
        if value in seen:
            same = repr(value) == repr(seen[value])
            other = f"equals {shown(seen[value])}, which is there already"
            message = f"{shown(value)} {'is there twice' if same else other}"
            raise ValueError(f"{message}; give each value once")
        seen[value] = value
    return values


def by_shape(expected: str, **shapes: type | str) -> Discriminator:
    """Choose the member of a union, whose tag is the shape's name, by the value's type or by the
    text that it equals. Else the value must be what is `expected`."""

    def tag_of(value: Any) -> str | None:
        matching = (
            tag
            for tag, shape in shapes.items()
            if value == shape or (isinstance(shape, type) and isinstance(value, shape))
        )
        return next(matching, None)

    return by_tag(expected, tag_of)


def by_tag(expected: str, tag_of: Callable[[Any], str | None]) -> Discriminator:
    """Choose the member of a union by its tag; without one, the value must be what is expected."""
    return Discriminator(
        tag_of, custom_error_type="shape", custom_error_message=f"must be {expected}"
    )


def read_by(read: Callable[[Any], object], shape: Any) -> GetPydanticSchema:
    """Let a type be read from a value of this shape; ValueError says what is wrong with one."""
    return GetPydanticSchema(
        lambda _, handler: core_schema.no_info_after_validator_function(read, handler(shape))
    )


def _expression(text: str | int) -> Expression:
    try:
        return Expression(str(text))
    except ExpressionError as error:
        raise ValueError(str(error)) from None


def _condition(text: str) -> Expression:
    expression = _expression(text)
    if expression.is_number:
        raise ValueError(
            f"`{expression.text}` is a number, not a condition; compare it, such as "
            f"`{expression.text} <= 1024`"
        )
    return expression


Condition = Annotated[Expression, read_by(_condition, StrictStr)]
Size = Annotated[Expression, read_by(_expression, StrictStr | StrictInt)]
Line = Annotated[StrictStr, AfterValidator(plain), Field(min_length=1)]
"""A text of one line."""

Scalar = Annotated[StrictBool | StrictInt | StrictFloat | StrictStr, AfterValidator(plain)]
Values = Annotated[list[Scalar], AfterValidator(distinct), Field(min_length=1)]
Whole = Annotated[StrictInt, Field(ge=-MAX_EXACT, le=MAX_EXACT)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=100)]
CompilerName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_.+-]*$", max_length=100)]
FlagName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]*$", max_length=100)]
Role = Literal["launch", "source", "choice"]


class _BoundedModel(StrictModel):
    min: Whole
    """smallest value, included"""
    max: Whole
    """largest value, included"""

    @model_validator(mode="after")
    def _ascends(self) -> _BoundedModel:
        if self.min > self.max:
            raise ValueError(f"`min <= max` must hold, but got (min={self.min}, max={self.max})")
        return self


class _ConditionalModel(StrictModel):
    when: Condition | None = None
    """an expression; where it is false the parameter does not matter, and stays at its default"""


class _RoleModel(_ConditionalModel):
    role: Role = "source"
    """what it changes: the launch (block size), the source (unroll factor), or a choice between
    implementations"""


class IntegerParameter(_BoundedModel, _RoleModel):
    """Whole numbers from min to max, by step."""

    type: Literal["integer"]
    step: StrictInt = Field(default=1, ge=1, le=MAX_EXACT)
    """distance between values"""
    default: StrictInt
    """the value of the baseline"""


class LogIntegerParameter(_BoundedModel, _RoleModel):
    """Whole numbers from min to max, searched on a logarithmic scale."""

    type: Literal["log_integer"]
    min: StrictInt = Field(ge=1, le=MAX_EXACT)
    """smallest value, included"""
    default: StrictInt
    """the value of the baseline"""


def _power_of_two(value: int) -> int:
    if value & (value - 1):
        below, above = 1 << (value.bit_length() - 1), 1 << value.bit_length()
        raise ValueError(f"{value} is not a power of two; the nearest are {below} and {above}")
    return value


PowerOfTwo = Annotated[StrictInt, Field(ge=1, le=MAX_EXACT), AfterValidator(_power_of_two)]


class PowerOfTwoParameter(_BoundedModel, _RoleModel):
    """The powers of two from min to max."""

    type: Literal["power_of_two"]
    min: PowerOfTwo
    """smallest value, a power of two"""
    max: PowerOfTwo
    """largest value, a power of two"""
    default: StrictInt
    """the value of the baseline"""


class BooleanParameter(_RoleModel):
    """False or true; the source sees 0 or 1."""

    type: Literal["boolean"]
    default: StrictBool
    """the value of the baseline"""


class ListedParameter(_RoleModel):
    """The listed values: numbers in ascending order are searched as a scale, others by name."""

    type: Literal["values"] = "values"
    values: Values
    """every value that it may take, each once"""
    default: Scalar
    """the value of the baseline"""


def _type_of(value: Any) -> str | None:
    if not isinstance(value, dict):
        return None
    kind = value.get("type", "values" if "values" in value else None)
    return f"<{kind}>" if kind in PARAMETER_TYPES else None


# A tag has brackets, so that it is no key of a file: what is left of an error's location is.
Parameter = Annotated[
    Annotated[PowerOfTwoParameter, Tag("<power_of_two>")]
    | Annotated[IntegerParameter, Tag("<integer>")]
    | Annotated[LogIntegerParameter, Tag("<log_integer>")]
    | Annotated[BooleanParameter, Tag("<boolean>")]
    | Annotated[ListedParameter, Tag("<values>")],
    Discriminator(_type_of, custom_error_type="parameter_type", custom_error_message="no type"),
]


def _needs_value(option: str) -> str:
    if "{value}" not in option:
        raise ValueError(f"must contain {{value}}, where the value goes, but got '{option}'")
    return option


ValueOption = Annotated[StrictStr, AfterValidator(plain), AfterValidator(_needs_value)]


class _ValuedModel(_ConditionalModel):
    option: ValueOption | None = None
    """how the flag is spelled, where --NAME={value} (nvcc) or -NAME={value} is wrong"""


class FlagSwitch(_ConditionalModel):
    """A compiler flag that is there or not; the word `boolean` alone is a short form."""

    type: Literal["boolean"]
    """boolean: there or not"""
    option: Line | None = None
    """how the flag is spelled, where --NAME (nvcc) or -NAME is wrong"""


class FlagRange(_BoundedModel, _ValuedModel):
    """A compiler flag that takes a number, or is absent."""

    step: StrictInt = Field(default=1, ge=1, le=MAX_EXACT)
    """distance between values"""

    @model_validator(mode="after")
    def _is_short(self) -> FlagRange:
        count = len(self.values)
        if count > MAX_FLAG_VALUES:
            raise ValueError(
                f"a flag has at most {MAX_FLAG_VALUES:,} values, but min, max and step give "
                f"{count:,}; narrow the range or widen the step"
            )
        return self

    @property
    def values(self) -> range:
        """The numbers from min to max, by step."""
        return range(self.min, self.max + 1, self.step)


class FlagValues(_ValuedModel):
    """A compiler flag that takes one of these values, or is absent."""

    values: Values
    """every value that it may take, besides being absent"""


FilePatterns = Annotated[
    Annotated[Line, Tag("one")]
    | Annotated[Annotated[list[Line], Field(min_length=1)], Tag("several")],
    by_shape("a pattern such as packs/*.acf, or a list of patterns", one=str, several=list),
]


class FlagPatterns(_ValuedModel):
    """A compiler flag that takes one of the files that match, or is absent."""

    files: FilePatterns
    """patterns of files such as packs/*.acf, relative to the space file"""


def _flag_type(value: Any) -> str | None:
    if value == "boolean":
        return "<boolean>"
    if not isinstance(value, dict):
        return None
    if "files" in value:
        return "<files>"
    if "values" in value:
        return "<listed>"
    if {"type", "when"} & set(value) and "min" not in value:
        return "<switch>"
    return "<range>" if {"min", "max", "step"} & set(value) or set(value) <= {"option"} else None


Flag = Annotated[
    Annotated[
        FlagSwitch,
        read_by(lambda _: FlagSwitch(type="boolean"), Literal["boolean"]),
        Tag("<boolean>"),
    ]
    | Annotated[FlagSwitch, Tag("<switch>")]
    | Annotated[FlagRange, Tag("<range>")]
    | Annotated[FlagValues, Tag("<listed>")]
    | Annotated[FlagPatterns, Tag("<files>")],
    by_tag("`boolean`, `{min: .., max: ..}`, `{values: [..]}` or `{files: ..}`", _flag_type),
]


class Narrowing(StrictModel):
    """Fewer values of a flag than its catalogue has: listed, or a range."""

    values: Values | None = None
    """some of its values"""
    min: Whole | None = None
    """smallest value, included"""
    max: Whole | None = None
    """largest value, included"""
    step: Annotated[StrictInt, Field(ge=1)] | None = None
    """distance between values"""

    @model_validator(mode="after")
    def _says_something(self) -> Narrowing:
        given = self.model_fields_set
        if not given or ("values" in given and len(given) > 1):
            raise ValueError("needs `values`, or some of `min`, `max` and `step`")
        return self


def _selected_type(value: Any) -> str:
    is_own = isinstance(value, dict) and not {"option", "files"}.isdisjoint(value)
    return "<own>" if is_own else "<narrowed>"


SelectedFlag = Annotated[
    Annotated[Narrowing, Tag("<narrowed>")] | Annotated[Flag, Tag("<own>")],
    Discriminator(_selected_type),
]


def _of_one(item: dict[str, Any]) -> dict[str, Any]:
    if len(item) != 1:
        raise ValueError("an item is a name, or one name with fewer values")
    return item


Selected = Annotated[
    Annotated[StrictStr, Field(min_length=1), Tag("name")]
    | Annotated[dict[FlagName, SelectedFlag], AfterValidator(_of_one), Tag("<flag>")],
    by_shape("a name, or `{NAME: {values: [..]}}`", **{"name": str, "<flag>": dict}),
]
Selection = Annotated[list[Selected], Field(min_length=1)]
"""Names of sets and flags of a catalogue, with fewer values, and flags of the space's own."""
