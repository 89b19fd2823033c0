"""Compile many configurations of a space, and print the counts, resources and failures.

No kernel is run, and an architecture of nvcc needs no GPU.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.padding import Padding
from rich.table import Table

from harness.commands.check.inspection import Compiled, SampledBuilds
from harness.core.text import counted, format_time
from harness.display.formats import make_console
from harness.display.progress import ProgressDisplay
from harness.display.text import make_table, print_line


@dataclass(frozen=True)
class Sweep:
    """The results of compiling configurations."""

    results: Sequence[Compiled]
    wall_s: float

    @property
    def built(self) -> list[Compiled]:
        """The configurations that the compiler built."""
        return [result for result in self.results if result.build is not None]

    @property
    def codes(self) -> set[str]:
        """The digests of the different machine codes."""
        found = (result.build.binary_sha256 for result in self.results if result.build)
        return {sha256 for sha256 in found if sha256 is not None}

    @property
    def refused(self) -> list[Compiled]:
        """The configurations that the compiler refused."""
        return [result for result in self.results if result.build is None]

    @property
    def unlaunchable(self) -> list[Compiled]:
        """The configurations that were built and that the target cannot launch."""
        return [result for result in self.built if result.failure]


def sweep(inspection: SampledBuilds) -> Sweep:
    """Wait for all configurations of an inspection, with progress on standard error."""
    started = time.perf_counter()
    results: list[Compiled] = []
    with ProgressDisplay(make_console(stderr=True)) as display:
        title = f"{inspection.spec.name} for {inspection.name}"
        display.begin_stage(title, inspection.count)
        for result in inspection.compiled():
            results.append(result)
            display.step(result.headline if result.failure else "compiled")
    return Sweep(results, time.perf_counter() - started)


def describe_sweep(console: Console, inspection: SampledBuilds, found: Sweep) -> None:
    """Print the number of machine codes and their resources."""
    print_line(
        console, f"  {inspection.name}: {_counts(found, inspection.spec.program is not None)}"
    )
    print_line(console, f"  {_times(found)}")
    rows = list(_rows(found.built))
    if rows:
        console.print(Padding(_table(rows), (0, 0, 0, 2), expand=False))


def _counts(found: Sweep, is_program: bool) -> str:
    total, codes = len(found.results), len(found.codes)
    # nvcc writes its options into an executable, so that equal code may have several digests.
    most = "at most " if is_program else ""
    unlaunchable = "" if is_program else f", {len(found.unlaunchable)} not launchable"
    return (
        f"{counted(total, 'configuration')} with the default: {len(found.built)} compiled to "
        f"{most}{counted(codes, 'different machine code')}, {len(found.refused)} not compiled"
        f"{unlaunchable}"
    )


def _times(found: Sweep) -> str:
    cached = sum(result.build.cached for result in found.built if result.build)
    new = len(found.results) - cached
    rate = f" ({new / found.wall_s:.2f} per second)" if new else ""
    return (
        f"{new} compiled now, {cached} from the build cache, in {format_time(found.wall_s)}{rate}"
    )


def _rows(built: Sequence[Compiled]) -> Iterator[tuple[str, list[float], bool]]:
    """Yield each resource with its values, and whether they are seconds."""
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
    return make_table(head, (cells(*row) for row in rows if row[1]))
