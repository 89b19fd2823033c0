"""Asking a compiler that is here whether it knows a setting: an empty program is built with it.

What it says is kept in the cache folder, by the compiler's own digest, so that each compiler is
asked once.
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


# What each language's empty program is. PTX lets nvcc's driver and ptxas judge a setting without
# the front end, which costs twenty times as much.
_PTX = ".version {version}\n.target {target}\n.address_size 64\n.visible .entry f() {{ ret; }}\n"
_CUDA = "__global__ void f(int *x) { *x = 1; }\n"
_MAIN = "int main(void) { return 0; }\n"
_C = "int f(int *x, int n) { int s = 0; for (int i = 0; i < n; i++) s += x[i]; return s; }\n"
_OPENCL = "__kernel void f(__global int *x) { x[get_global_id(0)] = 1; }\n"


class Asked(Protocol):
    """A compiler that can be asked."""

    @property
    def identity(self) -> str:
        """What its answers are kept by: two that differ never share one."""

    @property
    def at_once(self) -> int:
        """How many settings may be tried side by side."""

    def try_out(self, setting: Setting) -> str | None:
        """None where it takes the setting and obeys it; else what it says."""


# nvcc obeys these as if they stood on its command line.
_ENVIRONMENT = ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVCC_CCBIN")


class AskedCommand:
    """gcc, clang or nvcc, as a program on this machine; `compiler` is its catalogue's name.

    `arch` is what nvcc compiles for, such as `sm_90`: ValueError without it. Raises
    BackendUnavailable where the program cannot be run.
    """

    at_once = os.cpu_count() or 1

    def __init__(self, compiler: str, executable: Path, arch: str | None = None) -> None:
        self._compiler = family(compiler)
        if (self._compiler == "nvcc") != (arch is not None):
            raise ValueError(f"nvcc, and no other, is asked for an architecture; got {arch}")
        self._executable = executable.absolute()  # it runs in another folder
        self._arch = arch
        _, version = _output([str(self._executable), "--version"])
        digest = hashlib.sha256(self._executable.read_bytes()).hexdigest()
        obeyed = [os.environ.get(name) for name in _ENVIRONMENT]
        self.identity = f"{compiler} {arch} {digest} {obeyed} {version}"

    def try_out(self, setting: Setting) -> str | None:
        """None where the compiler takes the setting and obeys it; else what it says."""
        with tempfile.TemporaryDirectory(prefix="harness-flags-") as folder:
            status, said = _output(self._command(setting, Path(folder)), folder)
        told = conflicts(self._compiler, said)
        if status == 0 and not told:
            return None
        return _first_line(told[0] if told else said)

    def _command(self, setting: Setting, folder: Path) -> list[str]:
        """The command line that builds an empty program, whose source it writes."""
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
    # Every ptxas since 10.0 reads the first; older architectures know no later one than the second.
    version, target = ("6.3", "sm_75") if number >= 75 else ("6.0", arch)
    return _PTX.format(version=version, target=target)


class AskedBackend:
    """The compiler of a backend, such as OpenCL's for one device.

    `build` builds a program, in a process of its own where a driver's compiler may crash;
    `identity` is what the compiler says of itself.
    """

    at_once = 1  # drivers need not bear several builds at a time

    def __init__(self, name: str, identity: str, build: Callable[[Program], Binary]) -> None:
        self._name = name
        self._build = build
        self.identity = f"{name} {identity}"

    def try_out(self, setting: Setting) -> str | None:
        """None where the compiler takes the setting and obeys it; else what it says."""
        try:
            self._build(Program(_OPENCL, setting.words, ()))
        except BuildFailed as error:
            told = conflicts(self._name, str(error))
            return _first_line(told[0] if told else str(error))
        return None


def answers(asked: Asked, settings: Sequence[Setting]) -> dict[Setting, str | None]:
    """Of each setting what the compiler says against it, None where it is known and obeyed.

    Raises BackendUnavailable where the compiler refuses even a program without any flag.
    """
    kept = _Kept(asked.identity)
    new = [setting for setting in dict.fromkeys(settings) if setting not in kept.answers]
    if new:
        said = asked.try_out(Setting(()))
        if said is not None:
            raise BackendUnavailable(
                f"the compiler refuses an empty program, so that it cannot be asked for its flags: "
                f"{said}. Mend it, or declare the flags one by one"
            )
        with ThreadPoolExecutor(asked.at_once) as pool:
            kept.add(dict(zip(new, pool.map(asked.try_out, new), strict=True)))
    return {setting: kept.answers[setting] for setting in settings}


_FORMAT = 1
"""Raise this where what is asked, or what counts as an answer, changes: kept answers lapse."""


class _Kept:
    """The answers of one compiler, in a file of the cache."""

    def __init__(self, identity: str) -> None:
        digest = hashlib.sha256(f"{_FORMAT} {identity}".encode()).hexdigest()
        self._file = cache_folder("flags") / f"{digest}.json"
        self.answers: dict[Setting, str | None] = {}
        # Anything but a whole file of ours counts as nothing kept.
        with contextlib.suppress(OSError, ValueError, TypeError, AttributeError):
            found = json.loads(self._file.read_text(encoding="utf-8"))
            for key, said in found.items():
                words, linked = json.loads(key)
                self.answers[Setting(tuple(words), linked)] = said

    def add(self, new: dict[Setting, str | None]) -> None:
        self.answers |= new
        content = json.dumps({json.dumps(key): said for key, said in self.answers.items()})
        write_file(self._file, content, advice=CACHE_ADVICE)


def _output(command: Sequence[str], folder: str | None = None) -> tuple[int, str]:
    """Exit status and all output of a command; raises BackendUnavailable where it cannot run."""
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
        raise BackendUnavailable(f"{command[0]} cannot be asked for its flags: {error}") from None
    return done.returncode, done.stdout


def _first_line(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[0] if lines else "refused without a word"
