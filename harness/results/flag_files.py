"""The files that flags pass to the compiler: what runs note of them, and how a person reads it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from harness.core.records import Config
from harness.results.notes import FLAG_FILES
from harness.space_file import Spec


def files_note(spec: Spec, earlier: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the note of a space's files and those of a run's `earlier` notes; none without files.

    By flag and value, it has the `option` that passes the file, with its path, and its `sha256`.
    """
    found = _noted(earlier or {})
    for flag in spec.parameters:
        files = (spec.flag_files.get(value) for value in flag.values if isinstance(value, str))
        for file in (file for file in files if file is not None):
            words = (
                word.replace("{value}", str(file.path)) for word in (flag.option or "").split()
            )
            noted = {"option": shlex.join(words), "sha256": file.sha256}
            found.setdefault(flag.name, {})[file.value] = noted
    return {FLAG_FILES: json.dumps(found)} if found else {}


def _noted(notes: Mapping[str, str]) -> dict[str, dict[str, Mapping[str, str]]]:
    found: dict[str, dict[str, Mapping[str, str]]] = json.loads(notes.get(FLAG_FILES, "{}"))
    return found


@dataclass(frozen=True)
class NotedFile:
    """A file that a value of a flag passes to the compiler: by an option, with its path."""

    flag: str
    value: str
    option: str
    sha256: str


def noted_files(notes: Iterable[Mapping[str, str]]) -> list[NotedFile]:
    """Return the files that the notes of runs name, each once, as the last run names it."""
    texts = dict.fromkeys(each[FLAG_FILES] for each in notes if FLAG_FILES in each)
    found = {
        (flag, value): NotedFile(flag, value, file["option"], file["sha256"])
        for text in texts
        for flag, files in _noted({FLAG_FILES: text}).items()
        for value, file in files.items()
    }
    return list(found.values())


def file_lines(notes: Iterable[Mapping[str, str]], configs: Iterable[Config]) -> Iterator[str]:
    """Say which option passes each file that these configurations use, and what its content is.

    `notes` are those of the runs that measured them.
    """
    used = {(name, value) for config in configs for name, value in config.items()}
    for file in noted_files(notes):
        if (file.flag, file.value) in used:
            named = f"{file.flag}={file.value}"
            yield f"{named} is {file.option}; the file's SHA-256 is {file.sha256}."
