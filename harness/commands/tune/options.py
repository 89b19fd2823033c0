"""The options of harness.tune, and the command that goes on from a run."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from harness.measure.backends.choose import BACKENDS

DEFAULT_TARGET = 0.15
"""The median relative error that a validation samples for."""


def make_parser() -> argparse.ArgumentParser:
    """The parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m harness.tune",
        description="Tune a kernel over its inputs; every result is verified, every sample kept. "
        "The same command again goes on where it stopped.",
        allow_abbrev=False,  # the command that goes on from here knows options by their names
    )
    parser.add_argument("space", nargs="?", type=Path, help="the space, a YAML file")
    parser.add_argument(
        "--inputs",
        type=_text,
        metavar="EXPR",
        help="only the inputs for which this holds, such as 'n <= 4096 and m > 10'",
    )
    _add_machine_options(parser.add_argument_group("where it runs"))
    _add_search_options(parser.add_argument_group("search (OpenTuner's options)"))
    _add_measurement_options(parser.add_argument_group("measurement, over the space's own"))
    _add_result_options(parser.add_argument_group("results"))
    return parser


def _add_machine_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--backend",
        type=_backend,
        choices=BACKENDS,
        default="auto",
        help="auto: CUDA with a GPU, else an OpenCL GPU, else PoCL on the CPU",
    )
    group.add_argument(
        "--replay",
        type=Path,
        metavar="FILE",
        help="recorded measurements in place of a device. With a space: a results database, CSV "
        "of the space's own columns, or T4 results. Without a space: a Kernel Tuner cache, T4 "
        "results, or CSV with a mapping. May be gzipped",
    )
    group.add_argument("--recording", type=_recording, help=argparse.SUPPRESS)
    group.add_argument(
        "--mapping",
        type=Path,
        metavar="FILE",
        help="for CSV files of --warm-start, and of --replay without a space: the YAML file that "
        "describes their columns (default: the same name, ending in .yaml)",
    )


def _add_search_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--test-limit", type=_count, metavar="N", help="tests per input; with --validate as a mean"
    )
    group.add_argument(
        "--stop-after",
        "--max-time",
        type=_duration,
        metavar="SECONDS",
        help="for the search of all inputs; the finals follow",
    )
    group.add_argument(
        "--technique", "-t", action="append", metavar="NAME", help="may be given several times"
    )
    group.add_argument(
        "--validate",
        nargs="?",
        type=_share,
        const=DEFAULT_TARGET,
        metavar="TARGET",
        help="sample uniformly until a tree predicts times it has not seen with this median "
        f"relative error (default {DEFAULT_TARGET:g})",
    )
    group.add_argument("--list-techniques", "-lt", action="store_true", help="list them and exit")
    group.add_argument(
        "--seed-configuration",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="a configuration to start from, as a JSON object; may be given several times",
    )
    group.add_argument(
        "--parallelism",
        type=_count,
        metavar="N",
        help="proposals a generation, built side by side (default 4; 1 where nothing is built)",
    )
    group.add_argument(
        "--warm-start",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="a recording of the same kernel on another device, read as --replay reads one, that "
        "model-guided techniques learn from before the first test; may be given several times",
    )
    group.add_argument("--seed", type=_seed, default=0, help="of the random numbers (default 0)")


def _add_measurement_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--repeats", type=_count, metavar="N", help="timed launches at most")
    group.add_argument(
        "--precision",
        type=_precision,
        metavar="P",
        help="stop sampling when the interval of the mean is +- P of it",
    )
    group.add_argument(
        "--give-up-at",
        type=_slowdown,
        metavar="F",
        help="stop sampling what is surely F times slower than the best",
    )


def _add_result_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--database",
        type=_text,
        metavar="PLACE",
        help="SQLite file or SQLAlchemy URL (default results/NAME.db)",
    )
    group.add_argument("--label", type=_text, default="unnamed", help="name of the tuning run")
    group.add_argument("--fresh", action="store_true", help="use nothing measured before")
    group.add_argument(
        "--results-log",
        type=Path,
        metavar="FILE",
        help="seconds and time of each new best; one file an input",
    )
    group.add_argument(
        "--quiet", "--no-progress", action="store_true", help="only the result, no progress"
    )
    group.add_argument(
        "--no-cross",
        action="store_true",
        help="do not measure each winner on the other inputs, nor the best few on all of them in "
        "turn, from which the choice by input is learnt",
    )
    group.add_argument(
        "--finalists",
        type=_count,
        metavar="N",
        help="so many of the fastest are measured again beside the default, and the best of those "
        "that all inputs were measured on in turn (default: two, and a third that cannot be told "
        "from the first)",
    )
    group.add_argument(
        "--no-reduce",
        action="store_true",
        help="do not find out which of a winner's flags are needed",
    )
    group.add_argument(
        "--report", type=_page, metavar="FILE", help="write what came of it as an HTML page as well"
    )


_LARGEST = 10**9


_REPLAY = "use --replay FILE instead of --backend replay --recording FILE"


def _backend(text: str) -> str:
    if text == "replay":
        raise argparse.ArgumentTypeError(_REPLAY)
    return text


def _recording(text: str) -> str:
    raise argparse.ArgumentTypeError(_REPLAY)


def _count(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= _LARGEST:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1 to 10^9, got {text!r}")
    return int(text)


def _seed(text: str) -> int:
    if not text.isdigit() or int(text) > _LARGEST:
        raise argparse.ArgumentTypeError(f"must be a whole number from 0 to 10^9, got {text!r}")
    return int(text)


def _duration(text: str) -> float:
    return _within(text, lambda seconds: 0 < seconds <= _LARGEST, "seconds above 0")


def _share(text: str) -> float:
    told = "a share between 0 and 1"
    try:
        return _within(text, lambda share: 0 < share < 1, told)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"{error}; with the default write it last") from None


def _precision(text: str) -> float:
    return _within(text, lambda share: 0 <= share < 1, "a share from 0 to below 1, such as 0.005")


def _slowdown(text: str) -> float:
    return _within(text, lambda times: 1 <= times <= _LARGEST, "a number from 1")


def _within(text: str, is_allowed: Callable[[float], bool], told: str) -> float:
    """A number that is allowed; nan is none."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not is_allowed(number):
        raise argparse.ArgumentTypeError(f"must be {told}, got {text!r}")
    return number


def _page(text: str) -> Path:
    if not text.lower().endswith((".html", ".htm")):
        raise argparse.ArgumentTypeError(f"must end in .html, got {text!r}")
    return Path(text)


def _text(text: str) -> str:
    if not text or not text.isprintable():
        raise argparse.ArgumentTypeError(f"must be a text of printable characters, got {text!r}")
    return text


_ONLY_ONCE = ("--fresh", "--test-limit", "--stop-after", "--max-time")
_TECHNIQUE = ("--technique", "-t", "--validate")
_FLAGS = ("--fresh",)


def kept_options(args: argparse.Namespace, with_technique: bool = True) -> Iterator[str]:
    """The arguments as they were given, for the command that goes on from here."""
    from harness.results import without_password  # here: parsing a command line needs no database

    dropped = _ONLY_ONCE if with_technique else _ONLY_ONCE + _TECHNIQUE
    for word in _without(args.given, dropped):
        if args.database and args.database in word:
            yield word.replace(args.database, without_password(args.database))
        else:
            yield word


def _without(words: Collection[str], dropped: Collection[str]) -> Iterator[str]:
    """The words without these options and their values."""
    is_value = False
    for word in words:
        option, assigned, _ = word.partition("=")
        was_value, is_value = is_value and not word.startswith("-"), False
        if option in dropped or (word.startswith("-t") and "-t" in dropped):
            is_value = not assigned and option in dropped and option not in _FLAGS
        elif not was_value:
            yield word
