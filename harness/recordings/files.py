"""Recorded files as bytes and as JSON, within bounds. gzip is unpacked.

The first bytes show the kind of a file, so a wrong file is refused before any is read completely.
"""

from __future__ import annotations

import gzip
import json
import zlib
from array import array
from enum import Enum
from pathlib import Path
from typing import Any

from harness.core.errors import RecordingError
from harness.core.text import escaped, printable

MAX_BYTES = 512 << 20
"""The largest file, unpacked. The largest published recordings have some 400 MB."""

MAX_NESTED = 4_000_000
"""The most objects and lists of a JSON file: each takes far more memory than its two brackets."""


_GZIP = b"\x1f\x8b"
_SQLITE = b"SQLite format 3\0"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BEGINNING = 256 << 10


class FileKind(Enum):
    """The kind of a file, by its name and its first bytes."""

    DATABASE = "a results database"
    JSON = "JSON"
    YAML = "YAML"
    CSV = "CSV"


def printable_lines(text: str) -> str:
    """Escape a text, so that it cannot command a terminal; keep line breaks and tabs."""
    return escaped(text, "\r\n\t")


def recording_name(path: Path) -> str:
    """Return the file's name without its endings, in the letters that space names use."""
    stem = path.name.split(".")[0]
    return "".join(c if c.isascii() and c.isalnum() else "_" for c in stem)[:100] or "recording"


def read_bounded(path: Path) -> bytes:
    """Read a whole file, unpacked.

    Raises RecordingError where there is no file, or it is cut short or larger than MAX_BYTES.
    """
    read = _unpacked(path, MAX_BYTES + 1)
    if len(read) > MAX_BYTES:
        raise RecordingError(f"{path}: has more than {MAX_BYTES:,} bytes, unpacked; split it")
    return read


def file_kind(path: Path) -> FileKind:
    """Return the kind of a file; raises RecordingError where there is none, or it is empty."""
    content = _unpacked(path, _BEGINNING)
    if not content:
        raise RecordingError(f"{path}: is empty")
    if content.startswith(_SQLITE):
        return FileKind.DATABASE
    if path.suffix in (".yaml", ".yml"):
        return FileKind.YAML
    text = content.removeprefix(_BYTE_ORDER_MARK).decode("utf-8", "replace").lstrip()
    if text[:1] in ("{", "["):
        return FileKind.JSON
    lines = (line for line in text.splitlines() if line.strip() and not line.startswith("#"))
    before, comma, _ = next(lines, "").partition(",")
    is_table = ".csv" in path.suffixes or (comma and ":" not in before)
    return FileKind.CSV if is_table else FileKind.YAML


def mapping_beside(path: Path) -> Path:
    """Return the path of a CSV file's mapping: the same name, ending in .mapping.yaml."""
    return path.with_name(path.name.removesuffix(".gz")).with_suffix(".mapping.yaml")


def _unpacked(path: Path, most: int) -> bytes:
    """Read at most so many bytes."""
    try:
        if not path.is_file():
            what = "is not a file" if path.exists() else "does not exist"
            raise RecordingError(f"{path}: {what}; name a recording")
        with path.open("rb") as file:
            is_packed = file.read(len(_GZIP)) == _GZIP
        with gzip.open(path) if is_packed else path.open("rb") as content:
            return content.read(most)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        what = "is gzip data that is damaged or cut short"
        raise RecordingError(f"{path}: {what}: {error}; fetch it again") from None
    except OSError as error:
        raise RecordingError(f"{path}: cannot be read: {error.strerror}") from None


def parse_json(path: Path, content: bytes) -> Any:
    """Parse JSON, raw samples as arrays of doubles; raises RecordingError for what no recording
    contains."""
    try:
        text = content.decode("utf-8-sig")
        if text.count("{") + text.count("[") > MAX_NESTED:
            raise ValueError(f"holds more than {MAX_NESTED:,} objects and lists; split it")
        return json.loads(text, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        where = f"{path}:{error.lineno}"
        reason = f"{error.msg} (column {error.colno})"
    except RecursionError:
        where = str(path)
        reason = "it is nested too deep"
    except UnicodeDecodeError as error:
        where = f"{path}:{content.count(10, 0, error.start) + 1}"
        reason = f"it is not UTF-8 text (byte {error.start})"
    except ValueError as error:  # a number of thousands of digits, or a key that is there twice
        raise RecordingError(f"{path}: {error}") from None
    raise RecordingError(f"{where}: is not JSON, or cut short: {reason}")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {printable(twice)!r} is there twice in one object")
    for name in ("times", "runtimes"):
        found = data.get(name)
        if type(found) is list and all(type(sample) is float for sample in found):
            data[name] = array("d", found)  # a quarter of the memory
    return data
