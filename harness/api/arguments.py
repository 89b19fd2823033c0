"""Check the types of the arguments of `harness.tune`, which Python does not."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral
from pathlib import Path
from typing import ParamSpec, TypeVar

from harness.core.errors import UsageError
from harness.core.text import suggestion
from harness.space_file import Spec

_MOST = 10**9

Given = ParamSpec("Given")
Made = TypeVar("Made")


def _is_whole(least: int) -> Callable[[object], bool]:
    return lambda value: (
        isinstance(value, Integral) and not isinstance(value, bool) and least <= int(value) <= _MOST
    )


def _is_number(value: object) -> bool:
    if isinstance(value, bool):
        return False
    if isinstance(value, Integral):
        return abs(int(value)) <= _MOST
    return isinstance(value, float) and abs(value) <= _MOST


def _is_duration(value: object) -> bool:
    return _is_number(value) and isinstance(value, Integral | float) and float(value) >= 0


def _is_limit(value: object) -> bool:
    return _is_duration(value) and value != 0


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_label(value: object) -> bool:
    return isinstance(value, str) and value != "" and value.isprintable()


def _is_path(value: object) -> bool:
    return isinstance(value, str | Path)


def _is_list_of(check: Callable[[object], bool]) -> Callable[[object], bool]:
    def is_list(value: object) -> bool:
        if isinstance(value, str | bytes) or not isinstance(value, Sequence):
            return False
        return all(check(item) for item in value)

    return is_list


def _is_mapping(value: object) -> bool:
    return isinstance(value, Mapping)


def _is_technique(value: object) -> bool:
    return _is_text(value) or _is_list_of(_is_text)(value)


def _is_device(value: object) -> bool:
    is_one = _is_whole(0)
    return (
        _is_text(value) or is_one(value) or _is_list_of(lambda v: _is_text(v) or is_one(v))(value)
    )


def _is_space(value: object) -> bool:
    return _is_path(value) or isinstance(value, Spec)


_CHECKS: Mapping[str, tuple[Callable[[object], bool], str]] = {
    "space": (_is_space, "the path of a space, or a Spec"),
    "inputs": (_is_text, "a condition such as 'n <= 4096'"),
    "inputs_from": (_is_path, "the path of a workload"),
    "cover": (_is_number, "a share such as 0.95"),
    "most_inputs": (_is_whole(1), "a whole number from 1 to 10^9"),
    "backend": (_is_text, "a text such as 'opencl'"),
    "device": (_is_device, "the name or the index of a device, or a list of them"),
    "replay": (_is_path, "the path of a recording"),
    "technique": (_is_technique, "the name of a technique, or a list of names"),
    "test_limit": (_is_whole(1), "a whole number from 1 to 10^9"),
    "max_time_s": (_is_limit, "a number of seconds above 0, up to 10^9"),
    "seed": (_is_whole(0), "a whole number from 0 to 10^9"),
    "seed_configurations": (_is_list_of(_is_mapping), "a list of mappings"),
    "warm_start": (_is_list_of(_is_path), "a list of paths"),
    "repeats": (_is_whole(1), "a whole number from 1 to 10^9"),
    "precision": (_is_number, "a number such as 0.01"),
    "database": (_is_path, "a path or a URL"),
    "label": (_is_label, "a text of printable characters"),
    "wait": (_is_duration, "a number of seconds from 0"),
    "finalists": (_is_whole(1), "a whole number from 1 to 10^9"),
}
_MAY_BE_NONE = (
    "space",
    "inputs",
    "inputs_from",
    "cover",
    "most_inputs",
    "replay",
    "test_limit",
    "max_time_s",
    "repeats",
    "precision",
    "database",
    "finalists",
)


def naming_arguments(function: Callable[Given, Made]) -> Callable[Given, Made]:
    """Wrap a function so that the error of an unknown argument, a TypeError, names the nearest."""
    known = inspect.signature(function).parameters

    @functools.wraps(function)
    def checked(*args: Given.args, **arguments: Given.kwargs) -> Made:
        for name in arguments:
            if name not in known:
                hint = suggestion(name, known)
                raise TypeError(f"{function.__name__}() has no argument `{name}`; {hint}")
        return function(*args, **arguments)

    return checked


def check_arguments(arguments: Mapping[str, object]) -> None:
    """Raise UsageError for the first argument of `tune` of another type than documented."""
    for name, (check, expected) in _CHECKS.items():
        value = arguments[name]
        if not check(value) and not (value is None and name in _MAY_BE_NONE):
            raise UsageError(f"{name}: must be {expected}, but is {_described(value)}")


def _described(value: object) -> str:
    if isinstance(value, str) or value is None:
        return repr(value) if value is None or len(value) < 100 else "a long text"
    if isinstance(value, float) or (isinstance(value, int) and abs(value) < 10**20):
        return f"{value}"
    if isinstance(value, list | tuple) and value:
        kinds = sorted({type(member).__name__ for member in value})
        return f"a {type(value).__name__} of {', '.join(kinds)}"
    return f"an object of the type {type(value).__name__}"
