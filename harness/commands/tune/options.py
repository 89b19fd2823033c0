"""The options of harness.tune."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path

from harness.api.options import COVER, TuneOptions
from harness.commands.run import add_device, add_json, report_file, whole_number
from harness.core.invocation import command_line
from harness.measure.devices import BACKENDS

DEFAULT_TARGET = 0.15
"""The median relative error at which a validation ends."""

_LARGEST = 10**9


@dataclass(frozen=True)
class TuneCommand(TuneOptions):
    """The options of the command line, as `make_parser` describes them."""

    list_techniques: bool = False
    quiet: bool = False
    report: Path | None = None
    json: bool = False

    @classmethod
    def of(cls, args: argparse.Namespace) -> TuneCommand:
        """Take the options from a parsed command line."""
        return cls(**{field.name: getattr(args, field.name) for field in fields(cls)})


def make_parser() -> argparse.ArgumentParser:
    """Make the parser of the command line."""
    parser = argparse.ArgumentParser(
        prog=command_line("tune"),
        description="Find the fastest configuration of a kernel for each input. Every result is "
        "verified, and every sample is stored. Run the same command again to continue.",
        allow_abbrev=False,  # the command to continue leaves out --fresh by its full name
    )
    parser.set_defaults(arguments=[])
    parser.add_argument("space", nargs="?", type=Path, help="space file (YAML)")
    parser.add_argument(
        "--inputs",
        type=_text,
        metavar="EXPR",
        help="tune only inputs that satisfy EXPR, such as 'n <= 4096 and m > 10' (default: all)",
    )
    parser.add_argument(
        "--inputs-from",
        type=Path,
        metavar="FILE",
        help="tune the inputs of a workload that matter (docs/dispatch.md), in place of the "
        "space's, and measure the candidates on those that the database holds",
    )
    parser.add_argument(
        "--cover",
        type=_cover,
        metavar="SHARE",
        help="of a workload, tune the most frequent inputs that make up this share of the calls "
        f"(default {COVER:g})",
    )
    parser.add_argument(
        "--most-inputs",
        type=whole_number(1),
        metavar="N",
        help="of these, tune at most the N most frequent",
    )
    _add_machine_options(parser.add_argument_group("device or recording"))
    _add_search_options(parser.add_argument_group("search"))
    _add_measurement_options(
        parser.add_argument_group("measurement (default: the space's measure section)")
    )
    _add_stage_options(parser.add_argument_group("stages after the search"))
    _add_result_options(parser.add_argument_group("results"))
    add_json(parser)
    return parser


def _add_machine_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--backend",
        choices=BACKENDS,
        default="auto",
        help="where kernels run (default auto: CUDA with a GPU, else an OpenCL GPU, else PoCL on "
        "the CPU)",
    )
    add_device(group, several=True)
    group.add_argument(
        "--cluster",
        type=_text,
        metavar="ADDRESS",
        help="measure on the workers of a Dask cluster: the scheduler's address such as "
        "tls://HOST:8786; --device then names a model",
    )
    group.add_argument(
        "--insecure",
        action="store_true",
        help="allow a scheduler without encryption on a network that you trust",
    )
    group.add_argument(
        "--replay",
        type=Path,
        metavar="FILE",
        help="search recorded measurements instead of a device. FILE is a Kernel Tuner cache, T4 "
        "results or CSV with a mapping; with a space, a results database or CSV with the space's "
        "columns",
    )
    group.add_argument(
        "--mapping",
        type=Path,
        metavar="FILE",
        help="YAML file that describes the columns of a CSV recording (default: NAME.mapping.yaml "
        "beside it)",
    )


def _add_search_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--technique",
        "-t",
        action="append",
        default=[],
        metavar="NAME",
        help="search technique; repeat it to alternate several (default: the space's, else auto)",
    )
    group.add_argument(
        "--list-techniques", "-lt", action="store_true", help="list the techniques and exit"
    )
    group.add_argument(
        "--test-limit",
        type=whole_number(1),
        metavar="N",
        help="at most N tests per input (default: the space's)",
    )
    group.add_argument(
        "--stop-after",
        "--max-time",
        type=_duration,
        metavar="SECONDS",
        help="end the search after SECONDS for all inputs together; the final measurements follow "
        "(default: no limit)",
    )
    group.add_argument(
        "--seed-configuration",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="JSON object with a configuration to start from; may be repeated",
    )
    _add_warm_start(group)
    group.add_argument(
        "--validate",
        nargs="?",
        type=_share,
        const=DEFAULT_TARGET,
        metavar="TARGET",
        help="instead of a search, sample uniformly until a tree predicts held-out times with a "
        f"median relative error below this (default TARGET: {DEFAULT_TARGET:g})",
    )
    group.add_argument(
        "--parallelism",
        type=whole_number(1),
        metavar="N",
        help="propose and build N configurations at once (default 4; 1 for a recording)",
    )
    group.add_argument("--seed", type=whole_number(0), default=0, help="random seed (default 0)")


def _add_warm_start(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--warm-start",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="learn from a recording of the same kernel on another device, in a format of --replay "
        "without a space; may be repeated. The word database: learn from the results of other "
        "devices in the database",
    )


def _add_measurement_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--repeats", type=whole_number(1), metavar="N", help="at most N timed launches"
    )
    group.add_argument(
        "--precision",
        type=_precision,
        metavar="P",
        help="stop when the mean's confidence interval is within +- P, such as 0.005",
    )
    group.add_argument(
        "--give-up-at",
        type=_slowdown,
        metavar="F",
        help="stop when a configuration is significantly F times slower than the best so far",
    )


def _add_stage_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--no-cross",
        action="store_true",
        help="do not measure the best configurations on all inputs (a good choice by input needs "
        "this)",
    )
    group.add_argument(
        "--finalists",
        type=whole_number(1),
        metavar="N",
        help="measure the N fastest configurations again with the default (default 2, or 3 if the "
        "third is within noise of the first)",
    )
    group.add_argument(
        "--no-reduce",
        action="store_true",
        help="do not measure which flags a winner needs",
    )


def _add_result_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--database",
        type=_text,
        metavar="DATABASE",
        help="SQLite file or postgresql:// URL (default results/NAME.db)",
    )
    group.add_argument(
        "--label", type=_text, default="unnamed", help="name of the tuning run (default unnamed)"
    )
    group.add_argument("--fresh", action="store_true", help="ignore all earlier measurements")
    group.add_argument(
        "--wait",
        type=_duration,
        default=0.0,
        metavar="SECONDS",
        help="wait for up to so long for another process that writes the same kernel's results; "
        "then continue from them (default: end with an error)",
    )
    group.add_argument(
        "--results-log",
        type=Path,
        metavar="FILE",
        help="write when each new best was found, and its time; one file per input",
    )
    group.add_argument(
        "--report", type=report_file, metavar="FILE", help="write an HTML report as well"
    )
    group.add_argument("--quiet", "--no-progress", action="store_true", help="print no progress")


def _duration(text: str) -> float:
    return _within(text, lambda seconds: 0 < seconds <= _LARGEST, "seconds above 0")


def _share(text: str) -> float:
    expected = "a share between 0 and 1"
    try:
        return _within(text, lambda share: 0 < share < 1, expected)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(
            f"{error}; to use the default, put --validate last"
        ) from None


def _cover(text: str) -> float:
    return _within(text, lambda share: 0 < share <= 1, "a share of the calls above 0, up to 1")


def _precision(text: str) -> float:
    return _within(text, lambda share: 0 <= share < 1, "a share from 0 to below 1, such as 0.005")


def _slowdown(text: str) -> float:
    return _within(text, lambda times: 1 <= times <= _LARGEST, "a number from 1")


def _within(text: str, is_allowed: Callable[[float], bool], expected: str) -> float:
    """Read a number that is allowed; nan never is."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not is_allowed(number):
        raise argparse.ArgumentTypeError(f"must be {expected}, got {text!r}")
    return number


def _text(text: str) -> str:
    if not text or not text.isprintable():
        raise argparse.ArgumentTypeError(f"must be a text of printable characters, got {text!r}")
    return text
