"""Flags whose values are files, such as nvcc's compiler controls: `controls: {files: packs/*.acf}`.

A value is the file's name. The contents count in the digest of the space, as those of its sources
do. Compilers read a copy in the cache, so that an edit does not reach a run under way.
"""

from __future__ import annotations

import glob
import hashlib
import itertools
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from harness.core.files import CACHE_ADVICE, cache_folder, mark_used, trim_folder, write_file
from harness.core.program import FlagFile
from harness.core.text import counted, escaped
from harness.source.kernel_source import read_bytes
from harness.space_file.document import Document, Location
from harness.space_file.kernel_checks import reason
from harness.space_file.tuned import MAX_FLAG_VALUES

MAX_FILE_BYTES = 64 << 20
_MOST_MATCHES = 20_000  # `**` over a whole disk, or around a circle of links, ends here
_DIGITS = 12
_MOST_CACHE_BYTES = 1 << 30


def files_of(
    document: Document, location: Location, patterns: str | Sequence[str]
) -> tuple[dict[str, FlagFile], list[str]]:
    """Return the files that match the patterns of a flag by their names, each content once, and
    notices about the others; note the faults."""
    paths = list(_matching(document, location, patterns))
    contents: dict[str, FlagFile] = {}
    files: dict[str, FlagFile] = {}
    notices = []
    for path in paths:
        file = _read(document, location, path)
        if file is None:
            continue
        first = contents.setdefault(file.sha256, file)
        if first is not file:
            notices.append(f"{path} is left out: its content is that of {first.path}")
        elif path.name in files:
            text = f"{files[path.name].path} and {path} have one name and two contents; rename one"
            document.fault(location, text)
        else:
            files[path.name] = file
    trim_folder(_copies(), _MOST_CACHE_BYTES)  # here: it reads the whole folder
    return files, notices


# ------------------------------------------------------------------------------- what matches


def _matching(
    document: Document, location: Location, patterns: str | Sequence[str]
) -> Iterator[Path]:
    """Yield the files that match, in the order of their names, each once."""
    paths: dict[str, Path] = {}
    for pattern in [patterns] if isinstance(patterns, str) else patterns:
        try:
            matching = _files(pattern, document.folder_of("flags"))
        except (OSError, ValueError) as error:
            document.fault(location, str(error))
            continue
        paths |= {os.path.realpath(path): path for path in matching}
    if len(paths) > MAX_FLAG_VALUES:
        text = f"matches {counted(len(paths), 'file')}, but a flag has at most {MAX_FLAG_VALUES:,}"
        return document.fault(location, f"{text} values; narrow the pattern")
    yield from sorted(paths.values(), key=lambda path: (path.name, str(path)))


def _files(pattern: str, folder: Path) -> list[Path]:
    """Return the files that a pattern matches, without folders; raises ValueError for none."""
    if not pattern.isprintable():
        raise ValueError(f"{pattern!r} is no pattern: it must be a text of one line")
    if pattern.count("**") > 1:
        raise ValueError(f"`{pattern}` has `**` more than once, which would take too long")
    if not glob.has_magic(pattern):
        path = folder / pattern
        if path.is_dir():
            raise ValueError(f"{path} is a folder; name its files, such as `{Path(pattern) / '*'}`")
        return [path]
    matching = glob.iglob(pattern, root_dir=folder, recursive=True)
    paths = [folder / name for name in itertools.islice(matching, _MOST_MATCHES + 1)]
    if len(paths) > _MOST_MATCHES:
        raise ValueError(f"`{pattern}` matches more than {_MOST_MATCHES:,} files; narrow it")
    files = [path for path in paths if not path.is_dir()]
    if not files:
        others = f", only {counted(len(paths), 'folder')}" if paths else ""
        where = "" if Path(pattern).is_absolute() else "; patterns are relative to the space file"
        raise ValueError(f"`{pattern}` matches no file{others}{where}")
    return files


def _read(document: Document, location: Location, path: Path) -> FlagFile | None:
    """Read a file and copy it into the cache; note the fault and return None where it cannot be."""
    try:
        if not path.name.isprintable():
            raise ValueError("has a name that is not printable; rename it")
        content = read_bytes(path, MAX_FILE_BYTES)
    except (OSError, ValueError) as error:
        document.fault(location, f"{escaped(str(path))} {reason(error, path)}")
        return None
    sha256 = hashlib.sha256(content).hexdigest()
    return FlagFile(f"{path.name}@{sha256[:_DIGITS]}", path, sha256, _copy(path, sha256, content))


def _copies() -> Path:
    return cache_folder("flag_files").absolute()


def _copy(path: Path, sha256: str, content: bytes) -> Path:
    """Return the path of a copy in the cache, under a name that any option can hold."""
    suffix = path.suffix if re.fullmatch(r"\.\w+", path.suffix, re.ASCII) else ""
    copy = _copies() / f"{sha256}{suffix}"
    if copy.is_file() and copy.read_bytes() == content:
        mark_used(copy)
    else:
        write_file(copy, content, advice=CACHE_ADVICE)
    return copy
