"""The notes of a run: texts by name, some of them JSON, checked as they may come from anywhere."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from harness.core.records import DEVICE_UUID, OTHER_PROCESSES, Config, Statistic
from harness.core.text import escaped
from harness.results.ablation import Ablation
from harness.results.schema import ABLATION

BASELINES = "baselines"
"""The note of the named baselines: by name, what each sets that differs from the default; JSON."""

STATISTIC = "statistic"
"""The note of what makes one time of samples, a `Statistic`; without it the median does."""

CONTINUED = "continued_at"
"""The note of when a run was last continued, by its search or by a later stage."""

ENDED = "ended"
"""The note that says why a run's search ended by itself, a `harness.search.EndReason`."""

DATA_SEED = "data_seed"
"""The note of the seed of the data on which an input's finals are measured."""

EXHAUSTED = "exhausted"
"""The note that says whether every legal configuration of the input was measured: yes or no."""

LIMITS = "limits"
"""The note of the device limits that constraints and launches may name; JSON."""

LAUNCH_LIMITS = "launch_limits"
"""The note of the constraints of a device on launches, each with the limit in words; JSON."""

SPACE_FILE = "space_file"
"""The note of the path of the space's file, as the command that tuned it named it."""

FLAG_FILES = "flag_files"
"""The note of the files that flags pass to the compiler, by flag and value; JSON
(harness.results.flag_files)."""

RERUN = "rerun"
"""The technique of the runs of `harness.compare --rerun`, which searches nothing."""

COMPARED = {"BASE": "rerun_base", "CANDIDATE": "rerun_candidate"}
"""The notes of which databases a rerun compares, by their side."""

RECORD, OPENTUNER, LOST = "record", "OpenTuner", "OpenTuner, of a run by harness"
"""The note of a run that harness read from OpenTuner's record, and what it holds: whether OpenTuner
made the run alone, or harness's own tables of it are lost."""

OBJECTIVE = "objective"
"""The note of the objective of a run of OpenTuner's."""

WARM_START = "warm_start"
"""The note of the results of other devices that a search started from; JSON
(harness.results.other_devices)."""

_JSON = (BASELINES, LIMITS, LAUNCH_LIMITS, ABLATION, FLAG_FILES)
_STATISTICS = tuple(statistic.value for statistic in Statistic)


def devices_of(notes: Iterable[Mapping[str, str]]) -> list[str]:
    """Return the UUIDs of the devices that measured, of the notes of runs and environments."""
    texts = (each.get(DEVICE_UUID, "") for each in notes)
    return list(dict.fromkeys(uuid for text in texts for uuid in text.split()))


def device_notes(*notes: Mapping[str, str]) -> dict[str, str]:
    """Return the notes of all devices that these notes name, and of others' processes on them; none
    where they name none."""
    uuids = devices_of(notes)
    others = "; ".join(filter(None, (each.get(OTHER_PROCESSES) for each in notes))).split("; ")
    found = {DEVICE_UUID: " ".join(uuids), OTHER_PROCESSES: "; ".join(dict.fromkeys(others))}
    return {name: text for name, text in found.items() if text}


def read_notes(notes: object) -> dict[str, str]:
    """Check and return the notes of a run.

    Raises ValueError, TypeError or AttributeError where harness did not write them.
    """
    if not isinstance(notes, dict):
        raise ValueError("its notes are no object")
    for name, text in notes.items():
        if not isinstance(text, str):
            raise ValueError(f"its note {name!r} is no text")
        _check_note(name, text)
    if ABLATION in notes:
        Ablation.from_json(notes[ABLATION])
    return notes


def _check_note(name: str, text: str) -> None:
    """Raise ValueError where a text is not what the note of this name holds."""
    if name in _JSON:
        _check_object(name, text)
    if name == STATISTIC and text not in _STATISTICS:
        raise ValueError(f"its note {name!r} is {text!r}; it must be {' or '.join(_STATISTICS)}")
    if name == DATA_SEED and not (text.isascii() and text.isdecimal()):
        raise ValueError(f"its note {name!r} is no whole number")


def _check_object(name: str, text: str) -> None:
    """Raise ValueError where a text is not the JSON object that the note of this name holds."""
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError(f"its note {name!r} is no JSON object")
    check_printable(found)
    if name == BASELINES:
        for values in found.values():
            Config(values)
    if name == FLAG_FILES:
        for value in found.values():
            for file in value.values():
                _check_texts(file, "option", "sha256")
    if name == LIMITS and not all(type(limit) is int for limit in found.values()):
        raise ValueError(f"its note {name!r} has a limit that is no whole number")


def _check_texts(found: Mapping[str, object], *keys: str) -> None:
    """Raise ValueError where an object has not a text at each key."""
    wrong = [key for key in keys if not isinstance(found.get(key), str)]
    if wrong:
        raise ValueError(f"{wrong[0]!r} is no text")


def check_printable(data: object) -> None:
    """Raise ValueError where a text in JSON data could control a terminal."""
    odd = next((text for text in _texts(data) if not text.isprintable()), None)
    if odd is not None:
        raise ValueError(f"{odd[:60]!r} is not printable")


def _texts(data: object) -> Iterator[str]:
    if isinstance(data, str):
        yield data
    elif isinstance(data, list):
        for part in data:
            yield from _texts(part)
    elif isinstance(data, dict):
        yield from data
        for part in data.values():
            yield from _texts(part)


def one_line(text: str) -> str:
    """Return a text as one printable line; an error of a host module may hold anything."""
    return escaped(" ".join(text.split()))


def last_moment(row: Mapping[Any, Any]) -> str:
    """Return when a run was last begun, continued or ended, from its row; ISO 8601 in UTC."""
    moments = (row["started_at"], row["notes"].get(CONTINUED), row["ended_at"])
    return max(str(moment) for moment in moments if moment)
