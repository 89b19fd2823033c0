"""Compile CUDA kernels to cubins with nvcc, which needs neither a GPU nor a driver."""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from harness.core.errors import BackendUnavailable, BuildFailed
from harness.core.program import Program
from harness.measure.cuda.binary import (
    SOURCE_NAME,
    CudaCompiler,
    includes_others,
    readable_log,
    why_untracked,
)

COMPILE_TIMEOUT_S = 120.0
_BINARY_NAME = "kernel.cubin"
_READ_NAME = "kernel.d"

# nvcc obeys these variables: builds under different values must not be mixed up.
ENVIRONMENT = ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVCC_CCBIN")

# nvcc's preprocessor leaves pragmas as they are; NVRTC's does not.
_MACRO_IN_UNROLL = re.compile(r'identifier "(\w+)" is undefined\n\s*#\s*pragma unroll\b.*\b\1\b')
_USE_CONSTANT = (
    "nvcc expands no macro in `#pragma unroll`: for a parameter UNROLL write "
    "`constexpr int factor = UNROLL;` and `#pragma unroll factor`"
)


class Nvcc(CudaCompiler):
    """Compile programs with nvcc.

    `executable` is by default that of `find_nvcc`. With `specific`, the architecture is that of the
    same device with its own features, such as `sm_90a`, if it has one. Raises UsageError for a
    malformed architecture, and BackendUnavailable where nvcc or its host compiler is missing, or
    where it does not support the architecture.
    """

    name = "nvcc"
    cure = "Install another toolkit, and set CUDACXX to its nvcc"

    def __init__(
        self, arch: str, executable: Path | None = None, *, specific: bool = False
    ) -> None:
        self._executable = executable or find_nvcc()
        self._version = _release(self._executable)
        self.release = f"{self._version} ({self._executable})"
        # The environment may name another compiler (-ccbin).
        if shutil.which("gcc") is None and not any(map(os.environ.get, ENVIRONMENT)):
            raise BackendUnavailable(
                f"{self._executable} needs a C++ compiler for the host, but there is no gcc on "
                "PATH. Install g++, or set NVCC_CCBIN to another compiler"
            )
        self._set_arch(arch, supported_archs(self._executable), specific)

    @property
    def identity(self) -> str:
        """nvcc's release and build, the architecture, and the flags of the environment."""
        identity = f"nvcc {self._version} {self.arch}"
        for name in ENVIRONMENT:
            if os.environ.get(name):
                identity += f" {name}={os.environ[name]}"
        return identity

    def _compiled(self, program: Program) -> tuple[bytes, str, list[str]]:
        timeout_s = program.timeout_s or COMPILE_TIMEOUT_S
        with tempfile.TemporaryDirectory(prefix="harness-nvcc-") as name:
            folder = Path(name)
            (folder / SOURCE_NAME).write_text(program.text, encoding="utf-8")
            status, output = run_in_group(self._command(program), folder, timeout_s)
            # Without the temporary folder, and the numbers of nvcc's intermediate files.
            report = output.replace(f"{folder}/", "").replace(str(folder), ".")
            report = re.sub(r"\btmpxft_[0-9a-f]+_[0-9a-f]+-\d+_", "", report)
            if status == 0:
                return (folder / _BINARY_NAME).read_bytes(), report, _headers(folder / _READ_NAME)
        log = readable_log(report)
        if status is None:
            reason = f"nvcc did not finish within {timeout_s:g} s and was killed; give it more "
            reason += "with `compiler: {nvcc: {build_timeout_s: SECONDS}}`, and tune with --fresh"
            raise BuildFailed(f"{reason}\n{log}".strip())
        log = log or "nvcc printed nothing"
        if _MACRO_IN_UNROLL.search(report):
            log += f"\n{_USE_CONSTANT}"
        raise BuildFailed(f"nvcc ended with status {status}\n{log}")

    def _command(self, program: Program) -> list[str]:
        # The program's options come first: of two that conflict nvcc takes the last, and neither
        # the architecture nor the kind of output may differ from what the identity says.
        command = [str(self._executable), *program.words]
        for folder in program.include_dirs:
            command.append(f"-I{Path(folder).resolve()}")
        command += [f"-arch={self.arch}", "--resource-usage", "-cubin"]
        # A list of the files that nvcc reads takes a tenth of the time of a build.
        reads_others = why_untracked(program) is not None or includes_others(program, ())
        if reads_others or any(map(os.environ.get, ENVIRONMENT)):
            command += ["-MMD", "-MF", _READ_NAME]
        return [*command, "-x", "cu", SOURCE_NAME, "-o", _BINARY_NAME]

    def _accepts(self, arch: str) -> bool:
        ask = [str(self._executable), "--dryrun", "-cubin", f"-arch={arch}", "-x", "cu", os.devnull]
        return subprocess.run(ask, capture_output=True, check=False).returncode == 0


def find_nvcc() -> Path:
    """Find nvcc: $CUDACXX, $CUDA_HOME/bin, $CUDA_PATH/bin, $PATH, /usr/local/cuda/bin, then where
    cuda-pathfinder finds one, such as in PyPI's wheel.

    Raises BackendUnavailable, which names the places and says what to install.
    """
    named = os.environ.get("CUDACXX")
    if named:
        path = shutil.which(named)
        if path is None:
            raise BackendUnavailable(
                f"CUDACXX is {named!r}, but there is no such program. "
                "Set it to the path of nvcc, or unset it"
            )
        return Path(path)
    homes = [os.environ.get(name) for name in ("CUDA_HOME", "CUDA_PATH")]
    folders = [os.path.join(home, "bin") for home in homes if home]
    folders += [os.environ.get("PATH", os.defpath), "/usr/local/cuda/bin"]
    path = shutil.which("nvcc", path=os.pathsep.join(folders))
    if path is None:
        with contextlib.suppress(ImportError, ChildProcessError):
            path = importlib.import_module("cuda.pathfinder").find_nvidia_binary_utility("nvcc")
    if path is None:
        raise BackendUnavailable(
            "nvcc was not found: CUDACXX is not set, and there is none in $CUDA_HOME/bin, on PATH, "
            "in /usr/local/cuda/bin or from the wheel nvidia-cuda-nvcc. Install the CUDA toolkit, "
            "or pip install nvidia-cuda-nvcc cuda-pathfinder"
        )
    return Path(path)


def supported_archs(executable: Path) -> tuple[str, ...]:
    """Return the real architectures of an nvcc, such as `sm_90`, in its order."""
    listed = _ask(executable, "--list-gpu-code").split()
    return tuple(name for name in listed if name.startswith("sm_"))


def _release(executable: Path) -> str:
    """Return the version and build, such as `13.0.88 (compiler.36424714_0)`."""
    text = _ask(executable, "--version")
    version = re.search(r"\bV(\d[\d.]*)", text)
    if version is None:
        raise BackendUnavailable(
            f"{executable} --version names no version, but printed {text.strip()[:200]!r}. "
            "Set CUDACXX to a working nvcc"
        )
    build = re.search(r"^Build \S*/(\S+)", text, re.MULTILINE)
    return version[1] + (f" ({build[1]})" if build else "")


def _ask(executable: Path, question: str) -> str:
    command = [str(executable), question]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError) as error:
        raise BackendUnavailable(
            f"{shlex.join(command)} failed: {error}. Set CUDACXX to a working nvcc"
        ) from error
    return done.stdout


def _headers(rule: Path) -> list[str]:
    """Return the files that nvcc read, from the rule for make that it wrote.

    The toolkit's own are left out, since the release of nvcc stands for them, and so are those in
    nvcc's folder, which the program names.
    """
    try:
        text = rule.read_text(encoding="utf-8").replace("\\\n", " ")
    except OSError:  # the flags of the environment name another file
        return []
    words = [word.replace("\\ ", " ") for word in re.findall(r"(?:\\ |\S)+", text)]
    paths = [os.path.realpath(word) for word in words if os.path.isabs(word)]
    runtime = "/cuda_runtime.h"
    toolkit = tuple(path[: 1 - len(runtime)] for path in paths if path.endswith(runtime))
    return sorted({path for path in paths if not path.startswith(toolkit)})


def run_in_group(command: Sequence[str], folder: Path, timeout_s: float) -> tuple[int | None, str]:
    """Run a command in a folder; return its exit status, None after a timeout, and its output.

    The command has a process group of its own, which is killed as a whole: nvcc's children
    (cicc, ptxas) would otherwise outlive it. Raises OSError where it cannot start.
    """
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, "TMPDIR": str(folder), "LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=timeout_s)
    except BaseException as error:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        if not isinstance(error, subprocess.TimeoutExpired):
            raise
        return None, output
    return process.returncode, output
