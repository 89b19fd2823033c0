"""Build several programs at once, each of them once, keep them on disk, and remember failures.

Several devices may share one queue, each from a thread of its own. A build's key covers source,
includes, options, compiler version and device, so that an entry on disk is never stale. An entry
begins with a digest of itself: one that is truncated, changed or under another key is ignored. So
is one for which the compiler read a file that has changed.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import stat
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cached_property, partial
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from harness.core.errors import BuildFailed
from harness.core.files import CACHE_ADVICE, cache_folder, write_file
from harness.core.machine import spare_cores
from harness.core.program import Binary
from harness.core.records import Build
from harness.measure.process.child import Child, ChildLost
from harness.measure.process.run_folder import require_room

_FORMAT = b"harness-build-6"  # format 5 did not keep which files the compiler read

_MOST_BYTES = 2 << 30


class BuildCache:
    """Binaries by key; each is one file: format, digest of the rest, JSON of the build, binary."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or cache_folder("builds")

    def get(self, key: str) -> Binary | None:
        """Return the binary of this key, marked as cached; None without a valid entry."""
        try:
            content = self._file(key).read_bytes()
        except OSError:
            return None
        head, _, rest = content.partition(b"\n")
        if head != _head(rest):
            return None
        record, _, data = rest.partition(b"\n")
        try:
            entry = json.loads(record)
            build, read = Build(**entry["build"]), tuple(map(tuple, entry["read"]))
        except (KeyError, TypeError, ValueError):  # another version of harness wrote it, or none
            return None
        if build.key != key or digests(path for path, _ in read) != read:
            return None
        with suppress(OSError):  # a cache that cannot be written is read all the same
            os.utime(self._file(key))
        return Binary(dataclasses.replace(build, cached=True), data, read)

    def put(self, binary: Binary) -> None:
        """Keep a binary under its build's key; raises UsageError where it cannot be written."""
        build = dataclasses.asdict(binary.build)
        record = json.dumps({"build": build, "read": binary.read}).encode()
        rest = record + b"\n" + binary.data
        target = self._file(binary.build.key)
        content = _head(rest) + b"\n" + rest
        write_file(target, content, advice=CACHE_ADVICE, parents=True)

    def trim(self, most_bytes: int = _MOST_BYTES) -> None:
        """Remove the binaries that were unused longest, of more than 2 GiB; those that cannot be
        removed stay."""
        files = []
        for path in self._folder.rglob("*"):
            with suppress(OSError):  # it is gone by now
                status = path.lstat()
                if stat.S_ISREG(status.st_mode):
                    files.append((status.st_mtime_ns, path, status.st_size))
        size_bytes = sum(size for *_, size in files)
        for _, path, own_bytes in sorted(files):
            if size_bytes <= most_bytes:
                return
            with suppress(OSError):
                path.unlink()
                size_bytes -= own_bytes

    def _file(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key}.bin"


def digests(paths: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Return files with the SHA-256 of each, empty where it cannot be read."""
    return tuple((path, _digest(path)) for path in paths)


def _digest(path: str) -> str:
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError:
        return ""


def _head(rest: bytes) -> bytes:
    return _FORMAT + b" " + hashlib.sha256(rest).hexdigest().encode()


BUILD_TIMEOUT_S = 150.0
"""Longer than nvcc's own limit, at which nvcc's children are ended as well."""

_GRACE_S = 5.0


class _Buildable(Protocol):
    """Anything that a compiler can build."""

    @property
    def timeout_s(self) -> float | None:
        """The seconds that a build may take; None for the compiler's default."""

    def key(self, compiler: str) -> str:
        """Return the build cache's key under a compiler and its target."""


B = TypeVar("B", bound=_Buildable)
B_contra = TypeVar("B_contra", bound=_Buildable, contravariant=True)


class _CompilerOf(Protocol[B_contra]):
    """Compiles one kind of program."""

    def compile(self, program: B_contra, /) -> Binary:
        """Compile; raises BuildFailed."""


class _BackendOf(Protocol[B_contra]):
    """Opens a compiler; a backend is sent to the builder processes."""

    def open_compiler(self) -> _CompilerOf[B_contra]:
        """Open the compiler in this process; raises BackendUnavailable."""


class _BuildWorker(Generic[B]):
    """Compile in a builder process. The compiler is opened at the first build."""

    def __init__(self, backend: _BackendOf[B]) -> None:
        self._backend = backend

    @cached_property
    def _compiler(self) -> _CompilerOf[B]:
        return self._backend.open_compiler()

    def compile(self, program: B) -> Binary:
        """Compile, and keep the binary in the build cache.

        Raises BuildFailed, or OSError where the temporary folder is full.
        """
        try:
            binary = self._compiler.compile(program)
        except BuildFailed:
            require_room()
            raise
        BuildCache().put(binary)
        return binary


class BuildQueue(Generic[B]):
    """The builds of one run: on disk, under way, or failed.

    `compiler` is the identity of the compiler, a part of the build cache's keys. `at_once`
    processes compile, by default one less than there are cores.
    """

    def __init__(self, backend: _BackendOf[B], compiler: str, at_once: int | None = None) -> None:
        self._compiler = compiler
        self._cache = BuildCache()
        self._cache.trim()
        count = at_once or max(1, spare_cores())
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="harness-builds")
        self._children = [Child(partial(_BuildWorker, backend)) for _ in range(count)]
        self._idle = self._children.copy()
        self._builds: dict[str, Future[Binary]] = {}
        self._changed = threading.Condition()
        self._under_way = 0
        self._undisturbed = 0  # blocks in which nothing may compile
        self._waiting = 0  # threads with a build that waits for the end of these blocks
        self._is_closed = False

    def start(self, program: B) -> Future[Binary]:
        """Start a build, unless it is on disk, under way, or has failed; return its result."""
        key = program.key(self._compiler)
        with self._changed:
            if key not in self._builds:
                cached = self._cache.get(key)
                if cached is not None:
                    self._builds[key] = Future()
                    self._builds[key].set_result(cached)
                else:
                    self._wait_to_build()  # another thread may start it meanwhile
            if key not in self._builds:
                self._builds[key] = self._submitted(program)
            return self._builds[key]

    def finish(self, program: B) -> Binary:
        """Wait for a build, which is started if it was not.

        Raises BuildFailed, also at every later call for the same program.
        """
        binary = self.start(program).result()
        with self._changed:
            self._builds.pop(program.key(self._compiler), None)  # it is on disk
        return binary

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """Wait until nothing compiles, and let no other thread start a build inside the block."""
        with self._changed:
            self._wait_for(lambda: not (self._under_way or self._waiting))
            self._undisturbed += 1
        try:
            yield
        finally:
            with self._changed:
                self._undisturbed -= 1
                self._changed.notify_all()

    def close(self) -> None:
        """End the builder processes; threads that wait for a build get an exception."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._threads.shutdown(wait=False, cancel_futures=True)
        for child in self._children:
            child.close()

    def _wait_to_build(self) -> None:
        """Wait for the end of undisturbed blocks; meanwhile no other begins."""
        self._waiting += 1
        try:
            self._wait_for(lambda: not self._undisturbed)
        finally:
            self._waiting -= 1
            self._changed.notify_all()

    def _wait_for(self, condition: Callable[[], bool]) -> None:
        self._changed.wait_for(lambda: self._is_closed or condition())
        if self._is_closed:
            raise RuntimeError("the builds were ended")

    def _submitted(self, program: B) -> Future[Binary]:
        self._under_way += 1
        build = self._threads.submit(self._built, program)
        build.add_done_callback(self._note_end)
        return build

    def _note_end(self, _build: Future[Binary]) -> None:
        with self._changed:
            self._under_way -= 1
            self._changed.notify_all()

    def _built(self, program: B) -> Binary:
        """Build in a process of its own; there is one for each thread."""
        child = self._idle.pop()
        method, own_s = _BuildWorker.compile, program.timeout_s
        # If the compiler has not ended itself, its process is ended.
        limit_s = BUILD_TIMEOUT_S if own_s is None else own_s + _GRACE_S
        try:
            return child.call_again(method, program, timeout_s=limit_s)
        except ChildLost as lost:
            raise BuildFailed(f"the compiler's process {lost}") from None
        except BuildFailed as error:
            reason = str(error) or "the compiler refused the configuration without a reason"
            raise BuildFailed(reason) from None
        finally:
            self._idle.append(child)
