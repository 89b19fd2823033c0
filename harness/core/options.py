"""Options, declared once: of a command, and of a function in Python.

A model is a frozen dataclass whose fields are made by `argument`, `option` and `flag`; the text
below a field says what it means. The parser, the checks of Python's arguments, their names in
messages and the lists of docs/reference all follow from it. Nothing here loads pydantic: `--help`
would wait a quarter of a second for it.
"""

from __future__ import annotations

import argparse
import functools
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, Field, dataclass, field, fields
from functools import partial
from numbers import Integral, Real
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from harness.core.errors import HarnessError, SpecError, UsageError
from harness.core.text import printable, suggestion

BACKENDS = ("auto", "cuda", "opencl", "command", "python")

_CLASS = re.compile(r"^class (\w+)", re.MULTILINE)
_FIELD = re.compile(r'^ {4}(\w+): .*\n(?: {4}[ )\]].*\n)* {4}"""((?s:.*?))"""$', re.MULTILINE)
_LARGEST = 10**9
_OPTION = "option"
_COMMAND_OR_OPTION = re.compile(r"-m harness \w[^;`\n]*|(--[a-z][a-z-]*)( [A-Z]+\b)?")


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

    @classmethod
    def whole(cls, least: int, most: int = _LARGEST, shown: str = "10^9") -> Kind:
        """Make the kind of whole numbers from `least` to `most`; messages write that as `shown`."""

        def accept(value: Any) -> int:
            is_number = isinstance(value, Integral) and not isinstance(value, bool)
            if not is_number or not least <= int(value) <= most:
                raise ValueError
            return int(value)

        return cls(f"a whole number from {least} to {shown}", accept, _decimal)

    @classmethod
    def number(
        cls,
        expected: str,
        is_allowed: Callable[[float], bool],
        convert: Callable[[str], float] = float,
    ) -> Kind:
        """Make the kind of numbers that are allowed; NaN never is."""

        def accept(value: Any) -> float:
            is_number = isinstance(value, Real) and not isinstance(value, bool)
            if not is_number or not is_allowed(float(value)):
                raise ValueError
            return float(value)

        return cls(expected, accept, convert)

    @classmethod
    def path(cls, *endings: str) -> Kind:
        """Make the kind of paths, perhaps of those with one of these endings."""

        def accept(value: Any) -> Path:
            text = str(value).lower()
            if not isinstance(value, str | Path) or not text.endswith(endings or ("",)):
                raise ValueError
            return Path(value)

        named = f"the name of a file that ends in {', '.join(endings)}" if endings else "a path"
        return cls(named, accept)


def _decimal(word: str) -> int:
    if not word.isdecimal():
        raise ValueError
    return int(word)


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value or not value.isprintable():
        raise ValueError
    return value


TEXT = Kind("a text of printable characters", _text)
PATH = Kind.path()
SEED = Kind.whole(0)


# ------------------------------------------------------------------------- fields of a model


@dataclass(frozen=True)
class _Option:
    """How a field is given: its kind, None for a flag; what it means, empty where the text below
    the field says that; the names of its option, none where they follow from the field, and None
    where it stands by itself; argparse's settings."""

    kind: Kind | None
    help: str
    names: tuple[str, ...] | None
    settings: Mapping[str, Any]
    several: bool = False
    in_python: bool = True


def option(
    kind: Kind,
    metavar: str | None = None,
    help: str = "",
    *,
    names: tuple[str, ...] = (),
    default: Any = None,
    several: bool = False,
    in_python: bool = True,
    **settings: Any,
) -> Any:
    """Make a field that an option with a value gives; `names` where they are not the field's.

    `settings` are argparse's. `several` may be repeated.
    """
    if several:
        default = ()
        settings.setdefault("action", "append")
    if settings.get("required"):
        default = MISSING
    made = _Option(kind, help, names, {"metavar": metavar} | settings, several, in_python)
    return field(default=default, metadata={_OPTION: made})


def argument(kind: Kind, metavar: str | None = None, help: str = "", **settings: Any) -> Any:
    """Make a field that stands by itself on the command line; `nargs` says how many."""
    several = settings.get("nargs") in ("*", "+")
    default: Any = {"?": None, "*": ()}.get(settings.get("nargs", ""), MISSING)
    made = _Option(kind, help, None, {"metavar": metavar} | settings, several)
    return field(default=default, metadata={_OPTION: made})


def flag(
    help: str = "", *, names: tuple[str, ...] = (), default: bool = False, in_python: bool = True
) -> Any:
    """Make a field that is true or false; the option changes the default."""
    action = "store_false" if default else "store_true"
    made = _Option(None, help, names, {"action": action}, in_python=in_python)
    return field(default=default, metadata={_OPTION: made})


# What stands below the fields of a class in its source: options and keys of files are described
# there. A regular expression reads it, since Python's parser would take a tenth of the time of
# `--help`.


def field_texts(owner: type) -> Mapping[str, str]:
    """Return the text below each field of a class, and of the classes of its package that it
    extends, without line breaks."""
    package, texts = owner.__module__.partition(".")[0], dict[str, str]()
    for part in reversed(owner.mro()):
        if part.__module__.partition(".")[0] == package:
            texts |= _texts(part.__module__).get(part.__name__, {})
    return texts


@functools.cache
def _texts(module: str) -> Mapping[str, Mapping[str, str]]:
    """Return the texts in a module by class and field."""
    source = Path(sys.modules[module].__file__ or "").read_text(encoding="utf-8")
    _, *parts = _CLASS.split(source)
    return {
        name: {field: " ".join(text.split()) for field, text in _FIELD.findall(body)}
        for name, body in zip(parts[::2], parts[1::2], strict=True)
    }


Model = TypeVar("Model", bound="Options")


class Options:
    """The base of models. The docstring of one is the description of its command."""

    groups: ClassVar[Mapping[str, str]] = {}
    """Titles of groups of options, by the first field of each."""
    epilog: ClassVar[str] = ""
    interrupted: ClassVar[str] = ""
    """What an interruption leaves."""
    allow_abbrev: ClassVar[bool] = True
    moved: ClassVar[Mapping[str, str]] = {}
    """By former options, the commands that they are now."""

    def check(self) -> None:
        """Raise UsageError for options that exclude each other, before anything slow is loaded."""

    def read(self: Model) -> Model:
        """Read the file whose faults are reported before anything slow is loaded; return the
        options with it."""
        return self

    @classmethod
    def add_to(cls, parser: argparse.ArgumentParser) -> None:
        """Add all options to a parser."""
        group: argparse._ActionsContainer = parser
        texts = field_texts(cls)
        for member, declared in _declared(cls):
            if member.name in cls.groups:
                group = parser.add_argument_group(cls.groups[member.name])
            text = declared.help or texts.get(member.name, "")
            settings = {**declared.settings, "help": text.replace("%", "%%")}
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
                parser.add_argument(member.name, **settings)

    @classmethod
    def from_command_line(
        cls: type[Model], args: argparse.Namespace, typed: Sequence[str] = ()
    ) -> Model:
        """Make options of a parsed command line; a field `typed` has its words."""
        values = {}
        for member, _ in _declared(cls):
            value = getattr(args, member.name)
            values[member.name] = tuple(value) if isinstance(value, list) else value
        if "typed" in {member.name for member in fields(cls)}:  # type: ignore[arg-type]
            values["typed"] = tuple(typed)
        return cls(**values)

    @classmethod
    @contextmanager
    def called(
        cls: type[Model], function: str, arguments: Mapping[str, object], **renamed: str
    ) -> Iterator[Model]:
        """Make options of the arguments of a function in Python, check them, and name arguments in
        messages in place of a command's options; `renamed` are those with another name than their
        fields. Faults of a space name no options.

        Raises TypeError for an unknown argument.
        """
        allowed = {member.name: (member, o) for member, o in _declared(cls) if o.in_python}
        for name in arguments:
            if name in cls.moved:
                raise TypeError(f"{function}() takes no `{name}` now: use {cls.moved[name]}")
            if name not in allowed:
                hint = suggestion(name, allowed)
                raise TypeError(f"{function}() has no argument `{name}`; {hint}")
        try:
            values = {
                name: _taken(renamed.get(name, name), *allowed[name], value)
                for name, value in arguments.items()
            }
            options = cls(**values)
            options.check()
            yield options
        except SpecError:
            raise
        except HarnessError as error:
            error.args = (cls.in_python(str(error), **renamed),)
            raise

    @classmethod
    def in_python(cls, message: str, **renamed: str) -> str:
        """Replace the options that a message names by arguments, but not those of whole commands,
        and not options that Python lacks."""
        spelled = {}
        for member, declared in _declared(cls):
            argument = renamed.get(member.name, member.name)
            if member.default is True:
                argument = f"{argument}=False"
            if declared.in_python:
                spelled.update(dict.fromkeys(_names(member, declared), argument))

        def respell(word: re.Match[str]) -> str:
            if word[1] not in spelled:
                return word[0]
            value = f"={word[2].strip()}" if word[2] else ""
            return f"`{spelled[word[1]]}{value}`"

        return _COMMAND_OR_OPTION.sub(respell, message)

    @classmethod
    def signature(cls, **positional: str) -> inspect.Signature:
        """Make the signature of a function in Python that takes these options, one of them by
        position, perhaps under another name."""
        kinds = inspect.Parameter
        parameters: list[inspect.Parameter] = []
        for member, declared in _declared(cls):
            if declared.in_python:
                is_first = member.name in positional
                parameter = kinds(
                    positional.get(member.name, member.name),
                    kinds.POSITIONAL_OR_KEYWORD if is_first else kinds.KEYWORD_ONLY,
                    default=kinds.empty if member.default is MISSING else member.default,
                    annotation=member.type,
                )
                parameters.insert(0 if is_first else len(parameters), parameter)
        return inspect.Signature(parameters)


def _declared(model: type[Options]) -> Iterator[tuple[Field[Any], _Option]]:
    for member in fields(model):  # type: ignore[arg-type]
        if _OPTION in member.metadata:
            yield member, member.metadata[_OPTION]


def _names(member: Field[Any], declared: _Option) -> tuple[str, ...]:
    if declared.names is None:
        return ()
    name = member.name.replace("_", "-")
    return declared.names or (f"--{'no-' * (member.default is True)}{name}",)


def _taken(name: str, member: Field[Any], declared: _Option, value: object) -> Any:
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
        raise UsageError(f"{name}: must be {expected}, but is {printable(repr(value))}") from None


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError
    return value
