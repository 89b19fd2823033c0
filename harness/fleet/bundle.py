"""The user's files that a worker needs, by content, and the space that is read from them.

A worker has no checkout of the user's. It keeps each bundle in a folder named by its digest, in
which the files lie to each other as on the driver's machine.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from harness.core.errors import BackendUnavailable, UsageError
from harness.core.files import cache_folder, write_folder
from harness.core.modules import with_imports
from harness.source.kernel_source import Source
from harness.space_file import ProgramPlan, Spec
from harness.space_file.program import digest_of

MOST_BYTES = 64 << 20
"""The most that one bundle may hold; data is made by the host module on the worker."""


@dataclass(frozen=True)
class Bundle:
    """A space, and its files by their paths in the bundle, with `/` between folders.

    `spec` has the paths of these files in the bundle; `executables` may be run. `outside` has the
    digests of the other files that it names, which each machine must have.
    """

    spec: Spec
    files: Mapping[str, bytes]
    executables: tuple[str, ...]
    outside: Mapping[Path, str]

    def unpacked(self) -> Spec:
        """Return the space with the paths that its files have on this worker; write them into its
        cache where they are missing.

        Raises BackendUnavailable where this machine has other files outside.
        """
        for path, sha256 in self.outside.items():
            if not path.is_file() or digest_of(path) != sha256:
                raise BackendUnavailable(
                    f"the worker has no {path}, or another one than this machine; a file with an "
                    "absolute path must be there on each worker"
                )
        digest = hashlib.sha256("\x1f".join(self.executables).encode())
        for name, content in sorted(self.files.items()):
            digest.update(f"\x1f{name}\x1f{len(content)}\x1f".encode() + content)
        folder = cache_folder("fleet") / digest.hexdigest()
        if not folder.exists():
            write_folder(folder, self.files, executables=self.executables)
        return _moved(self.spec, folder.joinpath)


def _moved(spec: Spec, move: Callable[[Path], Path]) -> Spec:
    """Return a space whose files and folders are elsewhere."""

    def moved(source: Source) -> Source:
        includes = {move(path): text for path, text in source.includes.items()}
        folders = tuple(map(move, source.folders))
        return replace(source, path=move(source.path), includes=includes, folders=folders)

    plan = spec.program
    if plan is not None:
        sources = tuple(map(moved, plan.sources))
        folder, verify_folder = move(plan.folder), move(plan.verify_folder)
        plan = replace(plan, folder=folder, verify_folder=verify_folder, sources=sources)
    return replace(
        spec,
        path=move(spec.path),
        host=move(spec.host),
        sources={language: moved(source) for language, source in spec.sources.items()},
        program=plan,
        parameters=tuple(
            replace(p, files={n: replace(f, path=move(f.path)) for n, f in p.files.items()})
            for p in spec.parameters
        ),
    )


def pack(spec: Spec) -> Bundle:
    """Collect the files of a space, with what they include and import: those that build and verify,
    and the files of a program's inputs that do not have absolute paths.

    Raises UsageError where one is missing, or they are too large to send.
    """
    inputs = list(_files_of_inputs(spec))
    outside = [path for path in inputs if not _travels(path, spec)]
    named = [*_sources(spec), *(path for path in inputs if _travels(path, spec))]
    paths = sorted({Path(os.path.abspath(path)) for path in named})
    for path in (*paths, *outside):
        if not path.is_file():
            raise UsageError(
                f"{path}: no such file, and {spec.path} names it; add it for --cluster"
            )
    space = Path(os.path.abspath(spec.path))
    root = Path(os.path.commonpath([path.parent for path in (*paths, space)]))
    names = {path.relative_to(root).as_posix(): path for path in paths}
    sizes_bytes = {path: path.stat().st_size for path in paths}
    size_bytes = sum(sizes_bytes.values())
    if size_bytes > MOST_BYTES:
        raise UsageError(
            f"the files of {spec.path} have {size_bytes:,} bytes, and a worker takes "
            f"{MOST_BYTES:,}; the largest is {max(paths, key=sizes_bytes.__getitem__)}"
        )
    executables = tuple(name for name, path in names.items() if os.access(path, os.X_OK))
    contents = {name: path.read_bytes() for name, path in names.items()}
    # The space is not read from here: it makes the folder in which a program's paths begin.
    files = {space.relative_to(root).as_posix(): b"", **contents}
    inside = {folder for path in (*paths, space) for folder in (path, *path.parents)}

    def move(path: Path) -> Path:
        absolute = Path(os.path.abspath(path))
        is_inside = absolute in inside and absolute.is_relative_to(root)
        return absolute.relative_to(root) if is_inside else path

    digests = {path: digest_of(path) for path in outside}
    return Bundle(_moved(spec, move), files, executables, digests)


def _sources(spec: Spec) -> Iterator[Path]:
    """Yield the files that build and verify."""
    plan = spec.program
    for source in spec.sources.values() if plan is None else plan.sources:
        yield from (source.path, *source.includes)
    for file in spec.flag_files:
        file.read()
        yield file.path
    host = spec.host if plan is None else plan.host
    if host is not None:
        yield from with_imports(host)
    if plan is not None:
        commands = map(plan.folder.joinpath, _own_commands(plan))
        yield from (path for path in commands if path.is_file() and _travels(path, spec))


def _files_of_inputs(spec: Spec) -> Iterator[Path]:
    plan = spec.program
    if plan is not None:
        for problem in spec.inputs:
            yield from (*plan.files_for(problem), *filter(None, [plan.expected_file(problem)]))


def _travels(path: Path, spec: Spec) -> bool:
    """Whether a program's space names a file by a relative path."""
    plan = spec.program
    return plan is None or not path.is_absolute() or path.is_relative_to(plan.folder)


def _own_commands(plan: ProgramPlan) -> Iterator[str]:
    """Yield the programs that commands begin with by a path, relative to the space's folder."""
    first = [template.text.split() for each in (plan.build, plan.run) for template in each[:1]]
    for words in (*first, plan.model.version, plan.model.device):
        yield from (str(word) for word in (words or ())[:1] if "/" in str(word))
