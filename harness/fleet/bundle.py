"""The user's files that a worker needs, by content: sources, headers and host modules.

A worker has no checkout of the user's. It keeps each bundle in a folder named by its digest, in
which the files lie to each other as on the driver's machine.
"""

from __future__ import annotations

import ast
import dataclasses
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import ClassVar

from harness.core.errors import UsageError
from harness.core.files import cache_folder, write_folder
from harness.core.flag_file import FlagFile
from harness.core.program import Program
from harness.core.records import Input
from harness.space_file import ProgramPlan, Spec, load_spec
from harness.space_file.templates import Template

MOST_BYTES = 64 << 20
"""The most that one bundle may hold; data is made by the host module on the worker."""

_FLAG_FILES = ".flag-files"  # no module can have such a name


@dataclass(frozen=True)
class Bundle:
    """Files by their paths in the bundle, with `/` between folders; `executables` may be run."""

    files: Mapping[str, bytes] = field(default_factory=dict, hash=False)
    executables: tuple[str, ...] = ()

    __pydantic_config__: ClassVar = {"ser_json_bytes": "base64", "val_json_bytes": "base64"}

    def __post_init__(self) -> None:
        for name in self.files:
            path = PurePosixPath(name)
            if path.is_absolute() or ".." in path.parts or "\\" in name or not path.parts:
                raise ValueError(f"{name!r} is no path inside a bundle")

    @cached_property
    def digest(self) -> str:
        """SHA-256 over the names and contents."""
        digest = hashlib.sha256()
        for name, content in sorted(self.files.items()):
            digest.update(f"{name}\x1f{len(content)}\x1f".encode() + content)
        digest.update("\x1f".join(self.executables).encode())
        return digest.hexdigest()

    def folder(self) -> Path:
        """Return the folder of this worker's cache that holds the files; write it if missing."""
        folder = bundle_folder(self.digest)
        if not folder.exists():
            write_folder(folder, self.files, executables=self.executables)
        return folder


def bundle_folder(digest: str) -> Path:
    """Return where a worker keeps the bundle of a digest."""
    if not (len(digest) == 64 and set(digest) <= set("0123456789abcdef")):
        raise ValueError(f"{digest!r} is no SHA-256")
    return cache_folder("fleet") / digest


def unpacked(program: Program, digest: str) -> Program:
    """Return a program with the paths that its folders and files have on this worker."""
    folder = bundle_folder(digest)
    return dataclasses.replace(
        program,
        include_dirs=tuple(str(folder / name) for name in program.include_dirs),
        files=tuple(dataclasses.replace(file, copy=folder / file.copy) for file in program.files),
    )


@dataclass(frozen=True)
class Packed:
    """The bundle of a space; `root` is the folder of the driver's machine that it stands for."""

    bundle: Bundle
    root: Path
    host: str

    def sent(self, program: Program) -> Program:
        """Return a program of this space with paths in the bundle."""
        return dataclasses.replace(
            program,
            include_dirs=tuple(map(self.inside, program.include_dirs)),
            files=tuple(map(_sent, program.files)),
        )

    def inside(self, path: str | Path) -> str:
        """Return the path in the bundle of a file or folder below the root."""
        return PurePosixPath(Path(os.path.abspath(path)).relative_to(self.root)).as_posix()


def pack(spec: Spec, language: str) -> Packed:
    """Collect what builds and runs of a space need: its source in a language, the headers that it
    includes, the files of its flags, its host module, and the modules of the same folder that
    this one imports.

    Raises UsageError where they are too large to send.
    """
    source = spec.sources[language]
    paths = {source.path, *source.includes, *_with_imports(spec.host)}
    files = {Path(os.path.abspath(path)) for path in paths}
    root = Path(os.path.commonpath([*(path.parent for path in files), *source.include_dirs]))
    contents = {path.relative_to(root).as_posix(): path.read_bytes() for path in sorted(files)}
    for file in spec.flag_files.values():
        file.require_copy()
        contents[_sent(file).copy.as_posix()] = file.copy.read_bytes()
    _require_small(spec, {name: len(content) for name, content in contents.items()}, root)
    host = Path(os.path.abspath(spec.host)).relative_to(root).as_posix()
    return Packed(Bundle(contents), root, host)


def pack_program(spec: Spec) -> Packed:
    """Collect the files of a space that tunes a program, from the space itself to the files of its
    inputs. A worker has those that the space names by absolute paths.

    Raises UsageError where one is missing or they are too large to send, where inputs with other
    files may be added later, and for a space of Python, without a file.
    """
    if spec.is_in_python:
        raise UsageError(
            f"{spec.path.name} was made in Python, and workers read a program's space from its "
            "file; write it to a YAML file for --cluster"
        )
    paths = sorted({Path(os.path.abspath(path)) for path in _files_of_program(spec)})
    missing = next((path for path in paths if not path.is_file()), None)
    if missing is not None:
        raise UsageError(f"{missing}: no such file, and {spec.path} names it; add it for --cluster")
    root = Path(os.path.commonpath([path.parent for path in paths]))
    names = {path.relative_to(root).as_posix(): path for path in paths}
    _require_small(spec, {name: path.stat().st_size for name, path in names.items()}, root)
    executables = tuple(name for name, path in names.items() if os.access(path, os.X_OK))
    contents = {name: path.read_bytes() for name, path in names.items()}
    space = Path(os.path.abspath(spec.path)).relative_to(root).as_posix()
    return Packed(Bundle(contents, executables), root, space)


def _files_of_program(spec: Spec) -> Iterator[Path]:
    """Yield the files that the space of a program names by relative paths, and what they include
    or import."""
    plan = spec.program
    assert plan is not None, "a space of a program"
    yield spec.path
    named = [path for source in plan.sources for path in (source.path, *source.includes)]
    for problem in _inputs_with_files(spec, plan):
        named += [*plan.files_for(problem), *filter(None, [plan.expected_file(problem)])]
    named += [file.path for file in spec.flag_files.values()]
    named += [path for path in map(plan.folder.joinpath, _own_commands(plan)) if path.is_file()]
    if plan.host is not None:
        named += _with_imports(plan.host)
    for path in named:
        if not path.is_absolute() or path.is_relative_to(plan.folder):
            yield path


def _inputs_with_files(spec: Spec, plan: ProgramPlan) -> Iterable[Input]:
    """Return the inputs whose files travel. Those of the space's file are among them, even if a
    workload takes their place, since a worker reads that file."""
    expected = getattr(plan.verify.against, "file", None)
    templates = [*plan.files, *([Template(expected)] if expected is not None else [])]
    if not any(t.names and not Path(t.text).is_absolute() for t in templates):
        return spec.inputs
    return dict.fromkeys((*spec.inputs, *load_spec(spec.path).inputs))


def _own_commands(plan: ProgramPlan) -> Iterator[str]:
    """Yield the programs that commands begin with by a path, relative to the space's folder."""
    first = [template.text.split() for each in (plan.build, plan.run) for template in each[:1]]
    sources = (source.command for _, source in plan.features)
    for words in (*first, plan.version, plan.device, *sources):
        yield from (str(word) for word in (words or ())[:1] if "/" in str(word))


def _require_small(spec: Spec, sizes_bytes: Mapping[str, int], root: Path) -> None:
    """Raise UsageError where files, by their paths below a folder, are too large to send."""
    size_bytes = sum(sizes_bytes.values())
    if size_bytes > MOST_BYTES:
        largest = max(sizes_bytes, key=sizes_bytes.__getitem__)
        raise UsageError(
            f"the files of {spec.path} have {size_bytes:,} bytes, and a worker takes "
            f"{MOST_BYTES:,}; the largest is {root / largest}"
        )


def _sent(file: FlagFile) -> FlagFile:
    """Return a flag's file with its path in a bundle."""
    path = Path(_FLAG_FILES) / file.copy.name
    return dataclasses.replace(file, path=path, copy=path)


def _with_imports(host: Path) -> Iterable[Path]:
    """Return a Python file, and all files of its folder that it imports, directly or not."""
    found: dict[Path, None] = {}
    waiting = [host]
    while waiting:
        path = waiting.pop()
        if path not in found:
            found[path] = None
            waiting += _imported(path, host.parent)
    return found


def _imported(path: Path, folder: Path) -> Iterator[Path]:
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return  # the host module's own error is clearer
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or alias.name for alias in node.names]
        else:
            continue
        for top in {name.partition(".")[0] for name in names}:
            if (folder / f"{top}.py").is_file():
                yield folder / f"{top}.py"
            elif (folder / top / "__init__.py").is_file():
                yield from (folder / top).rglob("*.py")
