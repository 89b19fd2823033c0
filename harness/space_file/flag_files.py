"""Flags whose values are files, such as nvcc's compiler controls: `controls: {files: packs/*.acf}`.

A value is the file's name and the first digits of its content's SHA-256: `fast.acf@3f2a9c1b04de`.
So an edited file is another value, and measurements of its old content are not taken for those of
the new. Compilers read a copy in the cache, so that an edit does not reach a run under way.

This happens in the document before it is validated, so later code sees flags with listed values.
"""

from __future__ import annotations

import ast
import contextlib
import glob
import hashlib
import itertools
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.constraints.expression import Expression
from harness.core.errors import ExpressionError, SpecError, UsageError
from harness.core.files import CACHE_ADVICE, cache_folder, mark_used, trim_folder, write_file
from harness.core.flag_file import FlagFile
from harness.core.text import counted, escaped
from harness.space_file.document import Document, Location
from harness.space_file.expressions import flag_name
from harness.space_file.files import reason, section
from harness.space_file.flag_expansion import Notice
from harness.space_file.tuned import MAX_FLAG_VALUES

if TYPE_CHECKING:
    from harness.space_file.parameters import Parameter

MAX_FILE_BYTES = 64 << 20
_MOST_MATCHES = 20_000  # `**` over a whole disk, or around a circle of links, ends here
_DIGITS = 12
_MOST_CACHE_BYTES = 1 << 30
_VALUE = re.compile(rf"(?P<name>.+)@[0-9a-f]{{{_DIGITS}}}")


def file_name(value: object) -> str | None:
    """Return the file's name in a value such as `fast.acf@3f2a9c1b04de`; None for others."""
    found = _VALUE.fullmatch(value) if isinstance(value, str) else None
    return found["name"] if found else None


@dataclass
class FoundFiles:
    """The files of a space's flags by their values, and notices about those that are left out."""

    by_value: dict[str, FlagFile] = field(default_factory=dict)
    notices: list[Notice] = field(default_factory=list)


def expand_files(document: Document, folder: Path) -> FoundFiles:
    """Put the files of every `{files: PATTERN}` into the document, as the values of the flag.

    Raises SpecError where a pattern cannot be resolved; other faults cannot be found then.
    """
    found, before = FoundFiles(), len(document.faults)
    for compiler, flags in section(document, "flags").items():
        for name, flag in flags.items() if isinstance(flags, dict) else ():
            if isinstance(flag, dict) and _is_patterns(flag.get("files")):
                _expand(document, ("flags", compiler, name), folder, found)
    if len(document.faults) > before:
        raise SpecError(document.faults)
    return found


def _is_patterns(value: object) -> bool:
    """Say whether a value has the shape of `files`; the model reports any other."""
    listed = value if isinstance(value, list) else [value]
    return bool(listed) and all(isinstance(one, str) and one for one in listed)


def _expand(document: Document, location: Location, folder: Path, found: FoundFiles) -> None:
    _, compiler, name = location
    flags = document.data["flags"][compiler]
    if compiler == "opencl":
        text = "OpenCL's compiler reads no files; `files` is for nvcc, and the flags of programs"
        document.fault_at(location, text)
        return
    paths = list(_matching(document, (*location, "files"), flags[name]["files"], folder))
    files = [file for path in paths if (file := _read(document, location, path)) is not None]
    trim_folder(_copies(), _MOST_CACHE_BYTES)  # here: it reads the whole folder
    if len(files) < len(paths) or not files:
        return
    flag = {key: value for key, value in flags[name].items() if key != "files"}
    option = _catalogued(str(compiler), str(name))
    if option is not None:
        flag.setdefault("option", option)
    distinct = _distinct(files, str(compiler), found)
    flags[name] = {"values": [file.value for file in distinct], **flag}
    found.by_value |= {file.value: file for file in distinct}
    _name_by_value(document, str(name), distinct)


def _catalogued(compiler: str, name: str) -> str | None:
    """Return how a compiler's catalogue spells a flag of files; None where it has none."""
    # Imported here, since the catalogues use this package's Document.
    from harness.space_file.flags.catalogue import catalogue_of
    from harness.space_file.flags.model import FromFiles

    with contextlib.suppress(UsageError):
        flag = catalogue_of(compiler).flags.get(flag_name(name))
        return flag.option if isinstance(flag, FromFiles) else None
    return None


# ------------------------------------------------------------------------------- what matches


def _matching(
    document: Document, location: Location, patterns: str | Sequence[str], folder: Path
) -> Iterator[Path]:
    """Yield the files that match, in the order of their names, each once."""
    paths: dict[str, Path] = {}
    for pattern in [patterns] if isinstance(patterns, str) else patterns:
        try:
            matching = _files(pattern, folder)
        except (OSError, ValueError) as error:
            document.fault_at(location, str(error))
            continue
        paths |= {os.path.realpath(path): path for path in matching}
    if len(paths) > MAX_FLAG_VALUES:
        text = f"matches {counted(len(paths), 'file')}, but a flag has at most {MAX_FLAG_VALUES:,}"
        return document.fault_at(location, f"{text} values; narrow the pattern")
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
        if path.exists() and not path.is_file():
            raise ValueError("is not a regular file")
        # Some files of /proc, such as kmsg, would keep a reader waiting for ever.
        with open(path, "rb", opener=lambda name, how: os.open(name, how | os.O_NONBLOCK)) as file:
            content = file.read(MAX_FILE_BYTES + 1)
        if content is None:
            raise ValueError("has no content yet")
        if len(content) > MAX_FILE_BYTES:
            most = f"a flag's file has at most {MAX_FILE_BYTES >> 20} MiB"
            raise ValueError(f"is too large: {most}")
    except (OSError, ValueError) as error:
        document.fault_at((*location, "files"), f"{escaped(str(path))} {reason(error, path)}")
        return None
    sha256 = hashlib.sha256(content).hexdigest()
    return FlagFile(f"{path.name}@{sha256[:_DIGITS]}", path, sha256, _copy(path, sha256, content))


def _copies() -> Path:
    return cache_folder("flag_files").absolute()


def _copy(path: Path, sha256: str, content: bytes) -> Path:
    """Return the path of a copy in the cache, under a name that any option can hold."""
    folder = _copies()
    suffix = path.suffix if re.fullmatch(r"\.\w+", path.suffix, re.ASCII) else ""
    copy = folder / f"{sha256}{suffix}"
    if copy.is_file() and copy.read_bytes() == content:
        mark_used(copy)
    else:
        write_file(copy, content, advice=CACHE_ADVICE)
    return copy


def _distinct(files: Iterable[FlagFile], compiler: str, found: FoundFiles) -> list[FlagFile]:
    """Keep one file of each content, with a notice for the others."""
    kept: dict[str, FlagFile] = {}
    for file in files:
        first = kept.setdefault(file.sha256, file)
        if first is not file:
            text = f"{file.path} is left out: its content is that of {first.path}"
            found.notices.append(Notice(compiler, text, lasting=True))
    return list(kept.values())


# ------------------------------------------------------------------------- names for values


def with_values_of_files(settings: Mapping[str, Any], flags: Iterable[Parameter]) -> dict[str, Any]:
    """Return settings in which flags may name a file alone, with the values of the flags."""
    named = {flag.name: _named(flag.values) for flag in flags if flag.role == "flag"}
    return {name: named.get(name, {}).get(value, value) for name, value in settings.items()}


def _named(values: Iterable[object]) -> dict[object, str]:
    """Return values by the name of their file, where that name has one content only."""
    pairs = [(name, str(value)) for value in values if (name := file_name(value)) is not None]
    names = Counter(name for name, _ in pairs)
    return {name: value for name, value in pairs if names[name] == 1}


def _name_by_value(document: Document, flag: str, files: Sequence[FlagFile]) -> None:
    """Let expressions and baselines name a file alone, where its name is of one content only."""
    known = _named(file.value for file in files)
    for baseline in section(document, "baselines").values():
        for name, value in list(baseline.items()) if isinstance(baseline, dict) else ():
            if flag_name(str(name)) == flag_name(flag) and value in known:
                baseline[name] = known[value]
    for holder, key in _expressions(document):
        if isinstance(holder[key], str):
            holder[key] = _with_values(holder[key], flag_name(flag), known)


def _expressions(document: Document) -> Iterator[tuple[Any, Any]]:
    """Yield each constraint and each `when` as a container and its key there."""
    listed = document.data.get("constraints")
    if isinstance(listed, list):
        yield from ((listed, index) for index in range(len(listed)))
    groups = [section(document, "parameters"), *section(document, "flags").values()]
    for group in groups:
        for tuned in group.values() if isinstance(group, dict) else ():
            if isinstance(tuned, dict) and "when" in tuned:
                yield tuned, "when"


def _with_values(text: str, flag: str, values: Mapping[object, str]) -> str:
    """Return an expression with values in place of the names of files that it compares with."""
    try:
        tree = Expression(text).tree
    except ExpressionError:
        return text  # reported later
    found = text.encode()  # syntax trees count columns in bytes
    nodes = [
        node
        for compare in ast.walk(tree)
        if isinstance(compare, ast.Compare)
        and any(isinstance(n, ast.Name) and n.id == flag for n in ast.walk(compare))
        for node in ast.walk(compare)
        if isinstance(node, ast.Constant) and node.value in values
    ]
    for node in sorted(nodes, key=lambda node: -node.col_offset):
        word = repr(values[node.value]).encode()
        found = found[: node.col_offset] + word + found[node.end_col_offset :]
    return found.decode()
