"""What a run has written: its time, and its output beside the one that is expected."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, InvalidOperation, localcontext
from pathlib import Path
from typing import Any

import numpy as np

from harness.core.errors import LaunchFailed
from harness.core.records import WorstElement
from harness.measure.programs.sandbox import STDERR, STDOUT
from harness.measure.verify import Tolerance, verify
from harness.space_file.program_model import ProgramVerify, TimeField, TimePattern

SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}

_NUMBER = re.compile(
    r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?\b(?:nan|inf(?:inity)?)\b", re.IGNORECASE
)
_SHOWN = 80
_UNBOUNDED = Context(prec=50, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[InvalidOperation])
"""For differences of numbers that no float holds."""

TimeFrom = TimePattern | TimeField | None


class WrongOutput(Exception):
    """The output is not what is expected; `worst` is the number that is farthest off, where it is
    one."""

    def __init__(self, message: str, worst: WorstElement | None = None) -> None:
        super().__init__(message)
        self.worst = worst


@dataclass(frozen=True)
class Written:
    """The folder that a run worked in, and the one with what it wrote to its streams."""

    folder: Path
    streams: Path

    def content(self, name: str) -> bytes:
        """What it wrote to a stream or a file; raises WrongOutput where it did not."""
        path = (self.streams if name in (STDOUT, STDERR) else self.folder) / name
        if path.is_symlink() or not path.is_file():
            raise WrongOutput(f"the run did not write the file `{name}`")
        return path.read_bytes()

    def text(self, name: str) -> str:
        """The same as text, whatever bytes it holds."""
        return self.content(name).decode(errors="replace")


# -------------------------------------------------------------------------------------- time


def reported_s(time: TimePattern | TimeField, written: Written) -> float:
    """The seconds that the program tells; raises LaunchFailed where it tells none."""
    try:
        text = written.text(time.read)
    except WrongOutput as error:
        raise LaunchFailed(f"no time can be read: {error}") from None
    return _told_s(time, text)


def _told_s(time: TimePattern | TimeField, text: str) -> float:
    if isinstance(time, TimeField):
        return _number(_field(text, time.json_field), time.json_field) * SECONDS[time.unit]
    found = list(re.finditer(time.pattern, text, re.MULTILINE))
    if len(found) != 1:
        often = f"{len(found)} times" if found else "nowhere"
        raise LaunchFailed(
            f"the time's pattern `{time.pattern}` matches {often} in {time.read}, and must match "
            f"once; that is {_shortened(text) or 'empty'}"
        )
    return _number(found[0][1], time.pattern) * SECONDS[time.unit]


def _field(text: str, field: str) -> Any:
    found = _json(text)
    if found is None:
        raise LaunchFailed(
            "no time can be read: neither the whole nor the last line is a JSON object, but "
            f"{_shortened(text) or 'nothing was written'}"
        )
    value: Any = found[1]
    for name in field.split("."):
        if not isinstance(value, dict) or name not in value:
            there = f"; there are {', '.join(value)}" if isinstance(value, dict) else ""
            raise LaunchFailed(f"no time can be read: the JSON has no `{field}`{there}")
        value = value[name]
    return value


def _json(text: str) -> tuple[str, dict[str, Any]] | None:
    """The object that a text is, or that is its last line, behind what stands before it."""
    whole = text.rstrip()
    last = (whole.splitlines() or [""])[-1]
    for part in (whole, last):
        try:
            value = json.loads(part)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            return whole.removesuffix(part), value
    return None


def _number(found: Any, where: str) -> float:
    try:
        if isinstance(found, bool):
            raise ValueError
        number = float(found)
    except (TypeError, ValueError):
        raise LaunchFailed(f"the time that `{where}` finds is no number, but {found!r}") from None
    if not 0 < number < math.inf:
        raise LaunchFailed(f"the time that `{where}` finds is {number}; it must be above 0")
    return number


def without_time(text: str, time: TimeFrom, name: str) -> str:
    """The text without the time that is read from it, which differs in every run."""
    if time is None or time.read != name:
        return text
    if isinstance(time, TimePattern):
        return re.sub(time.pattern, _without_group, text, flags=re.MULTILINE)
    found = _json(text)
    if found is None:
        return text
    before, value = found
    # A line for each field, so that one to be ignored does not take all others along.
    return before + json.dumps(_without_field(value, time.json_field.split(".")), indent=1)


def _without_group(found: re.Match[str]) -> str:
    begin, end = (place - found.start() for place in found.span(1))
    return found[0] if found[1] is None else found[0][:begin] + found[0][end:]


def _without_field(value: Any, names: Sequence[str]) -> Any:
    if not isinstance(value, dict) or names[0] not in value:
        return value
    rest = {name: inner for name, inner in value.items() if name != names[0]}
    inner = [] if len(names) == 1 else [(names[0], _without_field(value[names[0]], names[1:]))]
    return dict(sorted([*rest.items(), *inner]))


# ---------------------------------------------------------------------------------- comparing


@dataclass(frozen=True)
class Expected:
    """The output that is expected of every run of an input.

    Texts are compared word by word: numbers by the tolerances, which are 0 where none is given,
    all else exactly; how many spaces there are does not matter.
    """

    content: bytes
    verify: ProgramVerify
    time: TimeFrom

    def check(self, found: bytes) -> None:
        """Raises WrongOutput; and LaunchFailed where the output differs and tells no time, though
        the one that is expected does."""
        if self.verify.dtype is None:
            here, there = self._plain(found), self._plain(self.content)
            if _words(here) != _words(there):
                self._require_time(found)
            self._check_text(here, there)
        else:
            self._check_numbers(found, np.dtype(self.verify.dtype))

    def has_shape_of(self, found: bytes) -> bool:
        """Whether an output has the same words, and as many numbers; as many bytes, of one that
        is no text."""
        if self.verify.dtype is not None:
            return len(found) == len(self.content)
        here, there = self._plain(found), self._plain(self.content)
        return _words(here) == _words(there)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to compare."""
        return not (self.content if self.verify.dtype else self._plain(self.content).strip())

    def _require_time(self, found: bytes) -> None:
        if self.time is None or self.time.read != self.verify.output:
            return
        try:
            _told_s(self.time, self.content.decode(errors="replace"))
        except LaunchFailed:
            return  # a file that a person wrote, without times
        _told_s(self.time, found.decode(errors="replace"))

    def _plain(self, content: bytes) -> str:
        """The text without its time and without the lines to be ignored."""
        text = without_time(content.decode(errors="replace"), self.time, self.verify.output)
        if self.verify.ignore is None:
            return text
        ignored = re.compile(self.verify.ignore)
        # Blank, so that the others keep their numbers.
        return "\n".join("" if ignored.search(line) else line for line in text.splitlines())

    def _check_text(self, found: str, expected: str) -> None:
        if found == expected:
            return
        if _words(found) != _words(expected):
            raise WrongOutput(_first_difference(self.verify.output, found, expected))
        rtol, atol = self.verify.rtol or 0.0, self.verify.atol or 0.0
        numbers = list(_NUMBER.finditer(found))
        pairs = list(zip((n[0] for n in numbers), _NUMBER.findall(expected), strict=True))
        with localcontext(_UNBOUNDED):
            allowing = (Decimal(rtol), Decimal(atol))
            wrong = [w for k, pair in enumerate(pairs) for w in _wrong(k, *pair, *allowing)]
        if wrong:
            _, place, got, want, allowed = max(wrong)
            name, count = self.verify.output, len(pairs)
            worst = WorstElement(name, (place,), got, want, allowed, len(wrong), count)
            told = str(worst).removeprefix(f"{name}[{place}] ")
            raise WrongOutput(f"{_place(found, numbers[place].end())} of {name} {told}", worst)

    def _check_numbers(self, found: bytes, dtype: np.dtype[Any]) -> None:
        name = self.verify.output
        if len(found) != len(self.content) or len(found) % dtype.itemsize:
            raise WrongOutput(
                f"{name} has {len(found):,} bytes, expected {len(self.content):,}, "
                f"of {dtype.itemsize} for each {dtype}"
            )
        got, want = np.frombuffer(found, dtype), np.frombuffer(self.content, dtype)
        tolerance = Tolerance(self.verify.rtol, self.verify.atol)
        verdict = verify({name: got}, {name: want}, tolerance)
        if verdict.worst is not None:
            raise WrongOutput(str(verdict.worst), verdict.worst)


def _words(text: str) -> list[str]:
    """The words of a text, with the same sign for every number."""
    return _NUMBER.sub("0", text).split()


def _wrong(
    place: int, found: str, expected: str, rtol: Decimal, atol: Decimal
) -> Iterator[tuple[Decimal, int, float, float, float]]:
    """How far a number is outside its tolerance, with all that is to be told; nothing for one
    that is right."""
    if found == expected:
        return
    got, want = _parsed(found), _parsed(expected)
    if got == want or (got.is_nan() and want.is_nan()):
        return
    allowed, excess = Decimal(0), Decimal("inf")
    if not (got.is_nan() or want.is_nan()):
        allowed = atol + rtol * abs(want) if want.is_finite() else allowed
        excess = abs(got - want) - allowed
    if excess > 0:
        yield excess, place, _told(found), _told(expected), float(allowed)


def _parsed(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:  # an exponent of 19 digits or more
        return Decimal(float(text))


def _told(text: str) -> float:
    """A number; a whole one stays whole, so that two above 2^53 that differ do not look alike."""
    try:
        return int(text)
    except ValueError:
        return float(text)


def _first_difference(name: str, found: str, expected: str) -> str:
    here, there = found.split(), expected.split()
    for got, want in zip(re.finditer(r"\S+", found), there, strict=False):
        if _words(got[0]) != _words(want):
            return (
                f"{_place(found, got.end())} of {name} is `{_shortened(got[0])}`, "
                f"expected `{_shortened(want)}`"
            )
    return f"{name} has {len(here):,} words, expected {len(there):,}"


def _place(text: str, end: int) -> str:
    """Where the word stands that ends there, or has something in it that does."""
    line = text.rfind("\n", 0, end) + 1
    return f"line {text.count(chr(10), 0, end) + 1:,}, word {len(text[line:end].split()):,}"


def _shortened(text: str) -> str:
    shown = " ".join(text.split())
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]} ..."
