"""Describe pydantic's errors: what is wrong, what was found, and the nearest valid key."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, TypeGuard, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, Tag, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from harness.core.errors import SpecError
from harness.core.text import nearest, suggestion
from harness.space_file.document import Document, Location, located
from harness.space_file.tuned import PARAMETER_TYPES

Model = TypeVar("Model", bound=BaseModel)

_EXPECTED = {
    # Where several hold, a union was tried: in the order in which they read well.
    "float_type": "a number",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "string_type": "a text",
    "bool_type": "true or false",
    "list_type": "a list such as [a, b]",
    "dict_type": "a mapping of keys to values",
    "model_type": "a mapping of keys to values",
    "model_attributes_type": "a mapping of keys to values",
}

_BOUNDS = {
    "greater_than_equal": ("at least", "ge"),
    "greater_than": ("more than", "gt"),
    "less_than_equal": ("at most", "le"),
    "less_than": ("less than", "lt"),
}

_SHOWN_TEXT = 60


def validated(document: Document, shape: type[Model]) -> Model:
    """Return the model of a document; raises SpecError with the faults of its shape."""
    try:
        model = shape.model_validate(document.data)
    except ValidationError as error:
        for location, text in describe_errors(error, document.data, (), shape).items():
            document.fault(location, text)
    if document.faults:
        raise SpecError(document.faults)
    return model


def describe_errors(
    found: ValidationError, data: Any, around: Location, model: type[BaseModel]
) -> dict[Location, str]:
    """Describe the errors, by the location of the value that each is about.

    `around` is the location of the validated data in a file of the shape of `model`.
    """
    by_location: dict[Location, list[ErrorDetails]] = {}
    for error in found.errors():
        error["loc"] = (*around, *error["loc"])
        by_location.setdefault(_location(data, error["loc"]), []).append(error)
    return {location: _describe(location, found, model) for location, found in by_location.items()}


def _location(data: Any, loc: Location) -> Location:
    """Return the part of pydantic's location that is in the file, without the tags of unions, which
    are no keys, and missing keys."""
    location: list[str | int] = []
    for part in loc:
        in_mapping = isinstance(data, dict) and part in data
        in_list = isinstance(data, list) and isinstance(part, int) and part < len(data)
        if in_mapping or in_list:
            data = data[part]
            location.append(part)
    return tuple(location)


def _describe(location: Location, errors: list[ErrorDetails], model: type[BaseModel]) -> str:
    first = errors[0]
    if first["type"] == "extra_forbidden":
        hint = suggestion(str(location[-1]), _fields(model, first["loc"][:-1]))
        return located(location[:-1], f"`{location[-1]}` is not a key here; {hint}")
    if first["type"] in ("union_tag_not_found", "union_tag_invalid"):
        types = itertools.chain.from_iterable(map(_tags, _models_at(model, first["loc"])))
        there = ", ".join(types)
        got = first.get("ctx", {}).get("tag")
        text = f"the type must be one of {there}, but got `{got}`"
        return located(location, text if got is not None else f"needs `type`: {there}")
    missing = [error["loc"] for error in errors if error["type"] == "missing"]
    if missing:
        described = (_described(model, loc) for loc in missing)
        return located(location, f"needs {_joined(described, 'and')}")
    kinds = {error["type"] for error in errors}
    expected = [words for kind, words in _EXPECTED.items() if kind in kinds]
    if not expected:
        return located(location, _describe_one(first))
    if expected == ["a text"]:
        expected = [f"a text{_purpose(model, first['loc'])}"]
    return located(location, _mistyped(expected, first["input"]))


def _mistyped(expected: list[str], found: Any) -> str:
    if "a number" in expected and "a whole number" in expected:
        expected.remove("a whole number")
    text = f"must be {_joined(dict.fromkeys(expected), 'or')}, but got {_found(found)}"
    if any(words.startswith("a text") for words in expected) and isinstance(found, dict):
        text += "; YAML makes a mapping where it reads a colon: put the text in quotes"
    return text


def _described(model: type[BaseModel], loc: Location) -> str:
    """Return a missing key with its purpose."""
    return f"`{loc[-1]}`{_purpose(model, loc)}"


def _purpose(model: type[BaseModel], loc: Location) -> str:
    """Return what a key is for, in brackets, with a space before; empty where nothing says it."""
    field = _fields(model, loc[:-1]).get(str(loc[-1])) if loc else None
    return f" ({field.description})" if field is not None and field.description else ""


def _joined(words: Iterable[str], last: str) -> str:
    listed = list(words)
    return f" {last} ".join(filter(None, (", ".join(listed[:-1]), listed[-1])))


def _describe_one(error: ErrorDetails) -> str:
    kind, found, context = error["type"], error["input"], error.get("ctx", {})
    if kind == "value_error":
        return str(context["error"])
    if kind in _BOUNDS:
        words, key = _BOUNDS[kind]
        bound = context[key]
        whole = isinstance(bound, float) and bound.is_integer()
        return f"must be {words} {int(bound) if whole else bound}, but got {_found(found)}"
    if kind == "parameter_type":
        return _without_type(found)
    return {
        "finite_number": f"must be a finite number, but got {_found(found)}",
        "too_short": _too_short(context),
        "string_too_short": "must not be empty",
        "too_long": f"has {context.get('actual_length')} entries, but may have "
        f"{context.get('max_length')} at most",
        "string_too_long": f"a name has at most {context.get('max_length')} characters",
        "string_pattern_mismatch": f"`{found}` is not a name: use letters, digits and _ (in "
        "compiler flags also -), and begin with a letter",
        "literal_error": _no_word(found, re.findall("'([^']*)'", context.get("expected", ""))),
        "enum": _no_word(found, re.findall("'([^']*)'", context.get("expected", ""))),
    }.get(kind, f"{error['msg']}, but got {_found(found)}")


def _too_short(context: Mapping[str, Any]) -> str:
    least, actual = context.get("min_length", 1), context.get("actual_length")
    return "must not be empty" if least == 1 else f"needs {least} entries, but has {actual}"


def _no_word(found: Any, words: Sequence[str]) -> str:
    text = f"must be {_joined(words, 'or')}, but got {_found(found)}" if words else ""
    near = nearest(str(found), words)
    return f"{text}; did you mean `{near}`?" if near else text


def _without_type(found: Any) -> str:
    """Describe a parameter without a valid type."""
    if not isinstance(found, dict):
        example = "{values: [16, 32], default: 16}"
        return f"must be a mapping such as {example}, but got {_found(found)}"
    if "type" in found:
        return f"the type {_no_word(found['type'], PARAMETER_TYPES)}"
    return f"needs `type` ({_joined(PARAMETER_TYPES[:4], 'or')}) or `values` (a list)"


def _found(value: Any) -> str:
    """Return a value as in the file, shortened where it is long."""
    if value is None:
        return "nothing"
    if isinstance(value, str):
        text = f"the text '{value}'"
    elif isinstance(value, float):
        text = str(value)
    else:
        text = json.dumps(value)
    return text if len(text) <= _SHOWN_TEXT else f"{text[:_SHOWN_TEXT]} ..."


def _fields(model: type[BaseModel], loc: Location) -> dict[str, FieldInfo]:
    """Return the fields that the model allows at a location of pydantic's."""
    fields = (item for found in _models_at(model, loc) for item in found.model_fields.items())
    return {field.alias or name: field for name, field in fields}


def _models_at(model: type[BaseModel], loc: Location) -> list[type[BaseModel]]:
    kinds: list[Any] = [model]
    for part in loc:
        kinds = [found for kind in kinds for found in _step(kind, part)]
    return [found for kind in kinds for found in _models(kind)]


def _step(kind: Any, part: str | int) -> Iterator[Any]:
    """Yield what the next part of a location leads to: a field, an item, or a member of a union."""
    origin, arguments = get_origin(kind), get_args(kind)
    if _is_model(kind):
        field = kind.model_fields.get(str(part))
        if field is not None:
            yield field.annotation
        elif part in (kind.__name__, *_tags(kind)):
            yield kind
    elif origin is Annotated:
        tags = [meta.tag for meta in arguments[1:] if isinstance(meta, Tag)]
        if tags:
            yield from (arguments[0],) if part in tags else ()
        else:
            yield from _step(arguments[0], part)
    elif origin in (dict, list):
        yield arguments[-1]
    elif _is_union(kind):
        for member in arguments:
            yield from _step(member, part)


def _tags(model: type[BaseModel]) -> tuple[str, ...]:
    """Return the values of `type` that choose a model among others."""
    field = model.model_fields.get("type")
    return get_args(field.annotation) if field is not None else ()


def _models(kind: Any) -> Iterator[type[BaseModel]]:
    if _is_model(kind):
        yield kind
    elif get_origin(kind) is Annotated or _is_union(kind):
        for member in get_args(kind):
            yield from _models(member)


def _is_model(kind: Any) -> TypeGuard[type[BaseModel]]:
    # Python 3.10 takes dict[str, int] for a type.
    is_class = isinstance(kind, type) and get_origin(kind) is None
    return is_class and issubclass(kind, BaseModel)


def _is_union(kind: Any) -> bool:
    return get_origin(kind) is Union or type(kind).__name__ == "UnionType"
