"""Recorded files as bytes and as JSON, within bounds; gzip is unpacked on the way.

What a file is shows in its beginning, so that a wrong one is told before any is read whole.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from array import array
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import Any, NoReturn

from harness.core.errors import RecordingError
from harness.core.text import escaped, printable

MAX_BYTES = 512 << 20
"""Of a file, unpacked. The largest recordings that are published have some 400 MB."""

MAX_NESTED = 4_000_000
"""Objects and lists in a JSON file: each takes far more memory than its two brackets."""


_GZIP = b"\x1f\x8b"
_SQLITE = b"SQLite format 3\0"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BEGINNING = 256 << 10


SPACE = "a space"


class Kind(Enum):
    """What a file is by its beginning, and YAML by its name."""

    DATABASE = "a results database"
    JSON = "JSON"
    YAML = "YAML"
    CSV = "CSV"


def printable_lines(text: str) -> str:
    """A text from a file, of several lines, that cannot command a terminal."""
    return escaped(text, "\r\n\t")


def read_bounded(path: Path) -> bytes:
    """The content of a file, unpacked; raises RecordingError for one that is none, is cut short
    or is larger than MAX_BYTES."""
    read = _unpacked(path, MAX_BYTES + 1)
    if len(read) > MAX_BYTES:
        raise RecordingError(f"{path}: has more than {MAX_BYTES:,} bytes, unpacked; split it")
    return read


def beginning_of(path: Path) -> bytes:
    """The first 256 KiB of a file, unpacked; raises RecordingError for one that is none."""
    return _unpacked(path, _BEGINNING)


def kind_of_file(path: Path) -> Kind:
    """What a file is; raises RecordingError for one that is none, or empty."""
    content = beginning_of(path)
    if not content:
        raise RecordingError(f"{path}: is empty")
    if content.startswith(_SQLITE):
        return Kind.DATABASE
    if content.removeprefix(_BYTE_ORDER_MARK).lstrip()[:1] in (b"{", b"["):
        return Kind.JSON
    return Kind.YAML if path.suffix in (".yaml", ".yml") else Kind.CSV


def known_as(path: Path) -> str | None:
    """What a file is in words, where that is something other than YAML of ours or is a space;
    None for the rest. Raises RecordingError for what is no file."""
    text = beginning_of(path).removeprefix(_BYTE_ORDER_MARK).decode("utf-8", "replace").lstrip()
    if text.startswith(_SQLITE.decode()):
        return "a results database"
    if text.startswith("{") and re.search(r'"(cache|tune_params|results)"\s*:', text):
        return "a recording in JSON"
    if re.search(r"^(kernel|program|launch|inputs|constraints)\s*:", text, re.M):
        return SPACE
    lines = (line for line in text.splitlines() if line.strip() and not line.startswith("#"))
    before, comma, _ = next(lines, "").partition(",")
    return "a CSV file" if comma and ":" not in before and "{" not in before else None


def _unpacked(path: Path, most: int) -> bytes:
    """The first so many bytes."""
    try:
        if not path.is_file():
            what = "is not a file" if path.exists() else "does not exist"
            raise RecordingError(f"{path}: {what}; name a recording")
        with path.open("rb") as file:
            is_packed = file.read(len(_GZIP)) == _GZIP
        with gzip.open(path) if is_packed else path.open("rb") as content:
            return content.read(most)
    except EOFError:
        raise RecordingError(
            f"{path}: is cut short: its gzip data has no end; fetch it again"
        ) from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise RecordingError(f"{path}: is damaged gzip data: {error}; fetch it again") from None
    except OSError as error:
        raise RecordingError(f"{path}: cannot be read: {error.strerror}") from None


def decoded(path: Path, content: bytes) -> str:
    """UTF-8 text, without a byte order mark."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise RecordingError(f"{path}:{line}: is not UTF-8 text (byte {error.start})") from None


def parse_json(path: Path, text: str) -> Any:
    """The data of a JSON text, raw samples as arrays of doubles.

    Raises RecordingError with the line, json.JSONDecodeError where the text ends too early.
    """
    if text.count("{") + text.count("[") > MAX_NESTED:
        raise RecordingError(f"{path}: holds more than {MAX_NESTED:,} objects and lists; split it")
    try:
        return json.loads(text, object_pairs_hook=_object)
    except RecursionError:
        raise RecordingError(f"{path}: is nested too deep to be a recording") from None
    except json.JSONDecodeError:
        raise
    except ValueError as error:  # a number of thousands of digits, or a key that is there twice
        raise RecordingError(f"{path}: {error}") from None


def refuse_json(path: Path, error: json.JSONDecodeError) -> NoReturn:
    """Tell where a text stops being JSON."""
    told = f"{path}:{error.lineno}: is not JSON, or cut short: {error.msg}"
    raise RecordingError(f"{told} (column {error.colno})") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {printable(twice)!r} is there twice in one object")
    for name in ("times", "runtimes"):
        found = made.get(name)
        if type(found) is list and all(type(sample) is float for sample in found):
            made[name] = array("d", found)  # a quarter of the memory
    return made


def kind_of(value: object) -> str:
    """What a JSON value is called."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, (int, float)):
        return f"the number {printable(str(value))}"
    if isinstance(value, str):
        return f"the text {printable(value)!r}"
    return "an object" if isinstance(value, dict) else "a list"


def is_list(value: object) -> bool:
    """Whether it is a list, be it packed."""
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))
