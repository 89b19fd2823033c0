"""Options, declared once: of a command, and of a function in Python.

A model is a frozen dataclass whose fields are made by `argument`, `option` and `flag`. The parser,
the checks of Python's arguments, their names in messages and the lists of docs/reference all
follow from it. Nothing here loads pydantic: `--help` would wait a quarter of a second for it.
"""

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, Field, dataclass, field, fields
from functools import partial
from numbers import Integral, Real
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from harness.core.errors import HarnessError, SpecError, UsageError
from harness.core.text import suggestion

BACKENDS = ("auto", "cuda", "opencl", "command")

Help = str | Callable[[], str]
"""What an option means; a function where this takes a while."""

_LARGEST = 10**9
_OPTION = "option"
_COMMAND_OR_OPTION = re.compile(r"-m harness\.\w[^;`\n]*|(--[a-z][a-z-]*)( [A-Z]+\b)?")


# --------------------------------------------------------------------------- kinds of values


@dataclass(frozen=True)
class Kind:
    """What a value may be, in words; `accept` takes a value of Python, `convert` makes one of a
    word of a command line. Both raise ValueError."""

    expected: str
    accept: Callable[[Any], Any]
    convert: Callable[[str], Any] = str

    def parse(self, hint: str, word: str) -> Any:
        """Read a word of a command line; a message ends with `hint`."""
        try:
            return self.accept(self.convert(word))
        except (ValueError, OverflowError):
            message = f"must be {self.expected}, got {word!r}{hint}"
            raise argparse.ArgumentTypeError(message) from None


def whole(least: int, most: int = _LARGEST, shown: str = "10^9") -> Kind:
    """Make the kind of whole numbers from `least` to `most`, which messages write as `shown`."""

    def accept(value: Any) -> int:
        is_number = isinstance(value, Integral) and not isinstance(value, bool)
        if not is_number or not least <= int(value) <= most:
            raise ValueError
        return int(value)

    return Kind(f"a whole number from {least} to {shown}", accept, _decimal)


def _decimal(word: str) -> int:
    if not word.isdecimal():
        raise ValueError
    return int(word)


def number(
    expected: str, is_allowed: Callable[[float], bool], convert: Callable[[str], float] = float
) -> Kind:
    """Make the kind of numbers that are allowed; NaN never is."""

    def accept(value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, Real) or not is_allowed(float(value)):
            raise ValueError
        return float(value)

    return Kind(expected, accept, convert)


def path(*endings: str) -> Kind:
    """Make the kind of paths, perhaps of those with one of these endings."""

    def accept(value: Any) -> Path:
        if not isinstance(value, str | Path) or not str(value).lower().endswith(endings or ("",)):
            raise ValueError
        return Path(value)

    named = f"the name of a file that ends in {', '.join(endings)}" if endings else "a path"
    return Kind(named, accept)


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value or not value.isprintable():
        raise ValueError
    return value


def _seconds(word: str) -> float:
    unit_s = {"s": 1, "m": 60, "h": 3600}.get(word[-1:])
    return float(word[:-1]) * unit_s if unit_s else float(word)


TEXT = Kind("a text of printable characters", _text)
PATH = path()
SECONDS = number("seconds above 0, up to 10^9", lambda value: 0 < value <= _LARGEST, _seconds)
SEED = whole(0)


# ------------------------------------------------------------------------- fields of a model


@dataclass(frozen=True)
class Option:
    """How a field is given: its kind, None for a flag; what it means; the names of its option, none
    where they follow from the field, and None where it stands by itself; argparse's settings."""

    kind: Kind | None
    help: Help
    names: tuple[str, ...] | None
    settings: Mapping[str, Any]
    several: bool = False
    in_python: bool = True

    @property
    def words(self) -> str:
        """What it means."""
        return self.help if isinstance(self.help, str) else self.help()


def option(
    kind: Kind,
    metavar: str | None,
    help: Help,
    *names: str,
    default: Any = None,
    several: bool = False,
    in_python: bool = True,
    **settings: Any,
) -> Any:
    """Make a field that an option with a value gives; `names` where they are not the field's.

    `settings` are argparse's. `several` may be repeated.
    """
    if several:
        default, settings = (), {"action": "append"} | settings
    if settings.get("required"):
        default = MISSING
    made = Option(kind, help, names, {"metavar": metavar} | settings, several, in_python)
    return field(default=default, metadata={_OPTION: made})


def argument(kind: Kind, metavar: str | None, help: Help, **settings: Any) -> Any:
    """Make a field that stands by itself on the command line; `nargs` says how many."""
    several = settings.get("nargs") in ("*", "+")
    default: Any = {"?": None, "*": ()}.get(settings.get("nargs", ""), MISSING)
    made = Option(kind, help, None, {"metavar": metavar} | settings, several)
    return field(default=default, metadata={_OPTION: made})


def flag(help: str, *names: str, default: bool = False, in_python: bool = True) -> Any:
    """Make a field that is true or false; the option changes the default."""
    action = "store_false" if default else "store_true"
    made = Option(None, help, names, {"action": action}, in_python=in_python)
    return field(default=default, metadata={_OPTION: made})


class Options:
    """The base of models. The docstring of one is the description of its command."""

    groups: ClassVar[Mapping[str, str]] = {}
    """Titles of groups of options, by the first field of each."""
    epilog: ClassVar[str] = ""
    interrupted: ClassVar[str] = ""
    """What an interruption leaves."""
    allow_abbrev: ClassVar[bool] = True

    def check(self) -> None:
        """Raise UsageError for options that exclude each other, before anything slow is loaded."""


Model = TypeVar("Model", bound=Options)


def _declared(model: type[Options]) -> Iterator[tuple[Field[Any], Option]]:
    for member in fields(model):  # type: ignore[arg-type]
        if _OPTION in member.metadata:
            yield member, member.metadata[_OPTION]


def _names(member: Field[Any], declared: Option) -> tuple[str, ...]:
    if declared.names is None:
        return ()
    name = member.name.replace("_", "-")
    return declared.names or (f"--{'no-' * (member.default is True)}{name}",)


# --------------------------------------------------------------------------- the command line


def add_options(parser: argparse.ArgumentParser, model: type[Options]) -> None:
    """Add all options of a model."""
    group: argparse._ActionsContainer = parser
    for member, declared in _declared(model):
        if member.name in model.groups:
            group = parser.add_argument_group(model.groups[member.name])
        settings = {**declared.settings, "help": declared.words.replace("%", "%%")}
        names = _names(member, declared)
        if declared.kind is not None:
            has_default = names and settings.get("nargs") == "?"
            hint = f"; to use the default, put {names[-1]} last" if has_default else ""
            settings["type"] = partial(declared.kind.parse, hint)
        if member.default is not MISSING:
            settings["default"] = [] if declared.several else member.default
        if names:
            group.add_argument(*names, dest=member.name, **settings)
        else:
            group.add_argument(member.name, **settings)


def from_command_line(
    model: type[Model], args: argparse.Namespace, typed: Sequence[str] = ()
) -> Model:
    """Make a model of a parsed command line; a field `typed` has its words."""
    values = {member.name: getattr(args, member.name) for member, _ in _declared(model)}
    if "typed" in {member.name for member in fields(model)}:  # type: ignore[arg-type]
        values["typed"] = typed
    return model(**{n: tuple(v) if isinstance(v, list) else v for n, v in values.items()})


# ---------------------------------------------------------------------------------- Python


def from_arguments(model: type[Model], function: str, arguments: Mapping[str, object]) -> Model:
    """Make a model of the arguments of a function in Python.

    Raises TypeError for an unknown argument, UsageError for one that may not have its value.
    """
    allowed = {member.name: (member, o) for member, o in _declared(model) if o.in_python}
    values = {}
    for name, value in arguments.items():
        if name not in allowed:
            raise TypeError(f"{function}() has no argument `{name}`; {suggestion(name, allowed)}")
        values[name] = _taken(*allowed[name], value)
    return model(**values)


def _taken(member: Field[Any], declared: Option, value: object) -> Any:
    kind = declared.kind or Kind("True or False", _boolean)
    if value is None and member.default is None:
        return None
    try:
        if not declared.several:
            return kind.accept(value)
        is_list = isinstance(value, Sequence) and not isinstance(value, str | bytes)
        return tuple(map(kind.accept, value if is_list else [value]))  # type: ignore[call-overload]
    except (ValueError, OverflowError):
        expected = kind.expected + ", or a list of them" * declared.several
        raise UsageError(f"{member.name}: must be {expected}, but is {_described(value)}") from None


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError
    return value


def _described(value: object) -> str:
    if isinstance(value, str) or value is None:
        return repr(value) if value is None or len(value) < 100 else "a long text"
    if isinstance(value, float) or (isinstance(value, int) and abs(value) < 10**20):
        return f"{value}"
    if isinstance(value, list | tuple) and value:
        kinds = sorted({type(member).__name__ for member in value})
        return f"a {type(value).__name__} of {', '.join(kinds)}"
    return f"an object of the type {type(value).__name__}"


@contextmanager
def naming_arguments(model: type[Options], **renamed: str) -> Iterator[None]:
    """Name the arguments of Python in messages in place of a command's options; `renamed` are those
    with another name than their fields. Faults of a space name no options."""
    try:
        yield
    except SpecError:
        raise
    except HarnessError as error:
        error.args = (in_python(str(error), model, **renamed),)
        raise


def in_python(message: str, model: type[Options], **renamed: str) -> str:
    """Replace the options that a message names by arguments, but not those of whole commands; an
    option that Python lacks is named with its command."""
    command = model.__name__.removesuffix("Options").lower()
    spelled = {
        name: renamed.get(member.name, member.name) + "=False" * (member.default is True)
        if declared.in_python
        else f"python -m harness {command} {name}"
        for member, declared in _declared(model)
        for name in _names(member, declared)
    }

    def respell(word: re.Match[str]) -> str:
        if word[1] not in spelled:
            return word[0]
        value = f"={word[2].strip()}" if word[2] else ""
        return f"`{spelled[word[1]]}{value}`"

    return _COMMAND_OR_OPTION.sub(respell, message)


def signature_of(model: type[Options], **positional: str) -> inspect.Signature:
    """Make the signature of a function in Python that takes a model's fields, some of them by
    position, under a name of their own."""
    kinds = inspect.Parameter
    return inspect.Signature(
        [
            kinds(
                positional.get(member.name, member.name),
                kinds.POSITIONAL_OR_KEYWORD if member.name in positional else kinds.KEYWORD_ONLY,
                default=kinds.empty if member.default is MISSING else member.default,
                annotation=member.type,
            )
            for member, declared in _declared(model)
            if declared.in_python
        ]
    )
