"""Compile CUDA kernels to cubins with NVRTC, a library that needs no toolkit, GPU or driver.

The only module that imports NVRTC's bindings. NVRTC compiles in the process that calls it, which
may hang, crash, or compile otherwise afterwards: each build has a copy of the process that loaded
the library.
"""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import os
import re
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

from harness.core.errors import BackendUnavailable, BuildFailed, UsageError
from harness.core.files import cache_folder
from harness.core.machine import end_with_parent, libc
from harness.core.program import Program
from harness.core.text import signal_name
from harness.measure.cuda.binary import (
    SOURCE_NAME,
    CudaCompiler,
    includes_others,
    readable_log,
    why_untracked,
)
from harness.source.kernel_source import included_texts

T = TypeVar("T")

COMPILE_TIMEOUT_S = 120.0
_FOLDER = "/"  # of the process that compiles
_EMPTY = 'extern "C" __global__ void f() {}\n'
_INSTALL = "pip install cuda-bindings nvidia-cuda-nvrtc"
_USE_NVCC = "To compile with nvcc, install it and leave `compiler: {cuda: nvrtc}` out"

# NVRTC asks the driver for cubins that it kept, even a broken driver. Early releases do not, and do
# not know this option.
_NO_CACHE = "--no-cache"

_RELEASE = re.compile(r"Compiler Build ID: (?:CL-)?(\S+)\n.*\bV(\d[\d.]*)")
_NO_FILE = re.compile(r'(?:cannot|could not) open source file "([^"]+)"')
_HOST_NAME = re.compile(
    r'identifier "(?:u?int(?:8|16|32|64|ptr)_t|INFINITY|NAN|(?:FLT|DBL|U?INT|U?LONG)_\w+)" is un'
)
_OF_TOOLKIT = re.compile(r"cuda|cu\w*\.h|cooperative_groups|cub/|thrust/|nv/|crt/|mma\.h|vector_")


def load_nvrtc() -> Any:
    """Import NVRTC's bindings and load the library; raises BackendUnavailable."""
    try:
        nvrtc = importlib.import_module("cuda.bindings.nvrtc")
        _ = nvrtc.nvrtcVersion()
    except ImportError as error:
        raise BackendUnavailable(
            f"NVRTC's bindings are not installed ({error}): {_INSTALL}"
        ) from None
    except RuntimeError as error:  # no library, or one that lacks a function
        reason = str(error).partition("\n")[0]
        raise BackendUnavailable(f"NVRTC cannot be loaded ({reason}): {_INSTALL}") from None
    return nvrtc


class Nvrtc(CudaCompiler):
    """Compile programs with NVRTC.

    With `specific`, the architecture is that of the same device with its own features, such as
    `sm_90a`, if it has one. Raises UsageError for a malformed architecture, and BackendUnavailable
    where NVRTC is missing or does not support the architecture.
    """

    name = "nvrtc"
    cure = "Install another release of the wheel nvidia-cuda-nvrtc"

    def __init__(self, arch: str, *, specific: bool = False) -> None:
        self._nvrtc = load_nvrtc()
        _, numbers = self._nvrtc.nvrtcGetSupportedArchs()
        supported = [f"sm_{number}" for number in numbers]
        self._always = [_NO_CACHE]
        try:
            self.release = self._read_release(supported[-1])
        except BackendUnavailable:
            self._always.clear()
            self.release = self._read_release(supported[-1])
        self._set_arch(arch, supported, specific)

    def _compiled(self, program: Program) -> tuple[bytes, str, list[str]]:
        reason = why_untracked(program)
        if reason is not None:
            raise BuildFailed(
                f"NVRTC does not list the files that it reads, and {reason}: a changed file would "
                f"not be noticed. {_USE_NVCC}"
            )
        toolkit = self._toolkit(program)
        folders = [*map(Path, program.include_dirs), *toolkit]
        # Of two that conflict NVRTC takes the last, as nvcc does.
        options = list(program.words)
        for folder in folders:
            options.append(f"-I{folder.absolute()}")
        options += [f"--gpu-architecture={self.arch}", "--ptxas-options=-v"]
        cubin, report = self._output(program.text, options, program.timeout_s)
        # NVRTC's release stands for the headers that it brings.
        bundled = self._bundled if toolkit else None
        read = partial(Path.read_text, encoding="utf-8", errors="replace")
        source = Path(_FOLDER, SOURCE_NAME)
        paths = included_texts(source, program.text, tuple(folders), read, bundled)
        return cubin, report, list(map(str, paths))

    def _output(
        self, text: str, options: Sequence[str], timeout_s: float | None = None, kind: str = "CUBIN"
    ) -> tuple[bytes, str]:
        """Return the output of a kind, and the log; raises BuildFailed.

        Each build has a process of its own. In one process NVRTC compiles all that follows a
        program with `--restrict` with this flag (seen in 12.9, 13.0 and 13.5).
        """
        timeout_s = timeout_s or COMPILE_TIMEOUT_S
        words = [option.encode() for option in (*options, *self._always)]
        build = partial(self._build, text.encode(), words, kind)
        status, log, output = run_forked(build, timeout_s)
        if status != "NVRTC_SUCCESS":
            raise BuildFailed(_failure(status, log))
        return output, log

    def _build(self, text: bytes, words: Sequence[bytes], kind: str) -> tuple[str, str, bytes]:
        """Compile; return the status, the log and the output. Changes the folder of the process."""
        # NVRTC looks for headers in this folder too. With --no-source-include it would not, but
        # then a header finds no other one in its own folder.
        os.chdir(_FOLDER)
        status, handle = self._nvrtc.nvrtcCreateProgram(text, SOURCE_NAME.encode(), 0, None, None)
        log = ""
        output = b""
        if status == 0:
            (status,) = self._nvrtc.nvrtcCompileProgram(handle, len(words), words)
            log = self._content(handle, "ProgramLog").decode(errors="replace").rstrip("\0 \n")
        if status == 0:
            output = self._content(handle, kind)
        return status.name, log, output

    def _content(self, handle: Any, kind: str) -> bytes:
        """Return the log or an output of a program."""
        _, size_bytes = getattr(self._nvrtc, f"nvrtcGet{kind}Size")(handle)
        content = bytearray(size_bytes)
        getattr(self._nvrtc, f"nvrtcGet{kind}")(handle, content)
        return bytes(content)

    def _read_release(self, arch: str) -> str:
        """Return the version and build, such as `13.0.88 (36424714)`, which PTX begins with."""
        try:
            ptx, _ = self._output(_EMPTY, [f"--gpu-architecture={arch}"], kind="PTX")
        except BuildFailed as error:
            raise BackendUnavailable(f"NVRTC does not compile an empty kernel: {error}") from None
        match = _RELEASE.search(ptx.decode(errors="replace"))
        if match is None:
            raise BackendUnavailable(f"NVRTC's release is not known: PTX begins with {ptx[:200]!r}")
        return f"{match[2]} ({match[1]})"

    def _accepts(self, arch: str) -> bool:
        try:
            self._output(_EMPTY, [f"--gpu-architecture={arch}"])
        except BuildFailed:
            return False
        return True

    @cached_property
    def _bundled(self) -> Path | None:
        """The folder of the headers that the library brings; None where it brings none.

        It is made where it is missing. Raises BuildFailed where it cannot be.
        """
        install = getattr(self._nvrtc, "nvrtcInstallBundledHeaders", None)
        if install is None:
            return None
        folder = cache_folder("nvrtc") / self.release.partition(" ")[0]
        try:
            status, reason = install(os.fsencode(folder), 0)
        except RuntimeError:  # the library is older than its bindings
            return None
        if status != 0:
            reason = reason.decode(errors="replace") if reason else status.name
            raise BuildFailed(f"NVRTC cannot write its headers to {folder}: {reason}")
        return folder.resolve()

    def _toolkit(self, program: Program) -> list[Path]:
        """Return the folders of CUDA's headers that a program may need: NVRTC's own, then those of
        wheels or a toolkit."""
        folders: list[Path] = []
        if includes_others(program, folders) and self._bundled is not None:
            folders += [self._bundled, self._bundled / "cccl"]
        if includes_others(program, folders):
            folders += self._installed
        return folders

    @cached_property
    def _installed(self) -> list[Path]:
        """The folders of CUDA's headers that are installed."""
        find = importlib.import_module("cuda.pathfinder").find_nvidia_header_directory
        folders: dict[Path, None] = {}
        for name in ("cudart", "cccl", "curand"):
            # It asks a process, which a busy machine may not answer in time. The compiler then says
            # which header it lacks.
            with contextlib.suppress(ChildProcessError):
                folder = find(name)
                if folder:
                    folders[Path(folder)] = None
        return list(folders)


def run_forked(build: Callable[[], T], timeout_s: float) -> T:
    """Return what a function returns in a child of this process.

    The child has what the process has, but of its threads only the one that calls, so that the
    function may not need another one. It ends with this thread. Raises BuildFailed where the child
    crashes, hangs, or the function raises, and UsageError where the system has no process left.
    """
    libc()  # here, since the child should load nothing
    fork = multiprocessing.get_context("fork")
    ours, theirs = fork.Pipe(duplex=False)
    child = fork.Process(target=_send, args=(theirs, build, os.getpid()))
    is_late = False
    with ours:
        with theirs:
            try:
                child.start()
            except OSError as error:
                raise UsageError(
                    f"a process cannot be started: {error.strerror}; see `ulimit -u`, and free "
                    "memory"
                ) from None
        try:
            is_late = not ours.poll(timeout_s)
            if not is_late:
                result: T = ours.recv()
                return result
        except EOFError:
            pass  # it has ended
        finally:
            child.kill()
            child.join()
    if is_late:
        advice = "`compiler: {nvcc: {build_timeout_s: SECONDS}}` gives it more, with --fresh"
        raise BuildFailed(f"NVRTC did not finish within {timeout_s:g} s and was killed; {advice}")
    status = child.exitcode
    if not status:
        raise BuildFailed("NVRTC ended without a result")
    if status < 0:
        raise BuildFailed(f"NVRTC crashed ({signal_name(-status)})")
    raise BuildFailed(f"NVRTC ended with status {status}")


def _send(answer: Connection, build: Callable[[], object], parent: int) -> None:
    """Send what a function returns to the process that forked this one."""
    end_with_parent(parent)
    answer.send(build())


def _failure(status: str, log: str) -> str:
    """Return the log of a failed build, how it ended, and what would help."""
    lines = [readable_log(log) or "NVRTC printed nothing", f"NVRTC ended with {status}"]
    missing = _NO_FILE.search(log)
    if missing and _OF_TOOLKIT.match(missing[1]):
        wheels = "pip install nvidia-cuda-runtime nvidia-cuda-cccl"
        lines.append(f"{missing[1]} is a header of the CUDA toolkit: install it, or {wheels}")
    elif missing or _HOST_NAME.search(log) or "in JIT mode" in log:
        lines.append(
            "NVRTC compiles for the device alone, and has no headers of the host's C++ library: "
            "include CUDA's for devices, such as <cuda/std/cstdint> and <cuda/std/cmath>, and keep "
            f"main() and host code in another file. {_USE_NVCC}"
        )
    elif status == "NVRTC_ERROR_INVALID_OPTION":
        lines.append(f"This is no option of NVRTC. {_USE_NVCC}")
    return "\n".join(lines)
