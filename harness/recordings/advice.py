"""What to write where a CSV recording has no mapping."""

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


def draft_of(header: Sequence[str]) -> str:
    """A mapping for columns of these names, as YAML: what they are is guessed from their names."""
    return "".join(f"    {line}\n" for line in _lines(header))


def _lines(header: Sequence[str]) -> Iterator[str]:
    times = [name for name in header if _IS_TIME.search(name) and not _NO_TIME.search(name)]
    outcome = next((name for name in header if _OUTCOME.fullmatch(name)), None)
    message = next((name for name in header if outcome and _MESSAGE.fullmatch(name)), None)
    others = [name for name in header if name not in (*times, outcome, message)]
    yield f"parameters: [{_listed(others)}]  # leave here what was tuned"
    yield "features: []  # move here what tells inputs apart, such as sizes"
    yield "ignore: []  # and here what is neither"
    yield f"times: {{columns: [{_listed(times)}], unit: {_unit_of(times)}}}  # or s, us, ns"
    if outcome is not None:
        told = f"column: {_plain(outcome)}" + (f", message: {_plain(message)}" if message else "")
        yield f"outcome: {{{told}}}  # and ok: [WORD, ...], build_failed: [WORD, ...]"


def _unit_of(times: Sequence[str]) -> str:
    """The unit that the first of them tells; milliseconds, which most tuners write, if none."""
    told = (found[1].lower() for name in times if (found := _UNIT.search(name)))
    return next((unit for unit in told if unit in UNITS), "ms")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(_plain, names))


def _plain(name: str) -> str:
    """A name as YAML takes it for a text."""
    is_plain = _PLAIN.fullmatch(name) and name.strip() == name and name.lower() not in _WORDS
    return name if is_plain else json.dumps(printable(name))
