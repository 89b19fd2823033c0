"""Pydantic's errors, told to a person: what, where, what was found and the nearest valid key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, Tag
from pydantic_core import ErrorDetails

from harness.spec.document import Document
from harness.spec.model import SpaceFile, nearest

Location = tuple[str | int, ...]

_EXPECTED = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "string_type": "a text",
    "bool_type": "true or false",
    "list_type": "a list such as [a, b]",
    "dict_type": "a mapping of keys to values",
    "model_type": "a mapping of keys to values",
    "model_attributes_type": "a mapping of keys to values",
}


# Where pydantic puts the tag of a union's member into its locations.
_TAG_POSITIONS = {"parameters": 2, "flags": 3}


def add_faults(document: Document, errors: Sequence[ErrorDetails]) -> None:
    """Note each error once, at the line of the value that it is about."""
    by_place: dict[Location, list[ErrorDetails]] = {}
    for error in errors:
        by_place.setdefault(_data_path(document.data, error["loc"]), []).append(error)
    for path, found in by_place.items():
        document.fault(path, _place(path) + _told(path, found))


def _data_path(data: Any, location: Location) -> Location:
    """The location without what is not in the file: union tags and missing keys."""
    path: list[str | int] = []
    tag_at = _TAG_POSITIONS.get(str(location[0])) if location else None
    for position, part in enumerate(location):
        if position == tag_at:
            continue
        if isinstance(data, dict) and part in data:
            data = data[part]
        elif isinstance(data, list) and isinstance(part, int) and part < len(data):
            data = data[part]
        else:
            continue
        path.append(part)
    return tuple(path)


def _place(path: Location) -> str:
    return f"{'.'.join(map(str, path))}: " if path else ""


def _told(path: Location, errors: list[ErrorDetails]) -> str:
    missing = [error for error in errors if error["type"] == "missing"]
    if missing:
        return "needs " + " and ".join(f"`{error['loc'][-1]}`" for error in missing)
    first = errors[0]
    if first["type"] == "extra_forbidden":
        keys = list(_keys_at(first["loc"][:-1]))
        return f"`{path[-1]}` is not a key here; {nearest(str(path[-1]), keys)}"
    expected = [_EXPECTED[e["type"]] for e in errors if e["type"] in _EXPECTED]
    if expected:
        return f"must be {' or '.join(dict.fromkeys(expected))}, but got {first['input']!r}"
    return _general(first)


def _general(error: ErrorDetails) -> str:
    if error["type"] == "value_error":
        return str(error["ctx"]["error"])
    if error["type"] == "string_pattern_mismatch":
        return (
            f"{error['input']!r} is not a name: use letters, digits and _, "
            "and begin with a letter or _"
        )
    if error["type"] == "too_short":
        return "must not be empty"
    message = error["msg"].replace("Input should be", "must be")
    if error["type"] in ("parameter_type", "flag_type"):
        return message
    return f"{message}, but got {error['input']!r}"


def _keys_at(location: Location) -> Iterator[str]:
    """The keys that the model allows at a location of an error."""
    kinds: list[Any] = [SpaceFile]
    for part in location:
        kinds = [found for kind in kinds for found in _step(kind, part)]
    for kind in kinds:
        for model in _models(kind):
            yield from model.model_fields


def _step(kind: Any, part: str | int) -> Iterator[Any]:
    """What a location's next part leads to: a field, an item, or a member of a union."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        field = kind.model_fields.get(str(part))
        if field is not None:
            yield field.annotation
        elif kind.__name__ == part:
            yield kind
        return
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        tags = [meta.tag for meta in arguments[1:] if isinstance(meta, Tag)]
        if tags:
            yield from (arguments[0],) if part in tags else ()
        else:
            yield from _step(arguments[0], part)
    elif origin is dict:
        yield arguments[1]
    elif origin is list:
        yield arguments[0]
    elif origin is not Literal:
        for member in arguments:
            yield from _step(member, part)


def _models(kind: Any) -> Iterator[type[BaseModel]]:
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        yield kind
    elif get_origin(kind) in (Annotated, Union) or type(kind).__name__ == "UnionType":
        for member in get_args(kind):
            yield from _models(member)
