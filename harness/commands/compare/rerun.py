"""The rerun of a comparison: open what measures both sides, and measure them side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.compare.reading import KernelResults
from harness.compare.rerun import opened_sides, rerun_kernel, rerun_notes
from harness.compare.rerun_plan import check_rerun_database, plan_rerun
from harness.display.formats import make_console
from harness.display.progress import ProgressDisplay
from harness.measure.choose import open_measurer
from harness.measure.measurer import Measurer
from harness.results import (
    Store,
    check_database,
    without_password,
    writing,
)
from harness.space_file import Spec


@dataclass(frozen=True)
class RerunOptions:
    """What is measured again, and where its results go."""

    spaces: Sequence[Path]
    base_spaces: Sequence[Path]
    database: str
    backend: str
    device: Sequence[str]
    occasions: int


@dataclass(frozen=True)
class Sides:
    """The results of both sides, and what to note."""

    base: Sequence[KernelResults]
    candidate: Sequence[KernelResults]
    notes: Sequence[str] = ()


def rerun(base: str, candidate: str, kernel: str | None, options: RerunOptions) -> Sides:
    """Measure the best and the default of both databases now; store what was measured."""
    check_rerun_database(options.database, (base, candidate))
    check_database(options.database)
    planned = plan_rerun(base, candidate, options.spaces, options.base_spaces, kernel)
    results: list[tuple[KernelResults, KernelResults]] = []
    notes: list[str] = []
    console = make_console(stderr=True)

    def open_(spec: Spec, owner: Measurer | None) -> Measurer:
        return open_measurer(spec, options.backend, owner, options.device)[0]

    with (
        writing(options.database) as engine,
        Store(engine) as store,
        ProgressDisplay(console) as display,
    ):
        for pair in planned:
            with opened_sides(pair, open_) as (old, new):
                inputs = len(old.results.inputs)
                display.begin_stage(f"{new.results.kernel}: both sides, interleaved", inputs)
                found = rerun_kernel(old, new, store, options.occasions, display.step)
                notes += rerun_notes((old, new), options.occasions)
            results.append(found)
    stored = f"the measurements of this comparison are in {without_password(options.database)}"
    return Sides([old for old, _ in results], [new for _, new in results], [*notes, stored])
