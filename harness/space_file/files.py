"""Read the files that a space names: its kernel's source and its host module."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.core.files import nearest_file
from harness.core.kernel_name import plain_name
from harness.source.kernel_source import Source, read_source, read_text
from harness.space_file.compiler import include_folders
from harness.space_file.document import Document, Location
from harness.space_file.model import Sources, SpaceFile

HOST_FUNCTIONS = ("arguments", "reference")


@dataclass(frozen=True)
class Files:
    """The kernel's sources by language, its host module's path and that module's text."""

    sources: Mapping[str, Source]
    host: Path
    host_text: str

    @property
    def host_words(self) -> frozenset[str]:
        """The string constants of the host module, such as the "BLOCK" of `config["BLOCK"]`."""
        nodes = ast.walk(ast.parse(self.host_text))
        constants = (node.value for node in nodes if isinstance(node, ast.Constant))
        return frozenset(value for value in constants if isinstance(value, str))


def check_files(document: Document, model: SpaceFile) -> Files | None:
    """Read the sources and the host module, and check that they define what they must.

    Returns None, and notes the fault, where something is missing.
    """
    folder = document.folder_of("kernel")
    named = {
        language: (location, folder / name, include_folders(document, model.compiler, language))
        for language, (location, name) in _named_sources(model.kernel.source)
    }
    at: Location = ("kernel", "function")
    is_alone = isinstance(model.kernel.function, str)
    functions = [
        (at if is_alone else (*at, index), plain_name(name))
        for index, name in enumerate(model.functions)
    ]
    read = {place: _source(document, *place, functions) for place in dict.fromkeys(named.values())}
    sources = {language: source for language, place in named.items() if (source := read[place])}
    host = folder / model.kernel.host
    host_text = _host_text(document, host, model)
    return None if host_text is None else Files(sources, host, host_text)


def _named_sources(source: str | Sources) -> Iterator[tuple[str, tuple[Location, str]]]:
    """Yield each language with the location and the name of its source file.

    One file is for both languages; its name says where it is for CUDA alone.
    """
    location: Location = ("kernel", "source")
    if isinstance(source, str):
        is_cuda = source.lower().endswith((".cu", ".cuh"))
        for language in ("cuda",) if is_cuda else ("cuda", "opencl"):
            yield language, (location, source)
        return
    for language, name in source:
        if name is not None:
            yield language, ((*location, language), name)


def _source(
    document: Document,
    location: Location,
    path: Path,
    folders: tuple[Path, ...],
    functions: Sequence[tuple[Location, str]],
) -> Source | None:
    try:
        source = read_source(path, folders)
    except (OSError, ValueError) as error:
        document.fault(location, f"{path} {reason(error, path)}")
        return None
    for where, word in functions:
        if not source.mentions(word):
            text = f"`{word}` does not occur in {path}; name the kernel as the source does"
            document.fault(where, text)
    return source


def reason(error: OSError | ValueError, path: Path) -> str:
    """Return why a file cannot be used, as text that follows its path."""
    if isinstance(error, FileNotFoundError):
        near = nearest_file(path)
        hint = f" (did you mean `{near}`?)" if near else ""
        return f"does not exist{hint}; paths are relative to the space file"
    return f"cannot be read: {error.strerror}" if isinstance(error, OSError) else str(error)


def _host_text(document: Document, path: Path, model: SpaceFile) -> str | None:
    """Return the host module's text, and check the functions that it defines."""
    found = read_python(document, ("kernel", "host"), path)
    if found is None:
        return None
    text, module = found
    defined = defined_in(module)
    check_functions(document, ("kernel", "host"), path, HOST_FUNCTIONS, defined)
    _check_launches(document, path, defined, model)
    return text


def read_python(
    document: Document, location: Location, path: Path
) -> tuple[str, ast.Module] | None:
    """Return the text and the syntax tree of a Python file, which is not run.

    Returns None, and notes the fault, where that fails.
    """
    if path.suffix != ".py":
        document.fault(location, f"{path} is not a Python file; its name must end in .py")
        return None
    try:
        text = read_text(path)
        return text, ast.parse(text)
    except SyntaxError as error:
        document.fault(location, f"{path}:{error.lineno or 1} is not Python: {error.msg}")
    except (RecursionError, MemoryError):
        document.fault(location, f"{path} is not Python: it is nested too deep")
    except (OSError, ValueError) as error:
        document.fault(location, f"{path} {reason(error, path)}")
    return None


def check_functions(
    document: Document, location: Location, path: Path, needed: Sequence[str], defined: set[str]
) -> None:
    """Check that a host module defines the functions that it needs."""
    there = ", ".join(sorted(defined)) or "nothing"
    for function in (function for function in needed if function not in defined):
        text = f"{path} must define the function `{function}`, but defines {there}"
        document.fault(location, text)


def _check_launches(document: Document, path: Path, defined: set[str], model: SpaceFile) -> None:
    """Check that either the space gives launch sizes or the host module gives the launches."""
    location: Location = ("launch",)
    if model.launch == "host":
        if "launches" not in defined:
            text = f"`host` needs the function `launches` in {path}, which defines "
            document.fault(location, text + ", ".join(sorted(defined)))
        return
    if "launches" in defined:
        text = f"{path} defines launches(), which is only used with `launch: host`; "
        document.fault(location, text + "write that, or remove the function")
    if len(model.functions) > 1:
        text = "several kernels need `launch: host`, and launches() in the host module"
        document.fault(("kernel", "function"), text)


def defined_in(module: ast.Module) -> set[str]:
    """Return the names that a module defines or imports at its top level."""
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
