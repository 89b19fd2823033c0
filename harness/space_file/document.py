"""Read YAML as plain data with the line of every value.

YAML 1.2's plain values are read, as editors read them: `1e-4` is a number, `on` is a text and
`016` is sixteen. There are no tags, no duplicate keys, and no more than MAX_NODES values after
aliases are expanded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import yaml
from yaml.composer import Composer
from yaml.resolver import BaseResolver

from harness.core.errors import Fault, SpecError
from harness.core.text import escaped
from harness.source.kernel_source import read_text

try:
    from yaml._yaml import CParser
except ImportError:
    raise ImportError(
        "PyYAML was built without libyaml; install libyaml's headers (libyaml-dev), then "
        "`pip install --force-reinstall --no-cache-dir PyYAML`"
    ) from None

MAX_NODES = 1_000_000
"""Enough for 10^5 inputs of nine features."""

MAX_BYTES = 32 << 20
MAX_DIGITS = 100
MAX_TEXT = 1000

PAGE = "docs/reference/space.md shows what a space looks like"

Location = tuple[str | int, ...]
"""The keys and list indices that lead to a value in a document."""


def located(location: Location, text: str) -> str:
    """Return the text of a fault behind the keys that lead to the value."""
    return f"{'.'.join(map(str, location))}: {text}" if location else text


@dataclass
class Document:
    """The data of a YAML file, and the 1-based line of each value by its location.

    Data that was given in Python has no lines. `inherited` has the files of the keys that
    `extends` brings in.
    """

    path: str
    data: Any = None
    lines: dict[Location, int] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    inherited: dict[str | int, str] = field(default_factory=dict)

    def path_of(self, location: Location) -> Path:
        """Return the path of the file that gives this value."""
        return Path(self.inherited.get(location[0], self.path) if location else self.path)

    def folder_of(self, key: str) -> Path:
        """Return the folder that paths under this key are relative to."""
        return self.path_of((key,)).parent

    def line_of(self, location: Iterable[str | int]) -> int:
        """Return the line of a value, or of the innermost value around it that has a line."""
        keys = tuple(location)
        while keys and keys not in self.lines:
            keys = keys[:-1]
        return self.lines.get(keys, 0)

    def fault(self, location: Location, text: str, key: str | None = None) -> None:
        """Note a fault of the value at this location, or of a key in it, behind the keys that lead
        to the value."""
        at = location if key is None else (*location, key)
        self.faults.append(_fault(self.path_of(at), located(location, text), self.line_of(at)))


def _fault(path: Path | str, text: str, line: int = 0) -> Fault:
    # Names and values come from the file: they must not break the line or control the terminal.
    text = text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]} ..."
    return Fault(str(path), line, escaped(text))


def _whole(path: Path | str, text: str, line: int = 0) -> SpecError:
    return SpecError([_fault(path, text, line)])


def read_document(path: Path) -> Document:
    """Read a YAML file; raises SpecError when it is not a readable YAML mapping."""
    document = Document(str(path))
    try:
        document.data = _NodeReader(document).build(_compose(_read(path), path), ())
    except RecursionError:
        text = "is nested too deep, or contains itself through an alias (*name)"
        raise _whole(path, text) from None
    if not isinstance(document.data, dict):
        found = "a list" if isinstance(document.data, list) else "a single value"
        raise _whole(path, f"must be a mapping of keys to values, but is {found}; {PAGE}", 1)
    return document


def read_space(path: Path) -> Document:
    """Read a space file with the keys of the file that it extends; raises SpecError."""
    return _extended(read_document(path), (path,))


def python_space(data: Mapping[str, object], path: Path) -> Document:
    """Return the document of a space that is given in Python; `path` names it in messages."""
    return _extended(Document(str(path), _plain_data(data)), (path,))


def _extended(document: Document, chain: tuple[Path, ...]) -> Document:
    """Add the keys, but for its name, that a document lacks and the file that it extends has."""
    named = document.data.get("extends")
    if not isinstance(named, str):
        return document  # the model reports what is no text
    path = chain[-1].parent / named
    if path.resolve() in {other.resolve() for other in chain}:
        files = ", ".join(map(str, (*chain, path)))
        document.fault(("extends",), f"is circular: {files}; remove one `extends`")
    elif not path.is_file():
        why = "is a folder" if path.is_dir() else "does not exist"
        text = f"{path} {why}{_spaces_there(path)}; paths are relative to the space file"
        document.fault(("extends",), text)
    if document.faults:
        raise SpecError(document.faults)
    base = _extended(read_document(path), (*chain, path))
    missing = base.data.keys() - document.data.keys() - {"name"}
    document.data |= {key: value for key, value in base.data.items() if key in missing}
    document.lines |= {at: line for at, line in base.lines.items() if at and at[0] in missing}
    document.inherited = {key: base.inherited.get(key, str(path)) for key in missing}
    document.faults += base.faults
    return document


def _plain_data(value: object) -> Any:
    """Turn a Python value into the data of a YAML file: numbers of other libraries, paths, and
    iterables. The model of a space reports what is left."""
    if isinstance(value, (bool, str)):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value)
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {key: _plain_data(item) for key, item in value.items()}
    return [_plain_data(item) for item in value] if isinstance(value, Iterable) else value


def _read(path: Path) -> str:
    try:
        return read_text(path, MAX_BYTES)
    except FileNotFoundError:
        raise _whole(path, f"does not exist{_spaces_there(path)}") from None
    except OSError as error:
        raise _whole(path, f"cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise _whole(path, str(error)) from None


def _spaces_there(path: Path) -> str:
    there = sorted(p.name for p in path.parent.glob("*.y*ml")) if path.parent.is_dir() else []
    return f"; in {path.parent} there are {', '.join(there[:8])}" if there else ""


_PLAIN = {
    # YAML 1.2's core schema: tag, pattern, possible first characters
    "null": (r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    "bool": (r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    "int": (r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", list("-+0123456789")),
    "float": (
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        list("-+.0123456789"),
    ),
}
_TAG = "tag:yaml.org,2002:"


class _Loader(Composer, CParser, BaseResolver):
    """Reads YAML 1.2's plain values, unlike PyYAML's loaders, for which `1e-4` is a text.

    The parser is libyaml's, which takes a twentieth of the time of PyYAML's own. The nodes are
    composed in Python: libyaml's composer crashes where a file is nested 50,000 deep.
    """

    def __init__(self, text: str) -> None:
        CParser.__init__(self, text)
        Composer.__init__(self)
        BaseResolver.__init__(self)


for _kind, (_pattern, _first) in _PLAIN.items():
    _Loader.add_implicit_resolver(_TAG + _kind, re.compile(rf"^(?:{_pattern})$"), _first)


def _compose(text: str, path: Path) -> yaml.Node:
    try:
        root: yaml.Node | None = _Loader(text).get_single_node()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        message = f"is not YAML: {_problem(error, text)}"
        raise _whole(path, message, mark.line + 1 if mark else 0) from None
    except yaml.reader.ReaderError as error:
        line = text.encode().count(b"\n", 0, error.position) + 1
        message = f"is not YAML: the character #x{error.character:02x} is not allowed in it"
        raise _whole(path, message, line) from None
    if root is None:
        raise _whole(path, f"is empty; {PAGE}")
    return root


def _problem(error: yaml.MarkedYAMLError, text: str) -> str:
    """Return the parser's message, and for the commonest mistakes the remedy."""
    problem = str(error.problem or error.context)
    if "cannot start any token" in problem and error.problem_mark is not None:
        character = text[error.problem_mark.index]
        if character == "\t":
            return "a tab is used for indentation; indent with spaces"
        return f"found character {character!r} that cannot start any token"
    if "another document" in problem:
        return "a file holds one space, but after --- another document begins"
    if error.context is None or error.context_mark is None or error.problem is None:
        return problem
    return f"{problem}, {error.context} that begins on line {error.context_mark.line + 1}"


class _NodeReader:
    """Turns YAML nodes into data."""

    def __init__(self, document: Document) -> None:
        self._document = document

    def build(self, node: yaml.Node, location: Location) -> Any:
        """Return the data of a node."""
        line = node.start_mark.line + 1
        self._document.lines.setdefault(location, line)
        if len(self._document.lines) > MAX_NODES:
            text = f"has more than {MAX_NODES:,} values, counting what each alias (*name) repeats"
            raise _whole(self._document.path, text, line)
        kind = self._kind(node)
        if kind == "map":
            return self._mapping(node, location)
        if kind == "seq":
            return [self.build(item, (*location, k)) for k, item in enumerate(node.value)]
        if kind == "int" and len(node.value) > MAX_DIGITS:
            message = f"a number of {len(node.value):,} digits is too large"
            raise _whole(self._document.path, message, line)
        if kind in _PLAIN and not re.fullmatch(_PLAIN[kind][0], node.value):
            message = f"{node.value!r} is not what its tag !!{kind} says; write plain values"
            raise _whole(self._document.path, message, line)
        return _value(kind, node.value)

    def _kind(self, node: yaml.Node) -> str:
        """Return what a node is: map, seq, str, or a kind of plain value."""
        kind: str = node.tag.removeprefix(_TAG)
        if kind not in (
            *_PLAIN,
            *("str" if isinstance(node, yaml.ScalarNode) else "map seq").split(),
        ):
            tag = node.tag.replace(_TAG, "!!")
            text = f"the YAML tag {tag} is not allowed; write plain values"
            raise _whole(self._document.path, text, node.start_mark.line + 1)
        return kind

    def _mapping(self, node: yaml.Node, location: Location) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key, line, kind = key_node.value, key_node.start_mark.line + 1, self._kind(key_node)
            inner: Location = (*location, key) if kind == "str" else location
            message = None
            if kind in ("map", "seq"):
                message = "a list or mapping is used as a key; keys are names"
            elif kind != "str":
                read_as = {"null": "nothing", "bool": "true or false"}.get(kind, "a number")
                message = f"the key `{key}` is not a text, YAML reads it as {read_as}; "
                message += "keys are names"
            elif key == "<<":
                message = "YAML's merge key << is not expanded; write the keys out"
            elif key in mapping:
                first = self._document.lines[inner]
                message = f"`{key}` is there twice, first on line {first}; give it once"
            if message is not None:
                self._document.faults.append(_fault(self._document.path, message, line))
                continue
            self._document.lines[inner] = line
            mapping[key] = self.build(value_node, inner)
        return mapping


def _value(kind: str, text: str) -> bool | int | float | str | None:
    if kind == "null":
        return None
    if kind == "bool":
        return text.lower() == "true"
    if kind == "int":
        return int(text, 0 if text[:2] in ("0x", "0o") else 10)
    if kind == "float":
        # Python has no dot before inf and nan.
        return float(re.sub(r"\.(?=[inIN])", "", text))
    return text
