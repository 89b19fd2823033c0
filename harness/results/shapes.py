"""The shapes of JSON in a database, as types that pydantic checks."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field
from typing_extensions import TypedDict

Whole = Annotated[int, Field(strict=True)]
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Flag = Annotated[bool, Field(strict=True)]
Scalar = Flag | Whole | Number | str | None
Values = dict[str, Scalar]
"""A configuration's values or an input's features."""

Time = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError(f"{text[:60]!r} is not printable")
    return text


Line = Annotated[str, AfterValidator(_printable)]
"""A text that cannot control a terminal."""

Features = dict[Line, Flag | Whole | Number | Line | None]
"""An input that a command names."""


class _Range(TypedDict):
    """The values of a parameter that are a range: its ends and its step."""

    min: Whole
    max: Whole
    step: Whole


class StoredParameter(TypedDict):
    """A parameter of a space; other programs read it."""

    kind: str
    role: str
    default: Scalar
    values: list[Scalar] | _Range
