"""Messages as JSON text: plain data, checked against its type on arrival.

No object of ours is pickled, so that what arrives can neither run code nor have a wrong type.
"""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from harness.core.errors import HarnessError

T = TypeVar("T")


class GarbledMessage(HarnessError):
    """What arrived is no message of the expected type."""


def encode(kind: Any, message: object) -> bytes:
    """Return a message of a type as JSON text."""
    return _adapter(kind).dump_json(message)


def decode(kind: Any, text: object) -> Any:
    """Return the message of this type that a JSON text holds; raises GarbledMessage."""
    if not isinstance(text, bytes):
        raise GarbledMessage(f"a message must be bytes, but is {type(text).__name__}")
    try:
        return _adapter(kind).validate_json(text, strict=True)
    except (ValidationError, TypeError, ValueError) as error:
        # Records check their values themselves, and may raise what pydantic does not catch.
        first = str(error).replace("\n", " ")[:300]
        raise GarbledMessage(f"a message of {len(text):,} bytes is garbled: {first}") from None


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
