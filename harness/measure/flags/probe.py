"""Probe an installed compiler for a setting: build an empty program with it.

The answers are kept in the cache folder by the compiler's digest, so that each compiler is probed
once.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

from harness.core.errors import BackendUnavailable, BuildFailed
from harness.core.files import CACHE_ADVICE, cache_folder, write_file
from harness.core.program import Binary, Program, family
from harness.measure.compiler_warnings import conflicts
from harness.space_file.flags.model import Setting

TIMEOUT_S = 60.0


# The empty program of each language. With PTX, nvcc's driver and ptxas check a setting without the
# front end, which takes twenty times as long.
_PTX = ".version {version}\n.target {target}\n.address_size 64\n.visible .entry f() {{ ret; }}\n"
_CUDA = "__global__ void f(int *x) { *x = 1; }\n"
_MAIN = "int main(void) { return 0; }\n"
_C = "int f(int *x, int n) { int s = 0; for (int i = 0; i < n; i++) s += x[i]; return s; }\n"
_OPENCL = "__kernel void f(__global int *x) { x[get_global_id(0)] = 1; }\n"


class ProbedCompiler(Protocol):
    """A compiler that can be probed."""

    @property
    def identity(self) -> str:
        """The key of its answers: compilers with different identities share none."""

    @property
    def at_once(self) -> int:
        """How many settings may be tried at once."""

    def try_out(self, setting: Setting) -> str | None:
        """Return why the compiler refuses or ignores the setting; None where it obeys it."""


# nvcc obeys these like flags on its command line.
_ENVIRONMENT = ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVCC_CCBIN")


class ProbedCommand:
    """gcc, clang or nvcc as a program on this machine; `compiler` is the name in its catalogue.

    `arch` is the architecture that nvcc compiles for, such as `sm_90`: ValueError without it.
    Raises BackendUnavailable where the program cannot be run.
    """

    at_once = os.cpu_count() or 1

    def __init__(self, compiler: str, executable: Path, arch: str | None = None) -> None:
        self._compiler = family(compiler)
        if (self._compiler == "nvcc") != (arch is not None):
            raise ValueError(f"nvcc, and no other compiler, needs an architecture; got {arch}")
        self._executable = executable.absolute()  # it runs in another folder
        self._arch = arch
        _, version = _output([str(self._executable), "--version"])
        digest = hashlib.sha256(self._executable.read_bytes()).hexdigest()
        obeyed = [os.environ.get(name) for name in _ENVIRONMENT]
        self.identity = f"{compiler} {arch} {digest} {obeyed} {version}"

    def try_out(self, setting: Setting) -> str | None:
        """Return why the compiler refuses or ignores the setting; None where it obeys it."""
        with tempfile.TemporaryDirectory(prefix="harness-flags-") as folder:
            status, output = _output(self._command(setting, Path(folder)), folder)
        lines = conflicts(self._compiler, output)
        if status == 0 and not lines:
            return None
        return _first_line(lines[0] if lines else output)

    def _command(self, setting: Setting, folder: Path) -> list[str]:
        """Write the source of an empty program; return the command line that builds it."""
        if self._compiler == "nvcc":
            return self._nvcc(setting, folder)
        language = "c++" if self._compiler.endswith("++") else "c"
        (folder / "empty.c").write_text(_C + _MAIN)
        kind = ["-o", "empty"] if setting.linked else ["-S", "-o", "empty.s"]
        return [str(self._executable), *setting.words, "-x", language, "empty.c", *kind]

    def _nvcc(self, setting: Setting, folder: Path) -> list[str]:
        command = [str(self._executable), *setting.words, f"-arch={self._arch}"]
        if setting.linked:
            (folder / "empty.cu").write_text(_CUDA + _MAIN)
            return [*command, "-rdc=true", "empty.cu", "-o", "empty"]
        (folder / "empty.ptx").write_text(_empty_ptx(self._arch or ""))
        return [*command, "-cubin", "empty.ptx", "-o", "empty.cubin"]


def _empty_ptx(arch: str) -> str:
    number = int(re.sub(r"\D", "", arch) or 0)
    # Every ptxas since 10.0 reads version 6.3; older architectures need 6.0.
    version, target = ("6.3", "sm_75") if number >= 75 else ("6.0", arch)
    return _PTX.format(version=version, target=target)


class ProbedBackend:
    """The compiler of a backend, such as OpenCL's for one device.

    `build` builds a program, in another process where a driver's compiler may crash; `identity`
    is the compiler's own.
    """

    at_once = 1  # a driver may not support several builds at a time

    def __init__(self, name: str, identity: str, build: Callable[[Program], Binary]) -> None:
        self._name = name
        self._build = build
        self.identity = f"{name} {identity}"

    def try_out(self, setting: Setting) -> str | None:
        """Return why the compiler refuses or ignores the setting; None where it obeys it."""
        try:
            self._build(Program(_OPENCL, setting.words, ()))
        except BuildFailed as error:
            lines = conflicts(self._name, str(error))
            return _first_line(lines[0] if lines else str(error))
        return None


def answers(compiler: ProbedCompiler, settings: Sequence[Setting]) -> dict[Setting, str | None]:
    """Return for each setting why the compiler refuses or ignores it; None where it obeys it.

    Raises BackendUnavailable where the compiler refuses even a program without any flag.
    """
    kept = _Kept(compiler.identity)
    new = [setting for setting in dict.fromkeys(settings) if setting not in kept.answers]
    if new:
        reason = compiler.try_out(Setting(()))
        if reason is not None:
            raise BackendUnavailable(
                f"the compiler refuses an empty program, so its flags cannot be probed: {reason}. "
                "Repair it, or declare the flags one by one"
            )
        with ThreadPoolExecutor(compiler.at_once) as pool:
            kept.add(dict(zip(new, pool.map(compiler.try_out, new), strict=True)))
    return {setting: kept.answers[setting] for setting in settings}


_FORMAT = 1
"""Increase this when the probes or their answers change: kept answers then expire."""


class _Kept:
    """The answers of one compiler, in a file of the cache."""

    def __init__(self, identity: str) -> None:
        digest = hashlib.sha256(f"{_FORMAT} {identity}".encode()).hexdigest()
        self._file = cache_folder("flags") / f"{digest}.json"
        self.answers: dict[Setting, str | None] = {}
        # A file that is missing or damaged counts as no answers.
        with contextlib.suppress(OSError, ValueError, TypeError, AttributeError):
            found = json.loads(self._file.read_text(encoding="utf-8"))
            for key, reason in found.items():
                words, linked = json.loads(key)
                self.answers[Setting(tuple(words), linked)] = reason

    def add(self, new: dict[Setting, str | None]) -> None:
        self.answers |= new
        content = json.dumps({json.dumps(key): reason for key, reason in self.answers.items()})
        write_file(self._file, content, advice=CACHE_ADVICE)


def _output(command: Sequence[str], folder: str | None = None) -> tuple[int, str]:
    """Run a command; return its exit status and output. Raises BackendUnavailable."""
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BackendUnavailable(f"{command[0]} cannot be probed for its flags: {error}") from None
    return done.returncode, done.stdout


def _first_line(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[0] if lines else "refused without a message"
