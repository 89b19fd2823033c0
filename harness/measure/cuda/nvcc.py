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
        _require_host_compiler(self._executable)
        self._set_arch(arch, supported_archs(self._executable), specific)

    @property
    def identity(self) -> str:
        """nvcc's release and build, the architecture, and the flags of the environment."""
        extra = "".join(f" {name}={os.environ[name]}" for name in ENVIRONMENT if _is_set(name))
        return f"nvcc {self._version} {self.arch}{extra}"

    def _compiled(self, program: Program) -> tuple[bytes, str, list[str]]:
        with tempfile.TemporaryDirectory(prefix="harness-nvcc-") as folder:
            cubin, report = self._run(program, Path(folder))
            return cubin, report, _headers(Path(folder, _READ_NAME))

    def _run(self, program: Program, folder: Path) -> tuple[bytes, str]:
        (folder / SOURCE_NAME).write_text(program.text, encoding="utf-8")
        timeout_s = program.timeout_s or COMPILE_TIMEOUT_S
        status, output = run_in_group(self._command(program), folder, timeout_s)
        report = _without_paths(output, folder)
        if status is None:
            reason = f"nvcc did not finish within {timeout_s:g} s and was killed; give it more "
            reason += "with `compiler: {nvcc: {build_timeout_s: SECONDS}}`, and tune with --fresh"
            raise BuildFailed(f"{reason}\n{readable_log(report)}".strip())
        if status != 0:
            log = readable_log(report) or "nvcc printed nothing"
            if _MACRO_IN_UNROLL.search(report):
                log += f"\n{_USE_CONSTANT}"
            raise BuildFailed(f"nvcc ended with status {status}\n{log}")
        return (folder / _BINARY_NAME).read_bytes(), report

    def _command(self, program: Program) -> list[str]:
        # The program's options come first: of two that conflict nvcc takes the last, and neither
        # the architecture nor the kind of output may differ from what the identity says.
        return [
            str(self._executable),
            *program.words,
            *(f"-I{Path(folder).resolve()}" for folder in program.include_dirs),
            f"-arch={self.arch}",
            "--resource-usage",
            "-cubin",
            *(("-MMD", "-MF", _READ_NAME) if _reads_others(program) else ()),
            *("-x", "cu", SOURCE_NAME, "-o", _BINARY_NAME),
        ]

    def _accepts(self, arch: str) -> bool:
        ask = [str(self._executable), "--dryrun", "-cubin", f"-arch={arch}", "-x", "cu", os.devnull]
        return subprocess.run(ask, capture_output=True, check=False).returncode == 0


def find_nvcc() -> Path:
    """Find nvcc: $CUDACXX, $CUDA_HOME/bin, $CUDA_PATH/bin, $PATH, /usr/local/cuda/bin, then where
    cuda-pathfinder finds one, such as in PyPI's wheel.

    Raises BackendUnavailable, which names the places and says what to install.
    """
    named = os.environ.get("CUDACXX")
    homes = [os.path.join(os.environ[n], "bin") for n in ("CUDA_HOME", "CUDA_PATH") if _is_set(n)]
    folders = os.pathsep.join([*homes, os.environ.get("PATH", os.defpath), "/usr/local/cuda/bin"])
    path = shutil.which(named) if named else shutil.which("nvcc", path=folders) or _other_nvcc()
    if path is not None:
        return Path(path)
    if named:
        raise BackendUnavailable(
            f"CUDACXX is {named!r}, but there is no such program. "
            "Set it to the path of nvcc, or unset it"
        )
    raise BackendUnavailable(
        "nvcc was not found: CUDACXX is not set, and there is none in $CUDA_HOME/bin, on PATH, in "
        "/usr/local/cuda/bin or from the wheel nvidia-cuda-nvcc. Install the CUDA toolkit, or "
        "pip install nvidia-cuda-nvcc cuda-pathfinder"
    )


def _other_nvcc() -> str | None:
    """Return the nvcc that cuda-pathfinder finds; None where neither is installed."""
    with contextlib.suppress(ImportError, ChildProcessError):
        path: str | None = importlib.import_module("cuda.pathfinder").find_nvidia_binary_utility(
            "nvcc"
        )
        return path
    return None


def _require_host_compiler(executable: Path) -> None:
    # The environment may name another compiler (-ccbin).
    if shutil.which("gcc") is None and not any(map(_is_set, ENVIRONMENT)):
        raise BackendUnavailable(
            f"{executable} needs a C++ compiler for the host, but there is no gcc on PATH. "
            "Install g++, or set NVCC_CCBIN to another compiler"
        )


def _is_set(name: str) -> bool:
    return bool(os.environ.get(name))


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


def _reads_others(program: Program) -> bool:
    """Say whether nvcc may read files that the program does not hold; to list them takes a tenth
    of the time of a build."""
    is_untracked = why_untracked(program) is not None or any(map(_is_set, ENVIRONMENT))
    return is_untracked or includes_others(program, ())


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
    toolkit = [os.path.dirname(path) for path in paths if path.endswith("/cuda_runtime.h")]
    return sorted({path for path in paths if not path.startswith(tuple(f"{t}/" for t in toolkit))})


def _without_paths(output: str, folder: Path) -> str:
    """Remove the temporary folder and the numbers of nvcc's intermediate files from the output."""
    output = output.replace(f"{folder}/", "").replace(str(folder), ".")
    return re.sub(r"\btmpxft_[0-9a-f]+_[0-9a-f]+-\d+_", "", output)


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
