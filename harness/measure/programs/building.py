"""Programs built by the command that a space gives: any compiler, or none at all."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import resource
import shlex
import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from harness.core.errors import BackendUnavailable, BuildFailed
from harness.core.machine import notes, processor
from harness.core.program import Binary
from harness.core.records import Build, DeviceLimits, Environment
from harness.measure.backends.elf import executed_sha256
from harness.measure.compiler_warnings import require_obeyed
from harness.measure.programs.sandbox import (
    STDERR,
    STDOUT,
    Bounds,
    CannotStart,
    CommandResult,
    run_command,
)
from harness.space_file import ProgramPlan
from harness.space_file.program import OUTPUT_MARK, digest_of

BUILD_TIMEOUT_S = 120.0
_ASK_TIMEOUT_S = 30.0
_MOST_LOG = 10_000
_SHELL = "/bin/sh"

# Compilers and build tools obey these: builds under different values must not be mixed up.
_VARIABLES = (
    "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "COMPILER_PATH",
    "GCC_EXEC_PREFIX", "SOURCE_DATE_EPOCH", "CC", "CXX", "CFLAGS", "CXXFLAGS", "CPPFLAGS",
    "LDFLAGS", "MAKEFLAGS", "NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVCC_CCBIN",
)  # fmt: skip


@dataclass(frozen=True)
class CommandBuild:
    """Everything that decides what a build makes: its words, where OUTPUT_MARK is the path of
    what it makes, and the text of its sources and of what they include."""

    words: tuple[str, ...]
    options: tuple[str, ...]
    texts: tuple[str, ...]
    shell: bool
    memory_bytes: int
    file_bytes: int

    def key(self, compiler: str) -> str:
        """The build cache's key under a compiler."""
        digest = hashlib.sha256()
        for part in ("command", compiler, str(self.shell), *self.words, "\x1e", *self.texts):
            digest.update(part.encode() + b"\x1f")
        return digest.hexdigest()


@dataclass(frozen=True)
class CommandBackend:
    """The command of a space as a backend: it travels to worker processes. `compiler` is the name
    of the compiler whose flags are tuned, None where none are."""

    plan: ProgramPlan
    compiler: str | None

    @property
    def language(self) -> str:
        """The backend's name."""
        return "command"

    def open_compiler(self) -> CommandCompiler:
        """The compiler, in this process; raises BackendUnavailable where it is not here."""
        return CommandCompiler(self.plan, self.compiler)

    def environment(self, identity: str) -> Environment:
        """What times may be compared with. Raises BackendUnavailable where the command that is
        to name the device fails."""
        device = f"{processor() or platform.machine()}, {cores()} cores"
        if self.plan.device is not None:
            device = _answer(self.plan.device, "program.device").splitlines()[0]
        system = f"{platform.system()} {platform.machine()}"
        return Environment("command", device, system, platform.release(), identity, notes())

    @property
    def limits(self) -> DeviceLimits:
        """Of these, only the number of cores means something to a program."""
        return DeviceLimits(1, (1, 1, 1), (1, 1, 1), 1, cores(), 1)


def cores() -> int:
    """The cores that we may use."""
    return len(os.sched_getaffinity(0))


class CommandCompiler:
    """Builds programs with the plan's command.

    Raises BackendUnavailable where the first word of the command is no program here.
    """

    arch: str | None = None

    def __init__(self, plan: ProgramPlan, compiler: str | None) -> None:
        if not hasattr(resource, "prlimit"):
            raise BackendUnavailable("the command backend bounds programs as only Linux can")
        self._plan = plan
        self._compiler = compiler

    @cached_property
    def identity(self) -> str:
        """The compiler: its name, what it says of its version, a digest of its file, and what the
        environment adds; on this kind of processor, since it may build for that alone."""
        extra = "".join(f" {name}={os.environ[name]}" for name in _VARIABLES if name in os.environ)
        return f"{self._named()} on {processor() or platform.machine()}{extra}"

    def _named(self) -> str:
        if not self._plan.build:
            return "no compiler"
        first = self._plan.build[0].text
        words = shlex.split(first) if self._plan.shell else [first]
        path = self._found(words[0] if words else "")
        told = f"{Path(path).name} {digest_of(Path(path))[:12]}"
        if self._plan.version is not None:
            return f"{_answer(self._plan.version, 'program.version').splitlines()[0]} {told}"
        if words[0] == Path(words[0]).name:  # a person's own script might do anything
            return f"{_version([path, '--version'])} {told}".strip()
        return told

    def _found(self, name: str) -> str:
        """The path of a program; one with a slash is looked for from the space's folder."""
        found = shutil.which(name if name == Path(name).name else str(self._plan.folder / name))
        if found is None:
            raise BackendUnavailable(
                f"program.build begins with `{name}`, which is no program here; install it, or "
                "write another compiler"
            )
        return found

    def compile(self, build: CommandBuild) -> Binary:
        """Build; raises BuildFailed with the compiler's log, or where it exceeds its time."""
        if not build.words:
            return self._binary(build, b"", 0.0, "")
        with tempfile.TemporaryDirectory(prefix="harness-build-") as folder:
            made, logs = Path(folder, "made"), Path(folder, "logs")
            made.mkdir()
            logs.mkdir()
            begin_s = time.perf_counter()
            data, log = self._run(build, made, logs)
            return self._binary(build, data, time.perf_counter() - begin_s, log)

    def _run(self, build: CommandBuild, made: Path, logs: Path) -> tuple[bytes, str]:
        output = made / "program"
        words = command_words(build.words, build.shell, output, self._plan.folder)
        bounds = Bounds(build.memory_bytes, build.file_bytes, BUILD_TIMEOUT_S)
        try:
            ended = run_command(words, made, logs, bounds)
        except CannotStart as error:
            raise BuildFailed(str(error)) from None
        log = _log(logs, made)
        if ended.status != 0:
            raise BuildFailed(f"the build {ended.description}\n{log}".strip())
        if not output.is_file():
            raise BuildFailed(f"the build ended well, but did not write {{output}}\n{log}".strip())
        if self._compiler is not None:
            require_obeyed(self._compiler, log)
        return output.read_bytes(), log

    def _binary(self, build: CommandBuild, data: bytes, compile_s: float, log: str) -> Binary:
        # Nothing is built: the sources themselves are what runs.
        texts = "\x1f".join(build.texts).encode()
        return Binary(
            Build(
                key=build.key(self.identity),
                options=shlex.join(build.options),
                compiler=self.identity,
                compile_s=compile_s,
                binary_sha256=executed_sha256(data or texts),
                log=log,
            ),
            data,
        )


def command_words(words: Sequence[str], shell: bool, output: Path, folder: Path) -> list[str]:
    """The words that are run: with the output's path in place, through a shell where the space
    asks for one; a program named with a slash is looked for from the space's folder."""
    if shell:
        return [_SHELL, "-c", words[0].replace(OUTPUT_MARK, shlex.quote(str(output)))]
    first, *rest = (word.replace(OUTPUT_MARK, str(output)) for word in words)
    if "/" in first:
        first = str((folder / first).absolute())
    return [first, *rest]


def _log(logs: Path, made: Path) -> str:
    """What a command wrote, errors first, without the temporary folder."""
    written = (read_text(logs / name) for name in (STDERR, STDOUT))
    log = "\n".join(text.strip() for text in written if text.strip())
    log = log.replace(f"{made}/", "").replace(str(made), ".")
    return log if len(log) <= _MOST_LOG else f"{log[:_MOST_LOG]}\n..."


def read_text(path: Path) -> str:
    """A file's text, whatever bytes it holds."""
    return path.read_bytes().decode(errors="replace")


def _version(words: Sequence[str]) -> str:
    """The line in which a program tells its version; empty where there is none."""
    ended, said = _asked(words)
    lines = said.splitlines() if ended.status == 0 else []
    return next((line.strip() for line in lines if re.search(r"\d\.\d", line)), "")


def _answer(words: Sequence[str], key: str) -> str:
    """What a command says that must say something; raises BackendUnavailable."""
    try:
        ended, said = _asked(words)
    except CannotStart as error:
        raise BackendUnavailable(f"{key}: {error}") from None
    if ended.status != 0 or not said.strip():
        told = f" and said: {said.strip()[:300]}" if said.strip() else " and said nothing"
        raise BackendUnavailable(f"{key}: `{shlex.join(words)}` {ended.description}{told}")
    return said.strip()


def _asked(words: Sequence[str]) -> tuple[CommandResult, str]:
    with tempfile.TemporaryDirectory(prefix="harness-ask-") as folder:
        path = Path(folder)
        ended = run_command(words, path, path, Bounds(1 << 32, 1 << 20, _ASK_TIMEOUT_S))
        said = read_text(path / STDOUT)
        return ended, said if ended.status == 0 else said + read_text(path / STDERR)
