"""harness compare BASE CANDIDATE: find what became slower or faster.

Exit status: 0 nothing became slower, 1 something did or works no more, 2 they cannot be compared.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console

from harness.api.documents import CompareDocument
from harness.commands.run import print_json
from harness.compare.comparison import Rules, compare
from harness.compare.reading import KernelResults, read_kernel_results
from harness.compare.rerun import (
    RerunSide,
    check_rerun_database,
    opened_sides,
    plan_rerun,
    rerun_kernel,
)
from harness.compare.table import as_junit, comparison_table, error_junit, summary
from harness.core.errors import HarnessError
from harness.core.files import write_output
from harness.display.progress import ProgressDisplay
from harness.display.text import make_console, print_line
from harness.measure.choose import open_measurer
from harness.measure.measurer import Measurer
from harness.options.others import CompareOptions
from harness.results import Store, check_database, without_password, writing
from harness.space_file import Spec, load_spec

REGRESSION = 1


_Sides = tuple[Sequence[KernelResults], Sequence[KernelResults], Sequence[str]]
"""The results of BASE and CANDIDATE, and what to note."""


def run(options: CompareOptions) -> int:
    """Compare two databases, and write the result to all outputs; return the exit code. With
    --json, the text goes to standard error."""
    console = make_console(stderr=options.json)
    rules = Rules(
        options.level,
        options.threshold,
        options.run_noise,
        ("best", "default") if options.of == "both" else (options.of,),
        options.across_environments,
        is_rerun=options.rerun is not None,
    )
    try:
        read = _read(options) if options.rerun is None else _rerun(options, options.rerun)
        base, candidate, notes = read
        comparison = compare(base, candidate, rules)
    except HarnessError as error:
        _write_junit(options, console, error_junit(str(error)))
        raise
    comparison = dataclasses.replace(comparison, notes=(*comparison.notes, *notes))
    status = REGRESSION if comparison.regressions else 0
    console.print(comparison_table(comparison))
    _write_junit(options, console, as_junit(comparison))
    if options.json:
        text = summary(comparison)
        print_json(CompareDocument.describe(comparison=comparison, status=status, summary=text))
    return status


def _write_junit(options: CompareOptions, console: Console, junit: str) -> None:
    if options.junit is not None:
        write_output(options.junit, junit)
        print_line(console, f"{options.junit}: the comparison as JUnit XML")


def _read(options: CompareOptions) -> _Sides:
    """Read both sides: all of their kernels or one."""
    kernel, specs = options.space, [load_spec(path) for path in options.spec]
    programs = {s.name: s.program_sha256 for s in specs if kernel in (None, s.name)}
    old = read_kernel_results(options.base, kernel)
    return old, read_kernel_results(options.candidate, kernel, programs), ()


def _rerun(options: CompareOptions, spaces: Sequence[Path]) -> _Sides:
    """Measure the best and the default of both databases now, side by side; store what was
    measured."""
    base, candidate, database = options.base, options.candidate, options.rerun_database
    check_rerun_database(database, (base, candidate))
    check_database(database)
    spaces = spaces or options.spec
    planned = plan_rerun(base, candidate, spaces, options.base_space, options.space)
    results: list[tuple[KernelResults, KernelResults]] = []
    notes: list[str] = []
    console = make_console(stderr=True)

    def open_(spec: Spec, owner: Measurer | None) -> Measurer:
        return open_measurer(spec, options.backend, owner, options.device)[0]

    with writing(database) as engine, Store(engine) as store, ProgressDisplay(console) as display:
        for pair in planned:
            with opened_sides(pair, open_) as (old, new):
                inputs = len(old.results.inputs)
                display.begin_stage(f"{new.results.kernel}: both sides, interleaved", inputs)
                rerun = rerun_kernel(old, new, store, options.occasions, display.step)
                notes += _rerun_notes((old, new), options.occasions)
            results.append(rerun)
    stored = f"the measurements of this comparison are in {without_password(database)}"
    return [old for old, _ in results], [new for _, new in results], [*notes, stored]


def _rerun_notes(sides: Sequence[RerunSide], occasions: int) -> Iterator[str]:
    """Say how a kernel was measured, and which side was tuned elsewhere."""
    last = sides[-1]
    yield (
        f"{last.results.kernel}: both sides were measured now, in {occasions} occasions of "
        f"{last.rounds(occasions)} rounds, in random order"
    )
    for side in sides:
        if side.results.environment != side.measurer.environment:
            yield f"{side.results.kernel}: {side.name} was tuned on {side.results.environment}"
    yield from dict.fromkeys(notice for side in sides for notice in side.measurer.notices)
