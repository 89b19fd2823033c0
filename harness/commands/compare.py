"""python -m harness.compare BASE CANDIDATE: find what became slower or faster.

Exit status: 0 nothing became slower, 1 something did or works no more, 2 they cannot be compared.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.commands.run import EXIT_ERROR, run_command
from harness.compare import reports
from harness.compare.comparison import Comparison, Rules, compare
from harness.compare.reading import read_kernel_results
from harness.compare.statistics import LEVEL, RUN_NOISE, THRESHOLD
from harness.compare.table import comparison_table, times
from harness.core.errors import HarnessError, UsageError
from harness.core.files import write_file
from harness.display.formats import make_console
from harness.display.text import print_lines
from harness.space_file import Spec, load_spec

REGRESSION = 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    return run_command(_parser(), arguments, _command)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m harness.compare",
        description="Say whether CANDIDATE is slower or faster than BASE, or within noise, for "
        "each kernel and input. Exit status: 0 nothing became slower; 1 something did, or works "
        "no more; 2 they cannot be compared.",
    )
    what = "results database, or exported results (T4, CSV, Kernel Tuner cache)"
    parser.add_argument("base", metavar="BASE", help=what)
    parser.add_argument("candidate", metavar="CANDIDATE", help=what)
    parser.add_argument("--space", metavar="NAME", help="only the kernel of this space")
    parser.add_argument(
        "--spec",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="a kernel's space file: compare only CANDIDATE's results of its current sources, and "
        "name its source in annotations; may be given several times",
    )
    parser.add_argument(
        "--of",
        choices=("both", "best", "default"),
        default="both",
        help="compare the best of each, the default configuration of each, or both (default)",
    )
    parser.add_argument(
        "--across-environments",
        action="store_true",
        help="compare even where device, driver or compiler differ",
    )
    _add_test_options(parser.add_argument_group("test"))
    outputs = parser.add_argument_group("output, besides the text")
    outputs.add_argument("--json", type=Path, metavar="FILE", help="everything, for scripts")
    outputs.add_argument("--junit", type=Path, metavar="FILE", help="JUnit XML, for CI's pages")
    outputs.add_argument("--github", action="store_true", help="print GitHub's annotations")
    return parser


def _add_test_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--threshold",
        type=_threshold,
        default=THRESHOLD,
        metavar="X",
        help="ignore smaller changes; a ratio of times, or a fraction, also with %% "
        f"(default {times(1 + THRESHOLD)})",
    )
    group.add_argument(
        "--level",
        type=_level,
        default=LEVEL,
        metavar="P",
        help="probability of any false `slower` or `faster`, and of any slowdown above its upper "
        f"limit, over all tests (default {LEVEL})",
    )
    group.add_argument(
        "--run-noise",
        type=_fraction,
        default=RUN_NOISE,
        metavar="P",
        help="noise between runs as a fraction of the time, where nothing was measured twice "
        f"(default {RUN_NOISE})",
    )


def _threshold(text: str) -> float:
    """Parse a change as a fraction: 0.02 for 1.02x, 2% and 0.02."""
    try:
        if text.endswith("x"):
            return _fraction(str(float(text.removesuffix("x")) - 1))
        return _fraction(text)
    except (ValueError, argparse.ArgumentTypeError):
        message = f"must be a ratio below 2 such as 1.02x, or 2% or 0.02, but got {text!r}"
        raise argparse.ArgumentTypeError(message) from None


def _fraction(text: str) -> float:
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"must be from 0 to 1, or a percentage, but got {text!r}")
    return value


def _level(text: str) -> float:
    value = _fraction(text)
    if not value:
        raise argparse.ArgumentTypeError(f"must be above 0, but got {text!r}")
    return value


@dataclass(frozen=True)
class _Outputs:
    """Where a comparison, or the error that prevented it, is written besides the text."""

    json: Path | None
    junit: Path | None
    github: bool

    def check(self) -> None:
        """Raise UsageError for a file whose folder does not exist."""
        for path in filter(None, (self.json, self.junit)):
            if not path.parent.is_dir():
                raise UsageError(f"{path}: the folder {path.parent} does not exist; make it")

    def write_error(self, message: str) -> None:
        """Write the error to every output."""
        self._write(
            reports.error_json(message, EXIT_ERROR),
            reports.error_junit(message),
            [reports.error_annotation(message)],
        )

    def write(self, comparison: Comparison, status: int, files: Mapping[str, str]) -> None:
        """Write the comparison to every output; `files` has each kernel's file."""
        self._write(
            reports.as_json(comparison, status),
            reports.as_junit(comparison),
            reports.github(comparison, files),
        )

    def _write(self, as_json: str, as_junit: str, annotations: Iterable[str]) -> None:
        if self.github:
            print_lines(make_console(), annotations)
        for path, text in ((self.json, as_json), (self.junit, as_junit)):
            if path is not None:
                write_file(path, text)


def _command(args: argparse.Namespace) -> int:
    subjects = ("best", "default") if args.of == "both" else (args.of,)
    rules = Rules(args.level, args.threshold, args.run_noise, subjects, args.across_environments)
    outputs = _Outputs(args.json, args.junit, args.github)
    return _compare(args.base, args.candidate, args.space, args.spec, rules, outputs)


def _compare(
    base: str,
    candidate: str,
    kernel: str | None,
    space_files: Sequence[Path],
    rules: Rules,
    outputs: _Outputs,
) -> int:
    """Compare two databases or exports, and write the result to all outputs."""
    outputs.check()
    try:
        specs = [load_spec(path) for path in space_files]
        programs = {s.name: s.program_sha256 for s in specs if kernel in (None, s.name)}
        old = read_kernel_results(base, kernel)
        comparison = compare(old, read_kernel_results(candidate, kernel, programs), rules)
    except HarnessError as error:
        outputs.write_error(str(error))
        raise
    make_console().print(comparison_table(comparison))
    status = REGRESSION if comparison.regressions else 0
    outputs.write(comparison, status, _files(specs, comparison))
    return status


def _files(specs: Iterable[Spec], comparison: Comparison) -> Mapping[str, str]:
    """Return each kernel's source in the language that was measured, or its program's first source.

    Paths are relative to the current folder. A kernel without a source has its space's file.
    """
    languages = {row.kernel: row.environment.backend for row in comparison.rows}
    found = {}
    for spec in specs:
        kernel = spec.sources.get(languages.get(spec.name, ""))
        sources = [kernel] if kernel else spec.program.sources if spec.program else ()
        path = next((source.path for source in sources), spec.path)
        found[spec.name] = os.path.relpath(path)
    return found
