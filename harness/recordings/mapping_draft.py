"""A draft of the mapping that a CSV recording needs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

from harness.core.text import printable
from harness.recordings.t4 import UNITS

_IS_TIME = re.compile(
    r"time|runtime|duration|latency|elapsed|^run\b|(^|_|\()(s|ms|us|ns)\)?$", re.I
)
_NO_TIME = re.compile(r"compil|build|stamp|date|unit", re.I)
_UNIT = re.compile(r"(?:^|[^a-z])(s|ms|us|ns|seconds|milliseconds)(?![a-z])", re.I)
_OUTCOME = re.compile(r"outcome|status|invalidity|result|error", re.I)
_MESSAGE = re.compile(r"message|log|reason", re.I)
_PLAIN = re.compile(r"[A-Za-z_][\w ()./%-]*")
_WORDS = ("true", "false", "null")


def draft_mapping(header: Sequence[str]) -> str:
    """Draft a mapping as YAML, guessed from the columns' names."""
    return "".join(f"    {line}\n" for line in _lines(header))


def _lines(header: Sequence[str]) -> Iterator[str]:
    times = [name for name in header if _IS_TIME.search(name) and not _NO_TIME.search(name)]
    outcome = next((name for name in header if _OUTCOME.fullmatch(name)), None)
    message = next((name for name in header if outcome and _MESSAGE.fullmatch(name)), None)
    others = [name for name in header if name not in (*times, outcome, message)]
    yield f"parameters: [{_listed(others)}]  # keep here what was tuned"
    yield "features: []  # move here what distinguishes inputs, such as sizes"
    yield "ignore: []  # move here what is neither"
    yield f"times: {{columns: [{_listed(times)}], unit: {_unit_of(times)}}}  # or s, us, ns"
    if outcome is not None:
        columns = f"column: {_plain(outcome)}" + (
            f", message: {_plain(message)}" if message else ""
        )
        yield f"outcome: {{{columns}}}  # add ok: [WORD, ...], build_failed: [WORD, ...]"


def _unit_of(times: Sequence[str]) -> str:
    """Return the first unit among the names, else milliseconds, which most tuners write."""
    units = (found[1].lower() for name in times if (found := _UNIT.search(name)))
    return next((unit for unit in units if unit in UNITS), "ms")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(_plain, names))


def _plain(name: str) -> str:
    """Quote a name where YAML would not read it as this text."""
    is_plain = _PLAIN.fullmatch(name) and name.strip() == name and name.lower() not in _WORDS
    return name if is_plain else json.dumps(printable(name))
