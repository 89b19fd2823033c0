"""Describe pydantic's errors: what is wrong, what was found, and the nearest valid key."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    GetJsonSchemaHandler,
    ModelWrapValidatorHandler,
    ValidationError,
    model_validator,
)
from pydantic_core import CoreSchema, ErrorDetails, InitErrorDetails, PydanticCustomError
from pydantic_core.core_schema import ErrorType

from harness.core.errors import SpecError
from harness.core.options import field_texts
from harness.core.text import nearest, suggestion
from harness.space_file.document import Document, Location

_KNOWN_TYPES = frozenset(get_args(ErrorType))

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


PARAMETER_TYPES = ("power_of_two", "integer", "log_integer", "boolean", "values")
_DESCRIBED = "described"
_UNKNOWN_KEY = "unknown_key"


class StrictModel(BaseModel):
    """A model without other keys, whose errors name the keys that it has, each with the text below
    its field."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="wrap")
    @classmethod
    def _name_keys(cls, data: Any, handler: ModelWrapValidatorHandler[Any]) -> Any:
        try:
            return handler(data)
        except ValidationError as error:
            errors = list(_with_keys(cls.purposes(), error.errors()))
            raise ValidationError.from_exception_data(cls.__name__, errors) from None

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Describe the keys in the JSON Schema, too."""
        schema = handler(core_schema)
        properties = handler.resolve_ref_schema(schema)["properties"]
        for key, text in cls.purposes().items():
            properties[key] |= {"description": text} if text else {}
        return schema

    @classmethod
    @functools.cache
    def purposes(cls) -> Mapping[str, str]:
        """Return the keys, each with the text below its field in the source; empty without one."""
        texts = field_texts(cls)
        return {f.alias or name: texts.get(name, "") for name, f in cls.model_fields.items()}


def _with_keys(
    purposes: Mapping[str, str], errors: Sequence[ErrorDetails]
) -> Iterator[InitErrorDetails]:
    """Yield the errors of a model; those of its own keys say which keys there are, and why."""

    def purpose(key: object) -> str:
        text = purposes[str(key)]
        return f" ({text})" if text else ""

    missing: list[str] = []
    for error in errors:
        kind, key = error["type"], error["loc"][-1] if len(error["loc"]) == 1 else None
        known: Any = kind if kind in _KNOWN_TYPES else PydanticCustomError(kind, error["msg"])
        if key is not None and kind == "missing":
            missing.append(f"`{key}`{purpose(key)}")
            continue
        if key is not None and kind == "extra_forbidden":
            text = f"`{key}` is not a key here; {suggestion(str(key), purposes)}"
            known = PydanticCustomError(_UNKNOWN_KEY, text)
        elif key is not None and kind == "string_type":
            text = _mistyped([f"a text{purpose(key)}"], error["input"])
            known = PydanticCustomError(_DESCRIBED, text)
        yield InitErrorDetails(
            type=known, loc=error["loc"], input=error["input"], ctx=error.get("ctx", {})
        )
    if missing:
        text = f"needs {_joined(missing, 'and')}"
        yield InitErrorDetails(type=PydanticCustomError(_DESCRIBED, text), loc=(), input=None)


def validated(document: Document, shape: type[Model]) -> Model:
    """Return the model of a document; raises SpecError with the faults of its shape."""
    try:
        model = shape.model_validate(document.data)
    except ValidationError as error:
        for location, key, text in describe_errors(error, document.data):
            document.fault(location, text, key)
    if document.faults:
        raise SpecError(document.faults)
    return model


def describe_errors(
    found: ValidationError, data: Any
) -> Iterator[tuple[Location, str | None, str]]:
    """Yield the location of each faulty value in the data, the key in it that is unknown, if there
    is one, and what is wrong."""
    by_location: dict[Location, list[ErrorDetails]] = {}
    for error in found.errors():
        by_location.setdefault(_location(data, error["loc"]), []).append(error)
    for location, errors in by_location.items():
        if errors[0]["type"] == _UNKNOWN_KEY:
            yield location[:-1], str(location[-1]), errors[0]["msg"]
        else:
            yield location, None, _describe(errors)


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


def _describe(errors: list[ErrorDetails]) -> str:
    described = [error["msg"] for error in errors if error["type"] == _DESCRIBED]
    if described:
        return described[0]
    kinds = {error["type"] for error in errors}
    expected = [words for kind, words in _EXPECTED.items() if kind in kinds]
    return _mistyped(expected, errors[0]["input"]) if expected else _describe_one(errors[0])


def _mistyped(expected: list[str], found: Any) -> str:
    if "a number" in expected and "a whole number" in expected:
        expected.remove("a whole number")
    text = f"must be {_joined(dict.fromkeys(expected), 'or')}, but got {_found(found)}"
    if any(words.startswith("a text") for words in expected) and isinstance(found, dict):
        text += "; YAML makes a mapping where it reads a colon: put the text in quotes"
    return text


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
        text = json.dumps(value, default=repr)
    return text if len(text) <= _SHOWN_TEXT else f"{text[:_SHOWN_TEXT]} ..."
