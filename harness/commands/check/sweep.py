"""Print the counts and resources of many builds."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table

from harness.commands.check.checking import TargetCheck
from harness.commands.check.inspection import Compiled
from harness.core.text import counted, format_time
from harness.display.text import make_table, print_line


def print_sweep(console: Console, target: TargetCheck) -> None:
    """Print the number of machine codes, their resources, and parameters that change no build."""
    inspection = target.inspection
    print_line(console, f"  {inspection.name}: {_counts(target)}")
    print_line(console, f"  {_times(target)}")
    rows = [row for row in _rows(target.results) if row[1]]
    if rows:
        console.print(Padding(_table(rows), (0, 0, 0, 2), expand=False))
    unless = ", unless the host module reads it" if inspection.spec.program is None else ""
    for name, tried in (target.without_effect or {}).items():
        print_line(
            console,
            f"  note: {name} changes no build of {tried} tried for {inspection.name}. "
            f"Leave it out there{unless}.",
        )


def _counts(target: TargetCheck) -> str:
    results, is_program = target.results, target.inspection.spec.program is not None
    built = [result for result in results if result.build is not None]
    unlaunchable = sum(bool(result.failure) for result in built)
    # nvcc writes its options into an executable, so that equal code may have several digests.
    most = "at most " if is_program else ""
    return (
        f"{counted(len(results), 'configuration')} with the default: {len(built)} compiled to "
        f"{most}{counted(len(target.codes), 'different machine code')}, "
        f"{len(results) - len(built)} not compiled"
        + ("" if is_program else f", {unlaunchable} not launchable")
    )


def _times(target: TargetCheck) -> str:
    cached = sum(result.build.cached for result in target.results if result.build)
    new = len(target.results) - cached
    rate = f" ({new / target.wall_s:.2f} per second)" if new else ""
    return (
        f"{new} compiled now, {cached} from the build cache, in {format_time(target.wall_s)}{rate}"
    )


def _rows(results: Sequence[Compiled]) -> Iterator[tuple[str, list[float], bool]]:
    """Yield each resource with its values, and whether they are seconds."""
    built = [result for result in results if result.build is not None]
    builds = [result.build for result in built if result.build is not None]
    shared = [result.shared_bytes for result in built if result.shared_bytes is not None]
    yield "registers", [b.registers for b in builds if b.registers is not None], False
    yield "shared memory, bytes", [float(size) for size in shared], False
    yield "spills, bytes", [b.spill_bytes for b in builds if b.spill_bytes is not None], False
    shares = [100 * r.occupancy.fraction for r in built if r.occupancy is not None]
    yield "occupancy, %", shares, False
    yield "compile time", [b.compile_s for b in builds], True


def _table(rows: Sequence[tuple[str, list[float], bool]]) -> Table:
    def cells(name: str, values: list[float], are_seconds: bool) -> list[str]:
        ends = (min(values), statistics.median(values), max(values))
        return [name, *(format_time(v) if are_seconds else f"{v:,.0f}" for v in ends)]

    head = ("per configuration", "least", "median", "most")
    return make_table(head, (cells(*row) for row in rows))
