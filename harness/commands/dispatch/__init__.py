"""`python -m harness.dispatch`: learn which configuration suits which input; write it as code."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from harness.commands.run import add_json, options_of, run_command, whole_number
from harness.core.invocation import command_line


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    return run_command(_parser(), arguments, _run)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=command_line("dispatch"),
        description="Learn which configuration suits which input, judge the choice on held-out "
        "inputs, and write it as C, C++ and Python code with its kernels. Of a space that tunes a "
        "program, write the programs and a launcher, which reads the features of an input from its "
        "arguments and runs the right one.",
    )
    parser.add_argument("database", nargs="+", metavar="DATABASE", help="results database")
    parser.add_argument(
        "-o", "--output", required=True, type=Path, metavar="FOLDER", help="folder to write"
    )
    parser.add_argument("--space", metavar="NAME", help="only the space of this name")
    parser.add_argument(
        "--device", metavar="NAME", help="take the results of the device whose name contains this"
    )
    parser.add_argument(
        "--spec",
        type=Path,
        metavar="FILE",
        help="the space's YAML file (default: the file that was tuned, else spaces/NAME.yaml)",
    )
    parser.add_argument(
        "--arch", metavar="SM", help="architecture of CUDA's cubins (default: the tuned one)"
    )
    _add_learning(parser.add_argument_group("learning and judging"))
    add_json(parser)
    return parser


def _add_learning(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--choice",
        choices=("auto", "tree", "ensemble", "gadapt"),
        default="auto",
        help="one tree, an ensemble of trees, or G-ADAPT's model (a tree for each parameter, with "
        "least-squares leaves), written even if it is no faster than one configuration. auto "
        "writes that configuration if no choice is significantly faster, and the ensemble only if "
        "it is significantly faster than the tree, by 1 %% or more (default auto)",
    )
    group.add_argument(
        "--most",
        type=whole_number(1, 200, "200"),
        metavar="K",
        help="choose among at most K configurations: those whose best is the fastest in the mean "
        "of all inputs (default: as many as gain; `analyse` says what each more gains)",
    )
    group.add_argument(
        "--require-choice",
        action="store_true",
        help="end with 1, and write nothing, where no choice by input is significantly faster than "
        "one configuration",
    )
    group.add_argument(
        "--weights",
        type=Path,
        metavar="FILE",
        help="a workload: learn and judge by how often its inputs come, and say how many calls the "
        "tuned range covers (docs/dispatch.md)",
    )
    group.add_argument(
        "--seed",
        type=whole_number(0, 2**32 - 1, "2^32 - 1"),
        default=0,
        help="seed of the folds and trees (default 0)",
    )


def _run(args: argparse.Namespace) -> int:
    # Here: they take a second to load.
    from harness.api.dispatched_results import DispatchOptions
    from harness.commands.dispatch.command import dispatch

    return dispatch(options_of(DispatchOptions, args), args.json)
