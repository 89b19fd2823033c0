"""What is noted of a run: texts by name, some of them JSON; checked, since they may be foreign."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from harness.core.records import Config

BASELINES = "baselines"
"""The note of the named baselines: by name, what each sets beside the default; JSON."""

CONTINUED = "continued_at"
"""The note of a run when it was last gone on with, by its search or by a later stage."""

EXHAUSTED = "exhausted"
"""The note of a run whether every legal configuration of its input was measured: yes or no."""

LIMITS = "limits"
"""The note of a run of the device's numbers that constraints and launches may name; JSON."""

ABLATION = "reduced"
"""The stage of winners beside parts of them, and the note of a run of what its winner needs, as
`harness.results.ablation.Ablation` writes it; JSON."""

_JSON = (BASELINES, LIMITS, ABLATION)


def read_notes(told: object) -> dict[str, str]:
    """The notes of a run; ValueError, TypeError or AttributeError where no harness wrote them."""
    if not isinstance(told, dict):
        raise ValueError("its notes are no object")
    for name, text in told.items():
        if not isinstance(text, str):
            raise ValueError(f"its note {name!r} is no text")
        if name in _JSON:
            _check_object(name, text)
    return told


def _check_object(name: str, text: str) -> None:
    """A JSON object whose values are what the note of this name holds."""
    told = json.loads(text)
    if not isinstance(told, dict):
        raise ValueError(f"its note {name!r} is no JSON object")
    check_printable(told)
    if name == BASELINES:
        for values in told.values():
            Config(values)
    if name == LIMITS and not all(type(limit) is int for limit in told.values()):
        raise ValueError(f"its note {name!r} has a limit that is no whole number")


def check_printable(told: object) -> None:
    """Raise ValueError where a text in what JSON held could command a terminal, or is none."""
    odd = next((text for text in _texts(told) if not text.isprintable()), None)
    if odd is not None:
        raise ValueError(f"{odd[:60]!r} is not printable")


def _texts(told: object) -> Iterator[str]:
    if isinstance(told, str):
        yield told
    elif isinstance(told, list):
        for part in told:
            yield from _texts(part)
    elif isinstance(told, dict):
        yield from told
        for part in told.values():
            yield from _texts(part)


def one_line(text: str) -> str:
    """A text as a printable line: what a host module raised may hold anything."""
    line = " ".join(text.split())
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)


def last_moment(row: Mapping[Any, Any]) -> str:
    """When a row of runs was last begun, continued or ended, ISO 8601 in UTC."""
    moments = (row["started_at"], row["notes"].get(CONTINUED), row["ended_at"])
    return max(str(moment) for moment in moments if moment)
