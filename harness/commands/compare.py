"""python -m harness.compare BASE CANDIDATE: what became slower or faster, for certain.

Exit status: 0 nothing became slower, 1 something did or works no more, 2 they cannot be compared.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from harness.commands.run import EXIT_ERROR, run_command
from harness.compare import reports
from harness.compare.comparison import Comparison, Rules, compare
from harness.compare.reading import read_held
from harness.compare.statistics import LEVEL, RUN_NOISE, THRESHOLD
from harness.compare.table import times, told
from harness.core.errors import HarnessError, UsageError
from harness.core.files import write_file
from harness.display import make_console
from harness.display.text import print_lines
from harness.space_file import Spec, load_spec

REGRESSION = 1


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    return run_command(_parser(), arguments, _compare)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m harness.compare",
        description="Say for each kernel and input whether CANDIDATE is slower or faster than "
        "BASE, or within noise. Exit status: 0 nothing became slower; 1 something did, or works "
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
        help="the space file of a kernel: of CANDIDATE its sources as they now are, and no other "
        "version; annotations name its source, or its program's; may be given several times",
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
        help="even where device, driver or compiler differ",
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
        help="smaller changes are none; a ratio of times, or a fraction, also with %% "
        f"(default {times(1 + THRESHOLD)})",
    )
    group.add_argument(
        "--level",
        type=_level,
        default=LEVEL,
        metavar="P",
        help="probability of any false `slower` or `faster`, and of any slowdown above its upper "
        f"limit (default {LEVEL})",
    )
    group.add_argument(
        "--run-noise",
        type=_fraction,
        default=RUN_NOISE,
        metavar="P",
        help="noise between runs as a fraction of the time, assumed where nothing was measured "
        f"twice (default {RUN_NOISE})",
    )


def _threshold(text: str) -> float:
    """A change as a fraction, 0.02 for 1.02x, 2% and 0.02."""
    try:
        if text.endswith("x"):
            return _fraction(str(float(text.removesuffix("x")) - 1))
        return _fraction(text)
    except (ValueError, argparse.ArgumentTypeError):
        told = f"must be a ratio below 2 such as 1.02x, or 2% or 0.02, but got {text!r}"
        raise argparse.ArgumentTypeError(told) from None


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


def _compare(args: argparse.Namespace) -> int:
    for path in filter(None, (args.json, args.junit)):
        if not path.parent.is_dir():
            raise UsageError(f"{path}: the folder {path.parent} does not exist; make it")
    try:
        specs = [load_spec(path) for path in args.spec]
        comparison = _compared(args, specs)
    except HarnessError as error:
        message = str(error)
        _write(args.json, reports.error_json(message, EXIT_ERROR))
        _write(args.junit, reports.error_junit(message))
        if args.github:
            print(reports.error_annotation(message))
        raise
    status = REGRESSION if comparison.regressions else 0
    _print(args, comparison, _files(specs, comparison))
    _write(args.json, reports.as_json(comparison, status))
    _write(args.junit, reports.as_junit(comparison))
    return status


def _compared(args: argparse.Namespace, specs: Iterable[Spec]) -> Comparison:
    programs = {spec.name: spec.program_sha256 for spec in specs}
    if args.space is not None:
        programs = {name: digest for name, digest in programs.items() if name == args.space}
    of = ("best", "default") if args.of == "both" else (args.of,)
    rules = Rules(args.level, args.threshold, args.run_noise, of, args.across_environments)
    base = read_held(args.base, args.space)
    return compare(base, read_held(args.candidate, args.space, programs), rules)


def _print(args: argparse.Namespace, comparison: Comparison, files: Mapping[str, str]) -> None:
    console = make_console()
    console.print(told(comparison))
    print_lines(console, reports.github(comparison, files) if args.github else ())


def _files(specs: Iterable[Spec], comparison: Comparison) -> Mapping[str, str]:
    """Of each kernel the source in the language that it was measured in, of each program its first
    source, relative to here; the space's file where it has none."""
    languages = {row.kernel: row.where.backend for row in comparison.rows}
    found = {}
    for spec in specs:
        kernel = spec.sources.get(languages.get(spec.name, ""))
        sources = [kernel] if kernel else spec.program.sources if spec.program else ()
        path = next((source.path for source in sources), spec.path)
        found[spec.name] = os.path.relpath(path)
    return found


def _write(path: Path | None, text: str) -> None:
    if path is not None:
        write_file(path, text)
