"""The file that says what the columns of a CSV recording are, in YAML:

name: sgemm                      # may be left out, as may device, features, outcome and ignore
device: GTX 680                  # as may backend, platform, driver, compiler and default
parameters: [MWG, NWG]           # or each with its values: {MWG: [16, 32], NWG: [16]}
features: [m, n]
times: {columns: [run 1, run 2], unit: ms}
outcome: {column: status, message: log, ok: [passed], build_failed: [no compile]}
ignore: [date]                   # columns that may differ between rows that are repeats
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.core.errors import SpecError
from harness.core.records import Config, Outcome, Value
from harness.core.text import suggestion
from harness.recordings.recorded import FACTS
from harness.recordings.t4 import UNITS
from harness.space_file import Document, read_document

_KEYS = (
    *("name", "device", *FACTS, "parameters", "default", "features", "times", "outcome", "ignore"),
)
_TIMES_KEYS = ("columns", "unit", "least", "most")
_OUTCOME_KEYS = ("column", "message", *(outcome.value for outcome in Outcome))
OWN_WORDS: Mapping[str, Outcome] = {"": Outcome.OK, **{o.value: o for o in Outcome}}
"""What an outcome column holds where the mapping does not say: our own words."""


@dataclass(frozen=True)
class Columns:
    """What a mapping says. `parameters` has the values of a column, none where they are those
    that occur; `per_s` is how many of the unit of time make a second; a time that is not
    between `least` and `most` says that the configuration failed. For `facts` and `default` see
    Recorded."""

    title: str
    device: str
    parameters: Mapping[str, tuple[Value, ...]]
    features: tuple[str, ...]
    times: tuple[str, ...]
    per_s: float
    least: float
    most: float
    outcome: str | None
    message: str | None
    words: Mapping[str, Outcome]
    ignored: tuple[str, ...]
    facts: Mapping[str, str]
    default: Mapping[str, Value]

    @property
    def used(self) -> list[str]:
        """Every column that says something."""
        told = [name for name in (self.outcome, self.message) if name is not None]
        return [*self.features, *self.parameters, *self.times, *told]

    @property
    def named(self) -> list[str]:
        """Every column that must be there."""
        return [*self.used, *self.ignored]


def read_mapping(path: Path) -> Columns:
    """Read a mapping; raises SpecError with every fault that it has."""
    document = read_document(path)
    reader = _Reader(document)
    columns = reader.columns()
    both = [name for name in columns.ignored if name in columns.used]
    if both:
        document.fault(("ignore",), f"`ignore` names {both[0]}, which is read above; leave one out")
    if document.faults:
        raise SpecError(document.faults)
    return columns


class _Reader:
    def __init__(self, document: Document) -> None:
        self._document = document
        self._data: Mapping[str, Any] = document.data

    def columns(self) -> Columns:
        self._check_keys((), self._data, _KEYS)
        times, outcome = self._part("times"), self._part("outcome")
        self._check_keys(("times",), times, _TIMES_KEYS)
        self._check_keys(("outcome",), outcome, _OUTCOME_KEYS)
        unit = times.get("unit", "s")
        if not isinstance(unit, str) or unit not in UNITS:
            self._fault(("times", "unit"), f"the unit {unit!r} is unknown", UNITS)
        parameters = self._parameters()
        return Columns(
            title=self._text((), self._data, "name") or "",
            device=self._text((), self._data, "device") or "unknown",
            parameters=parameters,
            features=self._names(("features",), self._data.get("features", [])),
            times=self._names(("times", "columns"), times.get("columns", []), needed=True),
            per_s=UNITS.get(str(unit), 1.0),
            least=self._number(times, "least", float("-inf")),
            most=self._number(times, "most", float("inf")),
            outcome=self._text(("outcome",), outcome, "column"),
            message=self._text(("outcome",), outcome, "message"),
            words=self._words(outcome),
            ignored=self._names(("ignore",), self._data.get("ignore", [])),
            facts={n: text for n in FACTS if (text := self._text((), self._data, n))},
            default=self._default(parameters),
        )

    def _fault(self, place: Sequence[str | int], text: str, there: Sequence[str] | Any) -> None:
        self._document.fault(place, f"{text}; there are {', '.join(there)}")

    def _check_keys(
        self, place: tuple[str, ...], found: Mapping[str, Any], known: Sequence[str]
    ) -> None:
        for key in found:
            if key not in known:
                hint = suggestion(key, known)
                self._document.fault((*place, key), f"the key `{key}` is not known; {hint}")

    def _part(self, name: str) -> Mapping[str, Any]:
        found = self._data.get(name, {})
        if isinstance(found, dict):
            return found
        self._document.fault((name,), f"{name} must be a mapping, such as {_SHOWN[name]}")
        return {}

    def _text(self, place: tuple[str, ...], found: Mapping[str, Any], name: str) -> str | None:
        text = found.get(name)
        if text is not None and not isinstance(text, str):
            self._document.fault((*place, name), f"{name} must be a text, but is {text!r}")
            return None
        return text

    def _number(self, found: Mapping[str, Any], name: str, default: float) -> float:
        if name not in found:
            return default
        number = found[name]
        if isinstance(number, bool) or not isinstance(number, (int, float)) or number < 0:
            self._document.fault(("times", name), f"{name} must be a number from 0")
            return default
        return number

    def _names(self, place: tuple[str, ...], found: Any, needed: bool = False) -> tuple[str, ...]:
        if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
            self._document.fault(place, f"{place[-1]} must be a list of columns' names")
            return ()
        if needed and not found:
            self._document.fault(place, f"{'.'.join(place)} names no column; name one or more")
        return tuple(found)

    def _parameters(self) -> Mapping[str, tuple[Value, ...]]:
        found = self._data.get("parameters", [])
        if not isinstance(found, dict):
            return dict.fromkeys(self._names(("parameters",), found, needed=True), ())
        if not found:
            self._document.fault(("parameters",), "parameters names no column; name one or more")
        return {name: self._values(name, values) for name, values in found.items()}

    def _default(self, parameters: Collection[str]) -> Mapping[str, Value]:
        """A value of every parameter, or nothing."""
        default = self._part("default")
        try:
            is_whole = set(Config(default)) in (set(), set(parameters))
        except (TypeError, ValueError):
            is_whole = False
        if not is_whole:
            self._document.fault(("default",), "default must have one value of every parameter")
        return default if is_whole else {}

    def _values(self, name: str, values: Any) -> tuple[Value, ...]:
        kinds = (bool, int, float, str, type(None))
        if isinstance(values, list) and values and all(isinstance(v, kinds) for v in values):
            return tuple(values)
        self._document.fault(("parameters", name), f"{name} must have a list of its values")
        return ()

    def _words(self, outcome: Mapping[str, Any]) -> Mapping[str, Outcome]:
        """From what the outcome column says to outcomes."""
        words: dict[str, Outcome] = {}
        for known in Outcome:
            listed = outcome.get(known.value, [])
            for word in self._names(("outcome", known.value), listed):
                words[word] = known
        return words or OWN_WORDS


_SHOWN = {
    "default": "{MWG: 16, NWG: 16}",
    "times": "{columns: [run 1, run 2], unit: ms}",
    "outcome": "{column: status, ok: [passed], build_failed: [no compile]}",
}
