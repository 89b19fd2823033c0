"""Build programs with the command of a space: any compiler, or none at all."""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import re
import resource
import shlex
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from harness.core.errors import BackendUnavailable, BuildFailed, UsageError
from harness.core.machine import find_program, notes, processor, usable_cores
from harness.core.program import Binary, FlagFile, with_marks, with_paths
from harness.core.records import Build, Config, DeviceLimits, Environment, Input
from harness.core.text import command_line
from harness.measure.builds.elf import executed_sha256
from harness.measure.builds.messages import require_obeyed
from harness.measure.programs.sandbox import (
    STDERR,
    STDOUT,
    Bounds,
    CannotStart,
    CommandResult,
    end_programs_when_terminated,
    run_command,
)
from harness.space import Space
from harness.space_file import ProgramPlan, Spec
from harness.space_file.program import OUTPUT_MARK, digest_of

BUILD_TIMEOUT_S = 120.0
_ASK_TIMEOUT_S = 30.0

WORK = "work"
"""The folder of a command, inside of the one that is made for it."""

_MORE_TIME = (
    "give it more with `program: {limits: {build_timeout_s: SECONDS}}`, and tune with --fresh"
)
_MOST_LOG = 10_000
_IN_HOME = re.compile(r"HOME|XDG_\w+_(HOME|DIR)")
_NATIVE = re.compile(r"(?:^|[=\s])native\b")

# Compilers obey these variables: builds under different values must not be mixed up.
_VARIABLES = (
    "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "COMPILER_PATH",
    "GCC_EXEC_PREFIX", "SOURCE_DATE_EPOCH", "CC", "CXX", "CFLAGS", "CXXFLAGS", "CPPFLAGS",
    "LDFLAGS", "MAKEFLAGS", "NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVCC_CCBIN",
)  # fmt: skip


@dataclass(frozen=True)
class CommandBuild:
    """Everything that decides what is built.

    `words` are the command, with OUTPUT_MARK in place of the program's path; `texts` are the
    sources and the files that they include. `device` is what nvcc's `-arch=native` builds for:
    empty where no word says native, and where the device is not known. `files` are those that
    the flags name; the words have their paths.
    """

    words: tuple[str, ...]
    options: tuple[str, ...]
    texts: tuple[str, ...]
    device: str = ""
    files: tuple[FlagFile, ...] = ()
    timeout_s: float | None = None

    def key(self, compiler: str) -> str:
        """Return the build cache's key under a compiler."""
        parts = ["command", compiler, *self.words, "\x1e", *self.texts]
        parts += [file.sha256 for file in self.files]
        if self.device:
            parts.append(self.device)
        digest = hashlib.sha256()
        for part in parts:
            digest.update(part.encode() + b"\x1f")
        return digest.hexdigest()


def command_build(
    spec: Spec, space: Space, config: Config, problem: Input, device: str = ""
) -> CommandBuild:
    """Return what is built for a configuration of a program. Features count where the build names
    them, and the device where a word says native."""
    plan = backend_of(spec).plan
    # Sorted flag by flag, for the build cache: the words of one flag stay in their order.
    flags = sorted(p.options(config[p.name]) for p in space.parameters if p.role == "flag")
    options: list[str] = []
    for flag in flags:
        options += flag
    files = spec.files_of(config)
    words = plan.build_words({**config, **problem}, with_paths(options, files))
    if not any(_NATIVE.search(word) for word in words):
        device = ""
    texts: list[str] = []
    for source in plan.sources:
        texts += [source.path.name, source.text, *source.includes.values()]
    return CommandBuild(
        words=words,
        options=tuple(options),
        texts=tuple(texts),
        device=device,
        files=files,
        timeout_s=plan.model.limits.build_timeout_s,
    )


def backend_of(spec: Spec) -> CommandBackend:
    """Return the backend of a space that tunes a program; raises UsageError for kernels."""
    if spec.program is None:
        raise UsageError(
            f"{spec.path} tunes a kernel; the command backend runs programs, with `program:` in "
            "place of `kernel:` and `launch:` (docs/reference/program.md)"
        )
    return CommandBackend(spec.program, spec.program_compiler)


@dataclass(frozen=True)
class CommandBackend:
    """The command of a space as a backend and its compiler, as it is sent to worker processes.

    `compiler` is the name of the compiler whose flags are tuned, None where none are.
    """

    plan: ProgramPlan
    compiler: str | None

    def open_compiler(self) -> CommandBackend:
        """Let the command of a build end with this process, which only builds."""
        end_programs_when_terminated()
        return self

    def environment(self) -> Environment:
        """Return the environment; raises BackendUnavailable where program.device fails, or the
        compiler is missing."""
        identity = self.identity
        device = self._device() or f"{processor() or platform.machine()}, {usable_cores()} cores"
        system = f"{platform.system()} {platform.machine()}"
        return Environment("command", device, system, platform.release(), identity, notes=notes())

    @property
    def device_here(self) -> str:
        """The device that program.device names; empty without one, and where the command fails."""
        with contextlib.suppress(BackendUnavailable):
            return self._device()
        return ""

    def _device(self) -> str:
        """Return the device that program.device names; empty without one."""
        if self.plan.model.device is None:
            return ""
        try:
            return _answer(self.plan.model.device, "program.device")[0]
        except BackendUnavailable as error:
            builds = f"`{command_line('check')} SPACE --compile N`"
            raise BackendUnavailable(f"{error}. {builds} needs no device: it only builds") from None

    @property
    def limits(self) -> DeviceLimits:
        """The limits, of which only the number of cores concerns a program."""
        return DeviceLimits(1, (1, 1, 1), (1, 1, 1), 1, usable_cores(), 1)

    @cached_property
    def identity(self) -> str:
        """The compiler's name, version and digest, the environment's flags, and the processor.

        The processor counts since the compiler may build for it alone. Raises BackendUnavailable
        outside Linux, and where the first word of the command is no program.
        """
        if not hasattr(resource, "prlimit"):
            raise BackendUnavailable("the command backend needs Linux, to limit programs")
        extra = "".join(f" {name}={os.environ[name]}" for name in _VARIABLES if name in os.environ)
        return f"{self._named()} on {processor() or platform.machine()}{extra}"

    def _named(self) -> str:
        if not self.plan.build:
            return "no compiler"
        name = self.plan.build[0].text
        path = find_program(name, self.plan.folder)
        if path is None:
            raise BackendUnavailable(
                f"program.build begins with `{name}`, which is not found; install it, or name "
                "another compiler"
            )
        version = ""
        if self.plan.model.version is not None:
            version = _answer(self.plan.model.version, "program.version")[0]
        elif "/" not in name:  # a script might do anything with --version
            version = _version(path)
        return f"{version} {Path(path).name} {digest_of(Path(path))[:12]}".strip()

    def compile(self, build: CommandBuild) -> Binary:
        """Build; raises BuildFailed with the compiler's log, or after a timeout."""
        data = b""
        log = ""
        compile_s = 0.0
        if build.words:
            began_s = time.perf_counter()
            data, log = self._run(build)
            compile_s = time.perf_counter() - began_s
        executed = data or "\x1f".join(build.texts).encode()  # without a build the sources run
        record = Build(
            key=build.key(self.identity),
            options=shlex.join(build.options),
            compiler=self.identity,
            compile_s=compile_s,
            binary_sha256=executed_sha256(executed),
            log=log,
        )
        return Binary(record, data)

    def _run(self, build: CommandBuild) -> tuple[bytes, str]:
        """Run the command; return the program and the log."""
        timeout_s = build.timeout_s or BUILD_TIMEOUT_S
        with tempfile.TemporaryDirectory(prefix="harness-build-") as temporary:
            folder = Path(temporary)
            output = folder / WORK / "program"
            output.parent.mkdir()
            try:
                result = run_filled(self.plan, build.words, output, folder, timeout_s, {})
            except CannotStart as error:
                raise BuildFailed(str(error)) from None
            log = with_marks(_log(folder), build.files)
            if result.status != 0:
                how = result.description
                if result.status is None:
                    how = f"did not finish within {timeout_s:g} s and was killed; {_MORE_TIME}"
                raise BuildFailed(f"the build {how}\n{log}".strip())
            if not output.is_file():
                raise BuildFailed(
                    f"the build succeeded, but did not write {{output}}\n{log}".strip()
                )
            data = output.read_bytes()
        if self.compiler is not None:
            require_obeyed(self.compiler, log)
        return data, log


def run_filled(
    plan: ProgramPlan,
    words: Sequence[str],
    program: Path,
    folder: Path,
    deadline_s: float,
    variables: Mapping[str, str],
) -> CommandResult:
    """Run a command of a plan within its limits, with the program's path in place of OUTPUT_MARK.

    It runs in the folder WORK of `folder`, which gets its streams. A first word with a slash is
    relative to the space's folder. Raises CannotStart.
    """
    filled = [word.replace(OUTPUT_MARK, str(program)) for word in words]
    if "/" in filled[0]:
        filled[0] = str((plan.folder / filled[0]).absolute())
    limits = plan.model.limits
    bounds = Bounds(limits.memory_mb << 20, limits.output_mb << 20, deadline_s)
    return run_command(filled, folder / WORK, folder, bounds, variables)


def home_variables(home: Path) -> dict[str, str]:
    """Return the variables that make a folder the user's home.

    A run could otherwise leave files at home for later runs, also for those of the default.
    """
    variables = {"HOME": str(home)}
    for name in os.environ:
        if _IN_HOME.fullmatch(name):
            variables[name] = str(home)
    return variables


def home_advice(plan: ProgramPlan) -> str:
    """Return what a program misses that works for its user, for a message."""
    if "HOME" in plan.model.environment:
        return ""
    home = os.environ.get("HOME", "/home/me")
    return (
        "; HOME is an empty folder in each run: where the program needs files of yours, write "
        f"`environment: {{HOME: {home}}}` under `program`"
    )


def _log(folder: Path) -> str:
    """Return the streams of a command, errors first, without the temporary folder."""
    texts = [_read_text(folder / name).strip() for name in (STDERR, STDOUT)]
    log = "\n".join(filter(None, texts))
    log = log.replace(f"{folder / WORK}/", "").replace(str(folder / WORK), ".")
    return log if len(log) <= _MOST_LOG else f"{log[:_MOST_LOG]}\n..."


def _read_text(path: Path) -> str:
    """Return a file's text, whatever bytes it holds."""
    return path.read_bytes().decode(errors="replace")


def _version(path: str) -> str:
    """Return the line with the version of a program; empty without one."""
    with contextlib.suppress(BackendUnavailable):
        for line in _answer([path, "--version"], "program.version"):
            if re.search(r"\d\.\d", line):
                return line.strip()
    return ""


def _answer(words: Sequence[str], key: str) -> list[str]:
    """Return the lines that a command prints, one or more; raises BackendUnavailable."""
    with tempfile.TemporaryDirectory(prefix="harness-ask-") as folder:
        path = Path(folder)
        try:
            result = run_command(words, path, path, Bounds(1 << 32, 1 << 20, _ASK_TIMEOUT_S))
        except CannotStart as error:
            raise BackendUnavailable(f"{key}: {error}") from None
        printed = _read_text(path / STDOUT)
        if result.status != 0:
            printed += _read_text(path / STDERR)
    printed = printed.strip()
    if result.status == 0 and printed:
        return printed.splitlines()
    reason = f"printed: {printed[:300]}" if printed else "printed nothing"
    raise BackendUnavailable(f"{key}: `{shlex.join(words)}` {result.description} and {reason}")
