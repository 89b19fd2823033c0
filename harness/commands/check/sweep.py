"""Many configurations of a space compiled at once, and what came of them in a few lines.

No kernel is run, and for an architecture of nvcc no GPU is needed.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.padding import Padding
from rich.table import Table

from harness.analysis.failures import group_failures
from harness.commands.check.describe import print_notices, size_told
from harness.commands.check.inspection import Inspection, Trial, unjudged
from harness.core.text import counted
from harness.display import ProgressDisplay, format_time, make_console
from harness.display.text import print_line

_SHOWN_REASONS = 10


@dataclass(frozen=True)
class Sweep:
    """What came of compiling configurations; those that failed either have no build, or one that
    the target cannot launch."""

    trials: Sequence[Trial]
    wall_s: float

    @property
    def compiled(self) -> list[Trial]:
        """Those that the compiler built."""
        return [trial for trial in self.trials if trial.build is not None]

    @property
    def codes(self) -> set[str]:
        """The different machine codes, by their digests."""
        found = (trial.build.binary_sha256 for trial in self.trials if trial.build)
        return {sha256 for sha256 in found if sha256 is not None}

    @property
    def refused(self) -> list[Trial]:
        """Those that were not built."""
        return [trial for trial in self.trials if trial.build is None]

    @property
    def unlaunchable(self) -> list[Trial]:
        """Those that were built, and that the target cannot launch."""
        return [trial for trial in self.trials if trial.build is not None and trial.failure]


def sweep(inspection: Inspection) -> Sweep:
    """Wait for all configurations of an inspection, telling the progress on standard error."""
    started = time.perf_counter()
    trials: list[Trial] = []
    with ProgressDisplay(make_console(stderr=True)) as display:
        title = f"{inspection.spec.name} for {inspection.target.name}"
        display.begin_stage(title, inspection.count)
        for trial in inspection.trials():
            trials.append(trial)
            display.step(trial.headline if trial.failure else "compiled")
    return Sweep(trials, time.perf_counter() - started)


def describe_sweep(console: Console, inspection: Inspection, found: Sweep) -> None:
    """Tell how many machine codes there are, what they take, and what failed."""
    spec, target = inspection.spec, inspection.target
    print_line(console, f"  within the limits of {target.name}: {size_told(inspection.size)}")
    print_notices(console, spec, target.backend.compiler)
    for sentence in unjudged(spec, target):
        print_line(console, f"  note: {sentence}")
    if inspection.missing:
        told = f"only {counted(inspection.count - 1, 'other legal configuration')} were found"
        print_line(console, f"  note: {told}")
    print_line(console, f"  {target.name}: {_counts_told(found)}")
    print_line(console, f"  {_times_told(found)}")
    rows = list(_rows(found.compiled))
    if rows:
        console.print(Padding(_table(rows), (0, 0, 0, 2), expand=False))
    _print_reasons(console, "not compiled", found.refused)
    _print_reasons(console, "compiled, but cannot be launched", found.unlaunchable)


def _counts_told(found: Sweep) -> str:
    total, codes = len(found.trials), len(found.codes)
    told = f"{counted(total, 'configuration')}, the default among them: "
    told += f"{len(found.compiled)} compiled to {counted(codes, 'different machine code')}"
    return f"{told}, {len(found.refused)} not compiled, {len(found.unlaunchable)} not launchable"


def _times_told(found: Sweep) -> str:
    cached = sum(trial.build.cached for trial in found.compiled if trial.build)
    new = len(found.trials) - cached
    per_second = f" ({new / found.wall_s:.2f} a second)" if new else ""
    return (
        f"{new} compiled now, {cached} taken from the build cache, in "
        f"{format_time(found.wall_s)}{per_second}"
    )


def _rows(compiled: Sequence[Trial]) -> Iterator[tuple[str, list[float], bool]]:
    """Each resource with its values, and whether they are seconds."""
    builds = [trial.build for trial in compiled if trial.build is not None]
    yield "registers", [b.registers for b in builds if b.registers is not None], False
    yield (
        "shared memory, bytes",
        [b.shared_bytes for b in builds if b.shared_bytes is not None],
        False,
    )
    yield "spills, bytes", [b.spill_bytes for b in builds if b.spill_bytes is not None], False
    shares = [100 * t.occupancy.fraction for t in compiled if t.occupancy is not None]
    yield "occupancy, %", shares, False
    yield "time to compile", [b.compile_s for b in builds], True


def _table(rows: Sequence[tuple[str, list[float], bool]]) -> Table:
    table = Table()
    table.add_column("of each configuration")
    for heading in ("least", "median", "most"):
        table.add_column(heading, justify="right")
    for name, values, are_seconds in rows:
        if values:
            ends = (min(values), statistics.median(values), max(values))
            shown = [format_time(v) if are_seconds else f"{v:,.0f}" for v in ends]
            table.add_row(name, *shown)
    return table


def _print_reasons(console: Console, what: str, failed: Sequence[Trial]) -> None:
    groups = group_failures(failed, lambda trial: trial.headline)
    for group in groups[:_SHOWN_REASONS]:
        print_line(console, f"  {what}: {len(group.members)} x {group.headline}")
        print_line(console, f"    for example ({group.members[0].config})")
    if len(groups) > _SHOWN_REASONS:
        rest = sum(len(group.members) for group in groups[_SHOWN_REASONS:])
        print_line(console, f"  {what}: {rest} x {len(groups) - _SHOWN_REASONS} other reasons")
