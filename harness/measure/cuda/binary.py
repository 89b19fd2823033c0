"""What nvcc and NVRTC have in common: architectures, the record of a build with what ptxas reports,
and the files that a program includes."""

from __future__ import annotations

import re
import shlex
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from harness.core.errors import BackendUnavailable, BuildFailed, UsageError
from harness.core.kernel_name import without_references
from harness.core.program import Binary, Program, with_marks
from harness.core.records import Build
from harness.core.text import nearest
from harness.measure.builds.cache import digests
from harness.measure.builds.messages import require_obeyed
from harness.measure.cuda.cubin import machine_code_sha256, readable
from harness.source.kernel_source import INCLUDE, find_include


class _Resources(NamedTuple):
    """The largest of each resource over all functions; None where ptxas does not report it.

    `spill_bytes` is the sum of the spilled stores and loads of one thread.
    """

    registers: int | None
    shared_bytes: int | None
    spill_bytes: int | None


_FRAME = r"(?:ptxas\s+\.)?\s+\d+ bytes stack frame,"  # NVRTC puts "ptxas ." before it
_SPILL = re.compile(rf"^{_FRAME} (\d+) bytes spill stores, (\d+) bytes spill loads", re.MULTILINE)
_USED = re.compile(
    r"^ptxas info\s*: Used (\d+) registers(?:.*?\b(\d+)(?:\+\d+)? bytes smem)?", re.MULTILINE
)
_ROUTINE = re.compile(
    r"^ptxas info\s*: (\d+ bytes gmem|Compiling entry function|Function properties|Used \d|"
    rf"Compile time|Overriding maximum register limit)|^{_FRAME}"
)


def parse_resources(report: str) -> _Resources:
    """Return the resources that ptxas reports.

    For functions that are called and not inlined, it reports only spills: their registers count as
    the kernel's.
    """
    used = _USED.findall(report)
    spilled = _SPILL.findall(report)
    return _Resources(
        max((int(registers) for registers, _ in used), default=None),
        max((int(shared or 0) for _, shared in used), default=None),
        max((int(stores) + int(loads) for stores, loads in spilled), default=None),
    )


SOURCE_NAME = "kernel.cu"
"""The name of the source in messages about what has no `#line`."""

_DYNAMIC = (
    "Arrays of fixed size have 48 KiB in all. For more, up to max_shared_bytes of the device, "
    "declare one `extern __shared__` array, and give its bytes in launch.shared"
)


def readable_log(report: str) -> str:
    """Return the warnings and errors of a report, with kernels as a person names them."""
    lines = (line for line in report.splitlines() if not _ROUTINE.match(line))
    log = without_references("\n".join(lines).strip())
    log = re.sub(r"\b_Z\w+", lambda match: readable(match[0]), log)
    if "uses too much shared data" in log:
        log += f"\n{_DYNAMIC}"
    return re.sub(rf'\n+\d+ errors? detected in the compilation of "{SOURCE_NAME}"\.', "", log)


class CudaCompiler(ABC):
    """Compile programs for one architecture, such as `sm_90`; subclasses call a compiler.

    `name` is nvcc or nvrtc, `release` its version and build. `cure` says how to install
    another release.
    """

    name: str
    release: str
    cure: str
    arch: str

    @abstractmethod
    def _accepts(self, arch: str) -> bool:
        """Say whether it compiles for an architecture with a feature suffix, which none lists."""

    @abstractmethod
    def _compiled(self, program: Program) -> tuple[bytes, str, Iterable[str]]:
        """Return the cubin, the report of ptxas, and the files that were read; raises BuildFailed
        with the log: after an error or a timeout."""

    @property
    def identity(self) -> str:
        """The release and build, and the architecture."""
        return f"{self.name} {self.release} {self.arch}"

    def compile(self, program: Program) -> Binary:
        """Compile to a cubin; return it with what ptxas reports.

        Registers, shared and spilled bytes are the largest of any function in the file, since any
        of them may be launched. `binary_sha256` is that of the machine code (see
        `harness.measure.cuda.cubin`), equal for flags that change nothing. Raises BuildFailed with
        the log, also where the report warns that a flag is not obeyed.
        """
        begin_s = time.perf_counter()
        try:
            cubin, report, read = self._compiled(program)
            compile_s = time.perf_counter() - begin_s
            sha256 = machine_code_sha256(cubin)
        except BuildFailed as error:
            raise BuildFailed(with_marks(str(error), program.files)) from None
        except ValueError as error:
            raise BuildFailed(f"the output of {self.name} is no cubin: {error}") from error
        report = with_marks(report, program.files)
        require_obeyed("nvcc", report)  # whose flags NVRTC takes
        build = Build(
            key=program.key(self.identity),
            options=shlex.join(program.options),
            compiler=self.identity,
            compile_s=compile_s,
            binary_sha256=sha256,
            **parse_resources(report)._asdict(),
            log=readable_log(report),
        )
        return Binary(build, cubin, digests(read))

    def _set_arch(self, arch: str, supported: Sequence[str], specific: bool) -> None:
        """Compile for an architecture; if it is `specific`, with the features of its own (sm_90a),
        where the compiler has those.

        `supported` is what the compiler lists. Raises UsageError for a malformed name,
        BackendUnavailable for one that the compiler does not accept.
        """
        choice = f"it compiles for {', '.join(supported)}"
        if not re.fullmatch(r"sm_\d+[af]?", arch):
            near = nearest(arch, supported, cutoff=0.5)
            hint = f" (did you mean `{near}`?)" if near else ""
            raise UsageError(f"{arch!r} is no architecture of {self.name}{hint}: {choice}")
        is_listed = arch in supported
        if not is_listed and not (arch.rstrip("af") in supported and self._accepts(arch)):
            raise BackendUnavailable(
                f"{self.name} {self.release} does not compile for {arch}: {choice}. {self.cure}"
            )
        self.arch = arch
        if specific and is_listed and self._accepts(f"{arch}a"):
            self.arch = f"{arch}a"


def why_untracked(program: Program) -> str | None:
    """Return why the files that a compiler reads cannot be found in its text; None where they
    can."""
    for option in program.options:
        if "include" in option:
            return f"the option `{option}` reads a file"
    for include in _includes(program):
        if include[3]:
            return f"`#include {include[3]}` names its file by a macro"
    return None


def includes_others(program: Program, folders: Sequence[Path]) -> bool:
    """Say whether a program includes files that are neither in its folders nor in these."""
    searched = (*map(Path, program.include_dirs), *folders)
    for include in _includes(program):
        if not include[3] and find_include(include, None, searched) is None:
            return True
    return False


def _includes(program: Program) -> Iterator[re.Match[str]]:
    for text in (program.text, *program.includes):
        yield from INCLUDE.finditer(text)
