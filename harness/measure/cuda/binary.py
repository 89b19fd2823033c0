"""What nvcc and NVRTC have in common: the report of ptxas, the record of a build, architectures,
and the files that a program includes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from harness.core.errors import BackendUnavailable, BuildFailed, UsageError
from harness.core.kernel_name import without_references
from harness.core.program import Binary, Program
from harness.core.records import Build
from harness.core.text import nearest
from harness.measure.builds.compiled import require_obeyed
from harness.measure.cuda.cubin import machine_code_sha256, readable
from harness.source.kernel_source import INCLUDE


class Resources(NamedTuple):
    """The largest of each resource over all functions; None where ptxas does not report it.

    `spill_bytes` is the sum of the spilled stores and loads of one thread.
    """

    registers: int | None = None
    shared_bytes: int | None = None
    spill_bytes: int | None = None


_FRAME = r"(?:ptxas\s+\.)?\s+\d+ bytes stack frame,"  # NVRTC puts "ptxas ." before it
_SPILL = re.compile(rf"^{_FRAME} (\d+) bytes spill stores, (\d+) bytes spill loads", re.MULTILINE)
_USED = re.compile(
    r"^ptxas info\s*: Used (\d+) registers(?:.*?\b(\d+)(?:\+\d+)? bytes smem)?", re.MULTILINE
)
_ROUTINE = re.compile(
    r"^ptxas info\s*: (\d+ bytes gmem|Compiling entry function|Function properties|Used \d|"
    rf"Compile time|Overriding maximum register limit)|^{_FRAME}"
)


def parse_resources(report: str) -> Resources:
    """Return the resources that ptxas reports.

    For functions that are called and not inlined, it reports only spills: their registers count as
    the kernel's.
    """
    used, spilled = _USED.findall(report), _SPILL.findall(report)
    return Resources(
        max((int(registers) for registers, _ in used), default=None),
        max((int(shared or 0) for _, shared in used), default=None),
        max((int(stores) + int(loads) for stores, loads in spilled), default=None),
    )


def without_resources(report: str) -> str:
    """Return the report without the lines of resources: only warnings and errors."""
    kept = (line for line in report.splitlines() if not _ROUTINE.match(line))
    return "\n".join(kept).strip()


SOURCE_NAME = "kernel.cu"
"""The name of the source in messages about what has no `#line`."""

_DYNAMIC = (
    "Arrays of fixed size have 48 KiB in all. For more, up to max_shared_bytes of the device, "
    "declare one `extern __shared__` array, and give its bytes in launch.shared"
)


def cuda_binary(
    compiler: str,
    identity: str,
    program: Program,
    cubin: bytes,
    report: str,
    compile_s: float,
    read: tuple[tuple[str, str], ...],
) -> Binary:
    """Return the binary of a program, with what ptxas reports.

    Registers, shared and spilled bytes are the largest of any function in the file, since any of
    them may be launched. `binary_sha256` is that of the machine code (see
    `harness.measure.cuda.cubin`), equal for flags that change nothing. Raises BuildFailed where
    the report warns that a flag is not obeyed, and where the output is no cubin.
    """
    require_obeyed("nvcc", report)  # whose flags NVRTC takes
    resources = parse_resources(report)
    build = Build(
        key=program.key(identity),
        options=shlex.join(program.options),
        compiler=identity,
        compile_s=compile_s,
        binary_sha256=_hash(compiler, cubin),
        **resources._asdict(),
        log=readable_log(report),
    )
    return Binary(build, cubin, read)


def _hash(compiler: str, cubin: bytes) -> str:
    try:
        return machine_code_sha256(cubin)
    except ValueError as error:
        raise BuildFailed(f"the output of {compiler} is no cubin: {error}") from error


def readable_log(report: str) -> str:
    """Return the warnings and errors of a report, with kernels as a person names them."""
    log = without_references(without_resources(report))
    log = re.sub(r"\b_Z\w+", lambda found: readable(found[0]), log)
    if "uses too much shared data" in log:
        log += f"\n{_DYNAMIC}"
    return re.sub(rf'\n+\d+ errors? detected in the compilation of "{SOURCE_NAME}"\.', "", log)


def checked_arch(
    compiler: str,
    arch: str,
    known: Sequence[str],
    accepts: Callable[[str], bool],
    cure: str,
    specific: bool,
) -> str:
    """Return an architecture that a compiler knows; if it is `specific`, with the features of its
    own (sm_90a), where the compiler knows those.

    `compiler` is its name and version, and `known` what it lists: `accepts` is asked for those with
    a feature suffix, which none lists. `cure` installs another release, with {} for older or newer.
    Raises UsageError for a malformed name, BackendUnavailable for one that is not known.
    """
    choice = f"compiles for {', '.join(known)}"
    if not re.fullmatch(r"sm_\d+[af]?", arch):
        hint, name = _nearest(arch, known), compiler.partition(" ")[0]
        raise UsageError(f"{arch!r} is not an architecture of {name}{hint} It {choice}")
    if arch not in known and not (arch.rstrip("af") in known and accepts(arch)):
        raise BackendUnavailable(
            f"{compiler} does not compile for {arch}: it {choice}. {_advice(arch, known, cure)}"
        )
    return f"{arch}a" if specific and arch in known and accepts(f"{arch}a") else arch


def _nearest(arch: str, known: Sequence[str]) -> str:
    near = nearest(arch, known, cutoff=0.5)
    return f"; did you mean `{near}`?" if near else "."


def _advice(arch: str, known: Sequence[str], cure: str) -> str:
    """Say which release knows an architecture that this one does not know."""
    number, numbers = _number(arch), sorted(map(_number, known))
    if not numbers or numbers[0] <= number <= numbers[-1]:
        return f"No release may know it{_nearest(arch, known)}"
    age, other = ("old", "an older") if number < numbers[0] else ("new", "a newer")
    return f"The device is too {age} for this release: {cure.format(other)}"


def _number(arch: str) -> int:
    return int("".join(filter(str.isdigit, arch)))


def why_untracked(program: Program) -> str | None:
    """Return why the files that a compiler reads cannot be found in its text; None where they
    can."""
    option = next((option for option in program.options if "include" in option), None)
    if option is not None:
        return f"the option `{option}` reads a file"
    macro = next((macro for _, _, macro in _includes(program) if macro), None)
    return None if macro is None else f"`#include {macro}` names its file by a macro"


def includes_others(program: Program, folders: Sequence[Path]) -> bool:
    """Say whether a program includes files that are neither in its folders nor in these."""
    searched = (*map(Path, program.include_dirs), *folders)
    names = (quoted or bracketed for quoted, bracketed, _ in _includes(program))
    return any(not any((f / name).is_file() for f in searched) for name in names if name)


def _includes(program: Program) -> Iterator[tuple[str, str, str]]:
    for text in (program.text, *program.includes):
        yield from INCLUDE.findall(text)
