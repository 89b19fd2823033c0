"""Compare two sets of results, and write the comparison as text and as files."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from harness.api.documents import ComparedDocument, ComparedMeasurementDocument, CompareDocument
from harness.commands.compare.rerun import RerunOptions, Sides, rerun
from harness.commands.run import print_json
from harness.compare import reports
from harness.compare.comparison import ComparedRow, Comparison, Rules, compare
from harness.compare.reading import read_kernel_results
from harness.compare.table import comparison_table, summary
from harness.core.errors import HarnessError, UsageError
from harness.core.files import check_output, write_output
from harness.core.records import Measurement
from harness.display.formats import make_console
from harness.display.text import print_line
from harness.space_file import load_spec

REGRESSION = 1


@dataclass(frozen=True)
class _Outputs:
    """Where a comparison, or the error that prevented it, is written. With --json, the text goes to
    standard error."""

    json: bool
    junit: Path | None
    console: Console

    def check(self) -> None:
        """Raise what `check_output` raises for the file."""
        if self.junit is not None:
            check_output(self.junit)

    def write_error(self, message: str) -> None:
        """Write the error to every output but the document, which `run_command` prints."""
        self._write_junit(reports.error_junit(message))

    def write(self, comparison: Comparison, status: int) -> None:
        """Write the comparison to every output."""
        self.console.print(comparison_table(comparison))
        self._write_junit(reports.as_junit(comparison))
        if self.json:
            print_json(comparison_document(comparison, status))

    def _write_junit(self, junit: str) -> None:
        if self.junit is not None:
            write_output(self.junit, junit)
            print_line(self.console, f"{self.junit}: the comparison as JUnit XML")


def run(args: argparse.Namespace) -> int:
    subjects = ("best", "default") if args.of == "both" else (args.of,)
    rules = Rules(
        args.level,
        args.threshold,
        args.run_noise,
        subjects,
        args.across_environments,
        is_rerun=args.rerun is not None,
    )
    outputs = _Outputs(args.json, args.junit, make_console(stderr=args.json))
    compared = _Compared(args.base, args.candidate, args.space, args.spec, _rerun_options(args))
    return _compare(compared, rules, outputs)


@dataclass(frozen=True)
class _Compared:
    """What is compared: two databases, all of their kernels or one."""

    base: str
    candidate: str
    kernel: str | None
    space_files: Sequence[Path]
    rerun: RerunOptions | None

    def read(self) -> Sides:
        """Read both sides, or measure them again."""
        if self.rerun is not None:
            return rerun(self.base, self.candidate, self.kernel, self.rerun)
        specs = [load_spec(path) for path in self.space_files]
        programs = {s.name: s.program_sha256 for s in specs if self.kernel in (None, s.name)}
        old = read_kernel_results(self.base, self.kernel)
        return Sides(old, read_kernel_results(self.candidate, self.kernel, programs))


def _rerun_options(args: argparse.Namespace) -> RerunOptions | None:
    """Return the options of a rerun; None without --rerun.

    Raises UsageError for options that need --rerun.
    """
    if args.rerun is None:
        if args.base_space:
            raise UsageError("--base-space goes with --rerun, which builds the sources of BASE")
        if args.device:
            raise UsageError("--device goes with --rerun, which measures; leave it out")
        return None
    return RerunOptions(
        args.rerun or args.spec,
        args.base_space,
        args.rerun_database,
        args.backend,
        args.device,
        args.occasions,
    )


def _compare(compared: _Compared, rules: Rules, outputs: _Outputs) -> int:
    """Compare two databases, and write the result to all outputs."""
    outputs.check()
    try:
        sides = compared.read()
        comparison = compare(sides.base, sides.candidate, rules)
    except HarnessError as error:
        outputs.write_error(str(error))
        raise
    comparison = dataclasses.replace(comparison, notes=(*comparison.notes, *sides.notes))
    status = REGRESSION if comparison.regressions else 0
    outputs.write(comparison, status)
    return status


def comparison_document(comparison: Comparison, status: int) -> CompareDocument:
    """Describe a comparison and the exit code of its command."""
    least_certain = comparison.least_certain
    return CompareDocument(
        status=status,
        level=comparison.rules.level,
        threshold=comparison.rules.threshold,
        tested=comparison.tested,
        upper_limit=least_certain[1] if least_certain else None,
        summary=summary(comparison),
        counts=dict(comparison.counts),
        notes=list(comparison.notes),
        comparisons=list(map(_row, comparison.rows)),
    )


def _row(row: ComparedRow) -> ComparedDocument:
    change = row.change
    return ComparedDocument(
        kernel=row.kernel,
        device=row.environment.device,
        cache=row.environment.cache,
        input=dict(row.problem),
        of=row.subject,
        verdict=row.verdict.value,
        base=_measured(row.base),
        candidate=_measured(row.candidate),
        ratio=change.ratio.value if change else None,
        low=change.ratio.low if change else None,
        high=change.ratio.high if change else None,
        p_value=change.p_value if change else None,
        upper_limit=row.upper_limit,
        notes=list(row.notes),
    )


def _measured(measurement: Measurement | None) -> ComparedMeasurementDocument | None:
    if measurement is None or measurement.timing is None:
        return None
    timing = measurement.timing
    return ComparedMeasurementDocument(
        configuration=dict(measurement.config),
        median_s=timing.median_s,
        time_s=timing.time_s,
        statistic=timing.statistic.value,
        samples=timing.count,
    )
