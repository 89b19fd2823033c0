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
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

from harness.core.errors import BackendUnavailable, BuildFailed
from harness.core.files import CACHE_ADVICE, cache_folder, write_file
from harness.core.program import Binary, Program, family
from harness.measure.compiler_warnings import conflicts
from harness.measure.cuda.nvcc import ENVIRONMENT, run_in_group
from harness.space_file.flags.model import ANY_FILE, Setting

TIMEOUT_S = 60.0


# The empty program of each language. With PTX, nvcc's driver and ptxas check a setting without the
# front end, which takes twenty times as long.
_PTX = ".version {version}\n.target {target}\n.address_size 64\n.visible .entry f() {{ ret; }}\n"
_CUDA = "__global__ void f(int *x) { *x = 1; }\n"
_MAIN = "int main(void) { return 0; }\n"
_C = "int f(int *x, int n) { int s = 0; for (int i = 0; i < n; i++) s += x[i]; return s; }\n"
_OPENCL = "__kernel void f(__global int *x) { x[get_global_id(0)] = 1; }\n"
_STATUS = re.compile(r"\A\w+ ended with status \d+\n")  # what the compiler printed follows
_OF_BACKENDS = {"opencl": _OPENCL, "nvcc": _CUDA}


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
        _, version = _output([str(self._executable), "--version"], Path.cwd())
        digest = hashlib.sha256(self._executable.read_bytes()).hexdigest()
        obeyed = [os.environ.get(name) for name in ENVIRONMENT]
        self.identity = f"{compiler} {arch} {digest} {obeyed} {version}"

    def try_out(self, setting: Setting) -> str | None:
        """Return why the compiler refuses or ignores the setting; None where it obeys it."""
        with tempfile.TemporaryDirectory(prefix="harness-flags-") as folder:
            command = self._command(setting, Path(folder))
            if setting.takes_file:
                return _why_unread(command, Path(folder), self._refusal)
            reason = self._refusal(command, Path(folder))
        return None if reason is None else _first_line(reason)

    def _refusal(self, command: Sequence[str], folder: Path) -> str | None:
        """Return what the compiler prints where it refuses or ignores an option."""
        status, output = _output(command, folder)
        lines = conflicts(self._compiler, output)
        if status == 0 and not lines:
            return None
        return lines[0] if lines else output

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
        (folder / "empty.cu").write_text(_CUDA + _MAIN)
        if setting.linked:
            return [*command, "-rdc=true", "empty.cu", "-o", "empty"]
        if setting.takes_file:  # the front end may be what reads it
            return [*command, "-cubin", "empty.cu", "-o", "empty.cubin"]
        (folder / "empty.ptx").write_text(_empty_ptx(self._arch or ""))
        return [*command, "-cubin", "empty.ptx", "-o", "empty.cubin"]


def _empty_ptx(arch: str) -> str:
    number = int(re.sub(r"\D", "", arch) or 0)
    # Every ptxas since 10.0 reads version 6.3; older architectures need 6.0.
    version, target = ("6.3", "sm_75") if number >= 75 else ("6.0", arch)
    return _PTX.format(version=version, target=target)


class ProbedBackend:
    """The compiler of a backend, such as OpenCL's for one device, or NVRTC for flags of nvcc.

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
        if setting.takes_file:
            with tempfile.TemporaryDirectory(prefix="harness-flags-") as folder:
                return _why_unread(setting.words, Path(folder), self._refusal)
        reason = self._refusal(setting.words)
        return None if reason is None else _first_line(reason)

    def _refusal(self, words: Sequence[str], _folder: Path | None = None) -> str | None:
        """Return what the compiler prints where it refuses or ignores an option."""
        try:
            self._build(Program(_OF_BACKENDS[self._name], tuple(words), ()))
        except BuildFailed as error:
            lines = conflicts(self._name, str(error))
            return lines[0] if lines else _STATUS.sub("", str(error), count=1)
        return None


def _why_unread(
    words: Sequence[str], folder: Path, refusal: Callable[[Sequence[str], Path], str | None]
) -> str | None:
    """Return why a compiler does not take a file; None where it takes one.

    Compilers refuse a file that is not theirs in many words. One refuses the option itself if it
    names the option, and says the same of a missing file: it has opened neither.
    """
    missing, written = folder / "missing" / "file", folder / "written" / "file"
    written.parent.mkdir()
    written.write_text("a file that no compiler wrote\n")
    said = []
    for path in (missing, written):
        reason = refusal([word.replace(ANY_FILE, str(path)) for word in words], folder)
        if reason is None:
            return None
        said.append(reason.replace(str(path), "FILE"))
    is_refused = said[0] == said[1] and _file_option(words) in said[0]
    return _first_line(said[0]) if is_refused else None


def _file_option(words: Sequence[str]) -> str:
    """Return the name of the option that takes a file: `apply-controls`."""
    spelled = " ".join(words).partition(ANY_FILE)[0].rstrip(" =")
    return spelled.split(" ")[-1].lstrip("-")


def answers(compiler: ProbedCompiler, settings: Sequence[Setting]) -> dict[Setting, str | None]:
    """Return for each setting why the compiler refuses or ignores it; None where it obeys it.

    Raises BackendUnavailable where the compiler refuses even a program without any flag.
    """
    digest = hashlib.sha256(f"{_FORMAT} {compiler.identity}".encode()).hexdigest()
    file = cache_folder("flags") / f"{digest}.json"
    kept = _kept(file)
    new = [setting for setting in dict.fromkeys(settings) if setting not in kept]
    if new:
        reason = compiler.try_out(Setting(()))
        if reason is not None:
            raise BackendUnavailable(
                f"the compiler refuses an empty program, so its flags cannot be probed: {reason}. "
                "Repair it, or declare the flags one by one"
            )
        with ThreadPoolExecutor(compiler.at_once) as pool:
            kept |= zip(new, pool.map(compiler.try_out, new), strict=True)
        content = json.dumps({json.dumps(key): reason for key, reason in kept.items()})
        write_file(file, content, advice=CACHE_ADVICE)
    return {setting: kept[setting] for setting in settings}


_FORMAT = 1
"""Increase this when the probes or their answers change: kept answers then expire."""


def _kept(file: Path) -> dict[Setting, str | None]:
    """Return the answers in a file of the cache; none where it is missing or damaged."""
    with contextlib.suppress(OSError, ValueError, TypeError, AttributeError):
        found = json.loads(file.read_text(encoding="utf-8"))
        pairs = [(json.loads(key), reason) for key, reason in found.items()]
        return {Setting(tuple(words), linked): reason for (words, linked), reason in pairs}
    return {}


def _output(command: Sequence[str], folder: Path) -> tuple[int, str]:
    """Run a command; return its exit status and output. Raises BackendUnavailable."""
    try:
        status, output = run_in_group(command, folder, TIMEOUT_S)
    except OSError as error:
        raise BackendUnavailable(f"{command[0]} cannot be probed for its flags: {error}") from None
    if status is None:
        raise BackendUnavailable(f"{command[0]} did not end within {TIMEOUT_S:g} s")
    return status, output


def _first_line(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[0] if lines else "refused without a message"
