"""Read a workload: the inputs that a program meets, and how often it calls the kernel with each.

Dispatchers record it (docs/reference/dispatcher.md); a person can write it as well:

    m,n,calls
    4096,512,120
    64,64,3
"""

from __future__ import annotations

import csv
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.core.errors import UsageError
from harness.core.records import Input, Value, shown
from harness.core.text import counted, first_few, printable, suggestion
from harness.source.kernel_source import read_text

TITLE = "# workload of "
"""Begins the first line of a recorded file; the name of the space follows."""

CALLS, CHOICE = "calls", "choice"
"""Columns behind the features: how often, and the configuration that was chosen, which is not read.
It stands last: where a line was cut off within it, the rest is whole."""

UNKNOWN = "?"
"""Stands for a value that a dispatcher cannot name, such as a word that it does not know."""

_MOST_BYTES = 256 << 20
_MOST_INPUTS = 1_000_000
_WHOLE = re.compile(r"[+-]?[0-9]{1,19}")
_CALLS = re.compile(r"[0-9]{1,15}")


@dataclass(frozen=True)
class Workload:
    """How often each input came: `calls` is above 0, and has at least one input.

    `unnamed` counts calls with a value that the dispatcher could not name. `notes` say what of the
    file was left out.
    """

    path: Path
    calls: Mapping[Input, int]
    unnamed: int = 0
    notes: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        """All calls, the unnamed ones as well."""
        return sum(self.calls.values()) + self.unnamed

    def weights(self, inputs: Sequence[Input]) -> list[float]:
        """Return the share of all calls that came with each of these inputs."""
        total = self.total
        return [self.calls.get(problem, 0) / total for problem in inputs]

    def most_frequent(self, share: float) -> list[Input]:
        """Return the fewest inputs that make up this share of the calls, most frequent first; all
        inputs where some calls are unnamed and the others are fewer than that."""
        chosen, covered = list[Input](), 0
        for problem, calls in sorted(self.calls.items(), key=lambda one: -one[1]):
            if covered >= share * self.total:
                break
            chosen.append(problem)
            covered += calls
        return chosen


def read_workload(
    path: Path, space: str, features: Sequence[str], inputs: Sequence[Input]
) -> Workload:
    """Read the calls of a space's inputs from a file; its own inputs show how it writes them.

    Raises UsageError, with the line, for a file of another space, and for what is not a workload. A
    line that was cut off, because a disk was full, is left out and noted.
    """
    try:
        text = read_text(path, _MOST_BYTES)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise UsageError(f"{path} is not a workload: it {error}") from None
    header, places, place = list[str](), list[int](), 0
    calls = Counter[Input]()
    unnamed, cut = 0, list[int]()
    types = [_type([problem[name] for problem in inputs]) for name in features]
    first = {tuple(problem[name] for name in features): problem for problem in inputs}
    for number, line in enumerate(text.split("\n"), 1):
        where = f"{path}:{number}"
        if not line.strip():
            continue
        if line.startswith("#"):
            name = line.removeprefix(TITLE).strip()
            if line.startswith(TITLE) and name != space:
                raise UsageError(f"{where}: is a workload of {printable(name)}, not of {space}")
            continue
        cells = _cells(line)
        if not header:
            header, (places, place) = cells, _columns(where, cells, space, features)
            continue
        if cells == header:  # several processes may have begun the file at once
            continue
        if len(cells) != len(header):
            cut.append(number)
            continue
        if not _CALLS.fullmatch(count := cells[place]) or not int(count):
            raise UsageError(f"{where}: `{CALLS}` must be a whole number from 1, got {_got(count)}")
        named = zip(features, places, types, strict=True)
        values = tuple(_value(f"{where}: `{n}`", cells[k], kind) for n, k, kind in named)
        if None in values:
            unnamed += int(count)
            continue
        problem = first.setdefault(values, Input(dict(zip(features, values, strict=True))))
        calls[problem] += int(count)
        if len(calls) > _MOST_INPUTS:
            raise UsageError(f"{where}: more than {_MOST_INPUTS:,} different inputs; record fewer")
    if not calls:
        raise UsageError(f"{path} has no calls; {_EXPECTED.format(','.join(features))}")
    return Workload(path, dict(calls), unnamed, tuple(_notes(path, cut, unnamed)))


_EXPECTED = (
    "expected a line with the columns `{},calls`, then a line for each input with its features and "
    "how often it came"
)


def _notes(path: Path, cut: Sequence[int], unnamed: int) -> Iterator[str]:
    if cut:
        lines = first_few(map(str, cut), ", ")
        yield f"{path}: {counted(len(cut), 'line')} cut off and left out: line {lines}"
    if unnamed:
        calls = counted(unnamed, "call")
        yield f"{path}: {calls} had a value that the dispatcher could not name: {UNKNOWN}"


def _cells(line: str) -> list[str]:
    try:
        return [cell.strip() for cell in next(csv.reader([line], strict=True))]
    except csv.Error:  # a quote that is not closed
        return []


def _columns(
    where: str, header: Sequence[str], space: str, features: Sequence[str]
) -> tuple[list[int], int]:
    """Return the columns of the features, each the first of its name, and that of the calls."""
    missing = next((name for name in features if name not in header), None)
    if missing is not None:
        raise UsageError(
            f"{where}: lacks the feature `{missing}` of {space} among the columns "
            f"{printable(', '.join(header))}; {_EXPECTED.format(','.join(features))}"
        )
    places = [header.index(name) for name in features]
    others = {name: k for k, name in enumerate(header) if k not in places}
    wanted = (CALLS, CHOICE)
    if len(places) + len(others) < len(header) or others.keys() & ({*features} - {*wanted}):
        twice = next(name for name in header if header.count(name) > 1)
        raise UsageError(f"{where}: the column `{printable(twice)}` is there twice; remove one")
    for name in (name for name in others if name not in wanted):
        hint = suggestion(name, [*wanted, *features])
        raise UsageError(f"{where}: unknown column `{printable(name)}`; {hint}")
    if CALLS not in others:
        raise UsageError(f"{where}: lacks the column `{CALLS}`, how often each input came")
    return places, others[CALLS]


def _type(values: Sequence[Value]) -> type:
    """Return str, int or float: the type of a feature among the space's inputs."""
    if any(isinstance(value, str) for value in values):
        return str
    return int if all(isinstance(value, int) for value in values) else float


def _value(what: str, text: str, kind: type) -> Value:
    if text == UNKNOWN:
        return None
    if kind is str:
        if not text.isprintable():
            raise UsageError(f"{what} must be a text of one line, got {_got(text)}")
        return text
    if kind is int:
        if not _WHOLE.fullmatch(text) or not -(2**63) <= int(text) < 2**63:
            raise UsageError(f"{what} must be a whole number of 64 bits, got {_got(text)}")
        return int(text)
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise UsageError(f"{what} must be a number, got {_got(text)}")
    return number


def _got(text: str) -> str:
    return f"`{printable(shown(text))}`" if text else "nothing"
