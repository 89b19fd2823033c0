"""Mappings: YAML files that describe the columns of a CSV recording.

name: sgemm                      # optional, as are device, features, outcome and ignore
device: GTX 680                  # optional, as are backend, platform, driver, compiler and default
parameters: [MWG, NWG]           # or each with its values: {MWG: [16, 32], NWG: [16]}
features: [m, n]
times: {columns: [run 1, run 2], unit: ms}
outcome: {column: status, message: log, ok: [passed], build_failed: [no compile]}
ignore: [date]                   # columns that may differ between rows that are repeats
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.core.errors import SpecError
from harness.core.records import Config, Outcome, Value
from harness.core.text import suggestion
from harness.recordings.columns import OWN_WORDS, Columns
from harness.recordings.recording import FACTS
from harness.recordings.t4 import UNITS
from harness.space_file import Document, read_document

_KEYS = (
    *("name", "device", *FACTS, "parameters", "default", "features", "times", "outcome", "ignore"),
)
_TIMES_KEYS = ("columns", "unit", "least", "most")
_OUTCOME_KEYS = ("column", "message", *(outcome.value for outcome in Outcome))


def read_mapping(path: Path) -> Columns:
    """Read a mapping; raises SpecError with all of its faults."""
    document = read_document(path)
    columns = _MappingReader(document).columns()
    both = [name for name in columns.ignored if name in columns.used]
    if both:
        document.fault(("ignore",), f"`ignore` names {both[0]}, but another key does too; keep one")
    if document.faults:
        raise SpecError(document.faults)
    return columns


class _MappingReader:
    def __init__(self, document: Document) -> None:
        self._document = document
        self._data: Mapping[str, Any] = document.data

    def columns(self) -> Columns:
        self._check_keys((), self._data, _KEYS)
        times, outcome = self._mapping("times"), self._mapping("outcome")
        self._check_keys(("times",), times, _TIMES_KEYS)
        self._check_keys(("outcome",), outcome, _OUTCOME_KEYS)
        unit = times.get("unit", "s")
        if not isinstance(unit, str) or unit not in UNITS:
            self._document.fault(
                ("times", "unit"), f"the unit {unit!r} is unknown; it must be {', '.join(UNITS)}"
            )
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

    def _check_keys(
        self, key_path: tuple[str, ...], found: Mapping[str, Any], known: Sequence[str]
    ) -> None:
        for key in found:
            if key not in known:
                hint = suggestion(key, known)
                self._document.fault((*key_path, key), f"the key `{key}` is unknown; {hint}")

    def _mapping(self, name: str) -> Mapping[str, Any]:
        found = self._data.get(name, {})
        if isinstance(found, dict):
            return found
        self._document.fault((name,), f"{name} must be a mapping, such as {_EXAMPLES[name]}")
        return {}

    def _text(self, key_path: tuple[str, ...], found: Mapping[str, Any], name: str) -> str | None:
        text = found.get(name)
        if text is not None and not isinstance(text, str):
            self._document.fault((*key_path, name), f"{name} must be a text, but is {text!r}")
            return None
        return text

    def _number(self, found: Mapping[str, Any], name: str, default: float) -> float:
        if name not in found:
            return default
        number = found[name]
        if isinstance(number, bool) or not isinstance(number, (int, float)) or number < 0:
            self._document.fault(("times", name), f"{name} must be a number of 0 or more")
            return default
        return number

    def _names(
        self, key_path: tuple[str, ...], found: Any, needed: bool = False
    ) -> tuple[str, ...]:
        if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
            self._document.fault(key_path, f"{key_path[-1]} must be a list of column names")
            return ()
        if needed and not found:
            key = ".".join(key_path)
            self._document.fault(key_path, f"{key} names no column; name one or more")
        return tuple(found)

    def _parameters(self) -> Mapping[str, tuple[Value, ...]]:
        found = self._data.get("parameters", [])
        if not isinstance(found, dict):
            return dict.fromkeys(self._names(("parameters",), found, needed=True), ())
        if not found:
            self._document.fault(("parameters",), "parameters names no column; name one or more")
        return {name: self._values(name, values) for name, values in found.items()}

    def _default(self, parameters: Collection[str]) -> Mapping[str, Value]:
        """Read a value for every parameter, or nothing."""
        default = self._mapping("default")
        try:
            is_whole = set(Config(default)) in (set(), set(parameters))
        except (TypeError, ValueError):
            is_whole = False
        if not is_whole:
            self._document.fault(("default",), "default must have a value for every parameter")
        return default if is_whole else {}

    def _values(self, name: str, values: Any) -> tuple[Value, ...]:
        kinds = (bool, int, float, str, type(None))
        if isinstance(values, list) and values and all(isinstance(v, kinds) for v in values):
            return tuple(values)
        self._document.fault(("parameters", name), f"{name} must be a list of its values")
        return ()

    def _words(self, outcome: Mapping[str, Any]) -> Mapping[str, Outcome]:
        """Read the words of the outcome column."""
        words: dict[str, Outcome] = {}
        for known in Outcome:
            listed = outcome.get(known.value, [])
            for word in self._names(("outcome", known.value), listed):
                words[word] = known
        return words or OWN_WORDS


_EXAMPLES = {
    "default": "{MWG: 16, NWG: 16}",
    "times": "{columns: [run 1, run 2], unit: ms}",
    "outcome": "{column: status, ok: [passed], build_failed: [no compile]}",
}
