"""The files that a space names: its kernel's source and its host module."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.core.files import nearest_file
from harness.source.kernel_source import Source, read_source, read_text
from harness.space_file.document import Document, Place
from harness.space_file.messages import told_at

HOST_FUNCTIONS = ("arguments", "reference")


@dataclass(frozen=True)
class Files:
    """The kernel's sources by language, its host module's path and that module's text."""

    sources: Mapping[str, Source]
    host: Path
    host_text: str

    @property
    def host_words(self) -> frozenset[str]:
        """The texts in the host module, such as the "BLOCK" of `config["BLOCK"]`."""
        nodes = ast.walk(ast.parse(self.host_text))
        constants = (node.value for node in nodes if isinstance(node, ast.Constant))
        return frozenset(value for value in constants if isinstance(value, str))


def check_files(document: Document, folder: Path) -> Files | None:
    """The source and the host module exist, are text, and define what they must.

    None where something is missing, which is then noted.
    """
    kernel = section(document, "kernel")
    named = dict(_named_sources(kernel.get("source")))
    read = {
        name: _source(document, place, folder / name, _functions(kernel.get("function")))
        for place, name in dict.fromkeys(named.values())
    }
    sources = {language: source for language, (_, name) in named.items() if (source := read[name])}
    host = kernel.get("host")
    if not isinstance(host, str):
        return None
    host_text = _host_text(document, folder / host)
    return None if host_text is None else Files(sources, folder / host, host_text)


def section(document: Document, key: str) -> Mapping[str, Any]:
    """A part of the file as it stands: the model tells what is wrong with its shape."""
    found = document.data.get(key)
    return found if isinstance(found, dict) else {}


def _named_sources(given: object) -> Iterator[tuple[str, tuple[Place, str]]]:
    """Each language with its source's place in the file and file name."""
    for language in ("cuda", "opencl"):
        if isinstance(given, str):
            yield language, (("kernel", "source"), given)
        elif isinstance(given, dict) and isinstance(given.get(language), str):
            yield language, (("kernel", "source", language), given[language])


def _functions(given: object) -> list[tuple[Place, str]]:
    """Each kernel with its place in the file."""
    place: Place = ("kernel", "function")
    if isinstance(given, str):
        return [(place, given)]
    listed = enumerate(given if isinstance(given, list) else ())
    return [((*place, index), name) for index, name in listed if isinstance(name, str)]


def _source(
    document: Document, place: Place, path: Path, functions: Sequence[tuple[Place, str]]
) -> Source | None:
    try:
        source = read_source(path)
    except (OSError, ValueError) as error:
        _note(document, place, f"{path} {reason(error, path)}")
        return None
    for where, function in functions:
        if not source.mentions(function):
            text = f"`{function}` does not occur in {path}; name the kernel as the source does"
            _note(document, where, text)
    return source


def _note(document: Document, place: Place, text: str) -> None:
    document.fault(place, told_at(place, text))


def reason(error: OSError | ValueError, path: Path) -> str:
    """Why a file that the space names cannot be used, to follow its path."""
    if isinstance(error, FileNotFoundError):
        near = nearest_file(path)
        hint = f" (did you mean `{near}`?)" if near else ""
        return f"does not exist{hint}; paths are relative to the space file"
    return f"cannot be read: {error.strerror}" if isinstance(error, OSError) else str(error)


def _host_text(document: Document, path: Path) -> str | None:
    """The host module's text: Python that defines its functions."""
    found = read_python(document, ("kernel", "host"), path)
    if found is None:
        return None
    text, module = found
    _check_functions(document, path, defined_in(module))
    _check_launches(document, path, defined_in(module))
    return text


def read_python(document: Document, place: Place, path: Path) -> tuple[str, ast.Module] | None:
    """The text of a Python file and its syntax tree; it is parsed, not run. None where that
    cannot be, which is then noted."""
    if path.suffix != ".py":
        _note(document, place, f"{path} is not a Python file; its name must end in .py")
        return None
    try:
        text = read_text(path)
        return text, ast.parse(text)
    except SyntaxError as error:
        _note(document, place, f"{path}:{error.lineno or 1} is not Python: {error.msg}")
    except (RecursionError, MemoryError):
        _note(document, place, f"{path} is not Python: it is nested too deep")
    except (OSError, ValueError) as error:
        _note(document, place, f"{path} {reason(error, path)}")
    return None


def _check_functions(document: Document, path: Path, defined: set[str]) -> None:
    for function in HOST_FUNCTIONS:
        if function not in defined:
            there = ", ".join(sorted(defined)) or "nothing"
            text = f"{path} must define the function `{function}`, but defines {there}"
            _note(document, ("kernel", "host"), text)


def _check_launches(document: Document, path: Path, defined: set[str]) -> None:
    """Either the space gives launch sizes or the host module tells the launches."""
    place: Place = ("launch",)
    launch, functions = document.data.get("launch"), section(document, "kernel").get("function")
    if launch == "host" and "launches" not in defined:
        text = f"`host` needs the function `launches` in {path}, which defines "
        _note(document, place, text + ", ".join(sorted(defined)))
    if isinstance(launch, dict) and "launches" in defined:
        text = f"{path} defines launches(), which tells the launches only with `launch: host`; "
        _note(document, place, text + "write that, or remove the function")
    if isinstance(launch, dict) and isinstance(functions, list):
        text = "several kernels need `launch: host`, and launches() in the host module"
        _note(document, ("kernel", "function"), text)


def defined_in(module: ast.Module) -> set[str]:
    """What a module defines or imports by name, at its top level."""
    names: set[str] = set()
    for node in module.body:
        if isinstance(node, ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names
