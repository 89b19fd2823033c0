"""What a run wrote: the time that it reports, and whether the output is right, by the expected one
or by check(), a function of the user."""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from harness.core.errors import HostModuleError, LaunchFailed
from harness.core.observations import WorstElement
from harness.core.records import Outcome, Value
from harness.core.text import suggestion
from harness.measure.device.host_module import load_host
from harness.measure.device.verify import Tolerance, verify
from harness.measure.failures import RunFailed
from harness.measure.programs.sandbox import STDERR, STDOUT
from harness.space_file.program_model import ProgramVerify, TimeField, TimePattern

_TICK_S = 1e-9
"""No clock of a program counts in smaller steps."""

SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}

_NUMBER = re.compile(
    r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?\b(?:nan|inf(?:inity)?)\b", re.IGNORECASE
)
_SHOWN = 80
_ROUNDING = 2**-52
"""How far a difference of two floats may be off, as a fraction of them: 1.1 - 1.0 is above 0.1."""

TimeFrom = TimePattern | TimeField | None


class WrongOutput(RunFailed):
    """The output differs from the expected one; `worst` is the number that is farthest off, if
    numbers differ."""

    def __init__(self, message: str, worst: WorstElement | None = None) -> None:
        super().__init__(Outcome.WRONG_RESULT, message, worst)


@dataclass(frozen=True)
class Written:
    """The folder that a run worked in, and the folder with its standard output and error."""

    folder: Path
    streams: Path

    def content(self, name: str) -> bytes:
        """Return the content of a stream or a file; raises WrongOutput where it is not there or
        cannot be read."""
        path = (self.streams if name in (STDOUT, STDERR) else self.folder) / name
        try:
            if not path.is_symlink() and path.is_file():
                return path.read_bytes()
        except OSError as error:
            message = f"the file `{name}` of the run cannot be read: {error.strerror}"
            raise WrongOutput(message) from None
        raise WrongOutput(f"the run did not write the file `{name}`")

    def text(self, name: str) -> str:
        """Return the same as text, whatever bytes it holds."""
        return self.content(name).decode(errors="replace")


# -------------------------------------------------------------------------------------- time


def reported_s(time: TimePattern | TimeField, written: Written) -> float:
    """Return the seconds that the program reports; raises LaunchFailed without a time, and for one
    below the tick of clocks."""
    try:
        text = written.text(time.read)
    except WrongOutput as error:
        raise LaunchFailed(f"no time can be read: {error}") from None
    if isinstance(time, TimeField):
        where = time.json_field
        value = _field(text, where)
    else:
        where = time.pattern
        matches = list(re.finditer(where, text, re.MULTILINE))
        if len(matches) != 1:
            often = f"{len(matches)} times" if matches else "nowhere"
            raise LaunchFailed(
                f"the time's pattern `{where}` matches {often} in {time.read}, expected once; "
                f"the text is {_shortened(text) or 'empty'}"
            )
        value = matches[0][1]
    time_s = math.nan
    with contextlib.suppress(ValueError):
        time_s = float(str(value)) * SECONDS[time.unit]
    if not _TICK_S <= time_s < math.inf:
        raise LaunchFailed(
            f"the time that `{where}` finds is {value!r}, expected a number of {time.unit}, and no "
            "less than a nanosecond, which no clock resolves"
        )
    return time_s


def _field(text: str, field: str) -> Any:
    """Return a field of the JSON object; raises LaunchFailed where it is not there."""
    _, fields = _json(text)
    if fields is None:
        raise LaunchFailed(
            "no time can be read: neither the whole nor the last line is a JSON object, in "
            f"{_shortened(text) or 'an empty text'}"
        )
    value: Any = fields
    for name in field.split("."):
        inner = value if isinstance(value, dict) else {}
        if name not in inner:
            there = f"; {suggestion(name, inner)}" if inner else ""
            raise LaunchFailed(f"no time can be read: the JSON has no `{field}`{there}")
        value = inner[name]
    return value


def _json(text: str) -> tuple[str, dict[str, Any] | None]:
    """Find a JSON object that is the whole text or its last line; return the text before it too."""
    whole = text.rstrip()
    for part in (whole, whole[whole.rfind("\n") + 1 :]):
        with contextlib.suppress(ValueError, RecursionError):
            value = json.loads(part)
            if isinstance(value, dict):
                return whole.removesuffix(part), value
    return text, None


def _without_time(text: str, time: TimeFrom, name: str) -> str:
    """Remove the time that is read from a text, which differs in every run."""
    if time is None or time.read != name:
        return text
    if isinstance(time, TimePattern):
        return re.sub(time.pattern, _without_group, text, flags=re.MULTILINE)
    before, fields = _json(text)
    if fields is None:
        return text
    *parents, last = time.json_field.split(".")
    inner: Any = fields
    with contextlib.suppress(KeyError, TypeError):  # it is not there
        for parent in parents:
            inner = inner[parent]
        del inner[last]
    # One line per field, so that verify.ignore can drop a single field.
    return before + json.dumps(fields, indent=1, sort_keys=True)


def _without_group(match: re.Match[str]) -> str:
    """Return the text of a match without its group."""
    begin, end = match.span(1)
    if begin < 0:
        return match[0]
    return match.string[match.start() : begin] + match.string[end : match.end()]


# ---------------------------------------------------------------------------------- comparing


@dataclass(frozen=True)
class Expected:
    """The expected output of every run of an input.

    Texts are compared word by word: numbers within the tolerances, which are 0 by default, all
    other words exactly. The number of spaces does not matter.
    """

    content: bytes
    verify: ProgramVerify
    time: TimeFrom

    def check(self, output: bytes) -> None:
        """Compare an output; raises WrongOutput where it differs."""
        if self.verify.dtype is None:
            self._check_text(self._plain(output), self._plain(self.content))
        else:
            self._check_numbers(output, np.dtype(self.verify.dtype))

    def _plain(self, content: bytes) -> str:
        """Return the text without its time and without the ignored lines."""
        text = _without_time(content.decode(errors="replace"), self.time, self.verify.output)
        if self.verify.ignore is None:
            return text
        ignored = re.compile(self.verify.ignore)
        # Blank lines in their place, so that the others keep their line numbers.
        return "\n".join("" if ignored.search(line) else line for line in text.splitlines())

    def _check_text(self, text: str, expected: str) -> None:
        if text == expected:
            return
        name = self.verify.output
        if _words(text) != _words(expected):
            raise WrongOutput(_first_difference(name, text, expected))
        numbers = list(_NUMBER.finditer(text))
        wanted = _NUMBER.findall(expected)
        pairs = zip(numbers, wanted, strict=True)
        excess = [self._excess(number[0], want) for number, want in pairs]
        most = max(excess, default=0.0)
        if most <= 0:
            return
        index = excess.index(most)
        want = _parsed(wanted[index])
        worst = WorstElement(
            argument=name,
            index=(index,),
            found=_parsed(numbers[index][0]),
            expected=want,
            tolerance=self._allowed(want),
            wrong_count=len([distance for distance in excess if distance > 0]),
            count=len(excess),
        )
        position = _position(text, numbers[index].end())
        difference = str(worst).removeprefix(f"{name}[{index}] ")
        raise WrongOutput(f"{position} of {name} {difference}", worst)

    def _allowed(self, expected: float) -> float:
        """Return by how much a number may differ from the expected one."""
        if not math.isfinite(expected):
            return 0.0
        return (self.verify.atol or 0.0) + (self.verify.rtol or 0.0) * abs(expected)

    def _excess(self, number: str, expected: str) -> float:
        """Return how far a number is outside its tolerance; at most 0 for a right one.

        Numbers beyond all floats are right if equally spelled.
        """
        got, want = _parsed(number), _parsed(expected)
        if number == expected or (got == want and math.isfinite(want)):
            return 0.0
        if math.isfinite(got) and math.isfinite(want):
            allowed = self._allowed(want)
            rounding = _ROUNDING * (abs(got) + abs(want)) if allowed else 0.0
            return abs(got - want) - allowed - rounding
        # Both may be nan, or the same infinity.
        is_equal = str(got) == str(want) and not re.search(r"\d", number + expected)
        return 0.0 if is_equal else math.inf

    def _check_numbers(self, output: bytes, dtype: np.dtype[Any]) -> None:
        name = self.verify.output
        if len(output) != len(self.content) or len(output) % dtype.itemsize:
            raise WrongOutput(
                f"{name} has {len(output):,} bytes, expected {len(self.content):,}, "
                f"of {dtype.itemsize} for each {dtype}"
            )
        got, want = np.frombuffer(output, dtype), np.frombuffer(self.content, dtype)
        tolerance = Tolerance(self.verify.rtol, self.verify.atol)
        worst = verify({name: got}, {name: want}, tolerance)
        if worst is not None:
            raise WrongOutput(str(worst), worst)


def _words(text: str) -> list[str]:
    """Return the words of a text, with 0 in place of every number."""
    return _NUMBER.sub("0", text).split()


def _parsed(text: str) -> float:
    """Return a number; whole ones that a float rounds, such as 2^53 + 1, as they are."""
    return int(text) if re.fullmatch(r"[-+]?\d{1,300}", text) else float(text)


def _first_difference(name: str, text: str, expected: str) -> str:
    """Say where the words of two texts differ first."""
    words = expected.split()
    for got, want in zip(re.finditer(r"\S+", text), words, strict=False):
        if _words(got[0]) != _words(want):
            return (
                f"{_position(text, got.end())} of {name} is `{_shortened(got[0])}`, "
                f"expected `{_shortened(want)}`"
            )
    return f"{name} has {len(text.split()):,} words, expected {len(words):,}"


def _position(text: str, end: int) -> str:
    """Return the line and the word that contain the character before `end`."""
    line = text.rfind("\n", 0, end) + 1
    return f"line {text.count(chr(10), 0, end) + 1:,}, word {len(text[line:end].split()):,}"


def _shortened(text: str) -> str:
    shown = " ".join(text.split())
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]} ..."


# ------------------------------------------------------------------------------------ check()


@dataclass(frozen=True)
class ProgramRun:
    """A run, for check(): the input's features, the configuration, the folder with the files that
    the run wrote, its streams, and the value of `{seed}` in its command."""

    features: Mapping[str, Value]
    config: Mapping[str, Value]
    folder: Path
    stdout: str
    stderr: str
    seed: int


class Checker:
    """A module with check(run), which returns None for a right run, and else says what is wrong.

    An exception in it is a wrong result as well. Raises HostModuleError for a module that cannot be
    loaded.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._module = load_host(path, "harness_check", ("check",))

    def check(self, run: ProgramRun) -> None:
        """Call check(); raises WrongOutput, and HostModuleError for another result."""
        try:
            reason = self._module.check(run)
        except (Exception, SystemExit) as error:
            raise WrongOutput(
                f"check() of {self._path.name} raised {type(error).__name__}: {error}"
            ) from None
        if isinstance(reason, str):
            raise WrongOutput(reason or "check() returned an empty text")
        if reason is not None:
            raise HostModuleError(
                f"{self._path}: check() must return None where the run is right, or a text that "
                f"says what is wrong, but got {reason!r}"
            )
