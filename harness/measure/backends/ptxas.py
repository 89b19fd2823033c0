"""Parse the resources of each function that ptxas reports through nvcc and NVRTC."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Resources:
    """The resources of one function; None where ptxas does not report them.

    `spill_bytes` is the sum of the spilled stores and loads of one thread.
    """

    registers: int | None = None
    shared_bytes: int | None = None
    spill_bytes: int | None = None


_FUNCTION = re.compile(r"^ptxas info\s*: Function properties for (\S+)")
_FRAME = r"(?:ptxas\s+\.)?\s+\d+ bytes stack frame,"  # NVRTC puts "ptxas ." before it
_SPILL = re.compile(rf"^{_FRAME} (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"^ptxas info\s*: Used (\d+) registers")
_SHARED = re.compile(r"\b(\d+)(?:\+\d+)? bytes smem")
_ROUTINE = re.compile(
    r"^ptxas info\s*: (\d+ bytes gmem|Compiling entry function|Function properties|Used \d|"
    rf"Compile time|Overriding maximum register limit)|^{_FRAME}"
)


def parse_resources(report: str) -> dict[str, Resources]:
    """Return the resources of each function by its (mangled) name.

    For functions that are called and not inlined, ptxas reports only spills: their registers
    count as the kernel's.
    """
    functions: dict[str, Resources] = {}
    name = ""
    for line in report.splitlines():
        if found := _FUNCTION.match(line):
            name = found[1]
            functions[name] = Resources()
        elif name and (found := _SPILL.match(line)):
            spill_bytes = int(found[1]) + int(found[2])
            functions[name] = replace(functions[name], spill_bytes=spill_bytes)
        elif name and (found := _USED.match(line)):
            shared = _SHARED.search(line)
            functions[name] = replace(
                functions[name],
                registers=int(found[1]),
                shared_bytes=int(shared[1]) if shared else 0,
            )
    return functions


def worst_of(functions: Iterable[Resources]) -> Resources:
    """Return the largest of each resource over all functions; None where none reports it."""
    known = tuple(functions)
    return Resources(
        registers=_largest(each.registers for each in known),
        shared_bytes=_largest(each.shared_bytes for each in known),
        spill_bytes=_largest(each.spill_bytes for each in known),
    )


def _largest(values: Iterable[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)


def without_resources(report: str) -> str:
    """Return the report without the lines of resources: only warnings and errors."""
    kept = (line for line in report.splitlines() if not _ROUTINE.match(line))
    return "\n".join(kept).strip()
