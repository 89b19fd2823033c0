"""The user's files that a worker needs, by content, and the space that is read from them.

A worker has no checkout of the user's. It keeps each bundle in a folder named by its digest, in
which the files lie to each other as on the driver's machine.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from harness.core.errors import BackendUnavailable, UsageError
from harness.core.files import cache_folder, write_folder
from harness.core.modules import with_imports
from harness.space_file import Spec
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
        spec: Spec = _moved(self.spec, folder.joinpath)
        return spec


def _moved(value: Any, move: Callable[[Path], Path]) -> Any:
    """Return a space, or a part of one, whose files and folders are elsewhere."""
    if isinstance(value, Path):
        return move(value)
    if type(value) is tuple:
        return tuple(_moved(part, move) for part in value)
    if type(value) is dict:
        return {_moved(key, move): _moved(part, move) for key, part in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        parts = {field.name: getattr(value, field.name) for field in fields(value)}
        return replace(value, **_moved(parts, move))
    return value


def pack(spec: Spec) -> Bundle:
    """Collect the files of a space, with what they include and import: those that build and verify,
    and the files of a program's inputs that do not have absolute paths.

    Raises UsageError where one is missing, or they are too large to send.
    """
    named = list(_sources(spec))
    outside: list[Path] = []
    for path in _files_of_inputs(spec):
        if _travels(path, spec):
            named.append(path)
        else:
            outside.append(path)
    paths = sorted(set(map(_absolute, named)))
    for path in (*paths, *outside):
        if not path.is_file():
            raise UsageError(
                f"{path}: no such file, and {spec.path} names it; add it for --cluster"
            )
    space = _absolute(spec.path)
    root = Path(os.path.commonpath([space.parent, *(path.parent for path in paths)]))
    sizes_bytes = {path: path.stat().st_size for path in paths}
    size_bytes = sum(sizes_bytes.values())
    if size_bytes > MOST_BYTES:
        raise UsageError(
            f"the files of {spec.path} have {size_bytes:,} bytes, and a worker takes "
            f"{MOST_BYTES:,}; the largest is {max(paths, key=sizes_bytes.__getitem__)}"
        )
    # The space is not read from here: it makes the folder in which a program's paths begin.
    files = {space.relative_to(root).as_posix(): b""}
    executables: list[str] = []
    for path in paths:
        name = path.relative_to(root).as_posix()
        files[name] = path.read_bytes()
        if os.access(path, os.X_OK):
            executables.append(name)
    places: dict[Path, Path] = {}  # of the files and their folders, in the bundle
    for path in (space, *paths):
        for place in (path, *path.parents):
            if place.is_relative_to(root):
                places[place] = place.relative_to(root)
    digests = {path: digest_of(path) for path in outside}
    in_bundle = _moved(spec, lambda path: places.get(_absolute(path), path))
    return Bundle(in_bundle, files, tuple(executables), digests)


def _absolute(path: Path) -> Path:
    return Path(os.path.abspath(path))


def _sources(spec: Spec) -> Iterator[Path]:
    """Yield the files that build and verify."""
    plan = spec.program
    host = spec.host if plan is None else plan.host
    for source in spec.sources.values() if plan is None else plan.sources:
        yield source.path
        yield from source.includes
    for file in spec.flag_files:
        file.read()
        yield file.path
    if host is not None:
        yield from with_imports(host)
    if plan is not None:
        commands = [plan.run[0].text]
        if plan.build:
            commands.append(plan.build[0].text)
        for words in (plan.model.version, plan.model.device):
            if words:
                commands.append(words[0])
        for command in commands:
            path = plan.folder / command
            if "/" in command and path.is_file() and _travels(path, spec):
                yield path


def _files_of_inputs(spec: Spec) -> Iterator[Path]:
    plan = spec.program
    if plan is not None:
        for problem in spec.inputs:
            yield from plan.files_for(problem)
            expected = plan.expected_file(problem)
            if expected is not None:
                yield expected


def _travels(path: Path, spec: Spec) -> bool:
    """Whether a program's space names a file by a relative path."""
    plan = spec.program
    return plan is None or not path.is_absolute() or path.is_relative_to(plan.folder)
