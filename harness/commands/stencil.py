"""python -m harness.stencil explore NAME: the space of a stencil's variants."""

from __future__ import annotations

import argparse
import random
import shlex
from collections.abc import Sequence
from pathlib import Path

from harness.commands.run import run_command
from harness.core.errors import UsageError
from harness.core.files import write_file
from harness.space_file.document import MAX_BYTES
from harness.stencil.definition import load_definition, program_names
from harness.stencil.explore import explore
from harness.stencil.space_files import files, function_name

_EPILOG = """\
A stencil is a Python file with an expression and a reference; docs/stencil.md teaches it.
Exit code: 0 if the space is written, 2 for a fault in the stencil or in the command.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    return run_command(_parser(), arguments, _explore)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m harness.stencil",
        description="Write the space of a stencil: variants that rewrite rules make of its "
        "expression, each with thread configurations.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", choices=("explore",))
    parser.add_argument("stencil", metavar="STENCIL",
                        help=f"a Python file, or one of {', '.join(program_names())}")  # fmt: skip
    parser.add_argument("--size", type=_whole, required=True, metavar="N",
                        help="what expression() is given: the length of a side")  # fmt: skip
    parser.add_argument("--count", type=_whole, default=1000, metavar="K",
                        help="points of the space (default 1000)")  # fmt: skip
    parser.add_argument("-o", "--output", type=Path, metavar="FOLDER",
                        help="a new folder (default NAME_SIZE)")  # fmt: skip
    parser.add_argument("--seed", type=int, default=0, help="of what is drawn (default 0)")
    parser.add_argument("--cache-lines", choices=("published", "exact"), default="published",
                        help="how features count them: `published`, of one warp (default); "
                        "`exact`, of all, which takes seconds a point on large grids")  # fmt: skip
    return parser


def _whole(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be 1 or more, but got {text}")
    return number


def _explore(args: argparse.Namespace) -> int:
    definition = load_definition(args.stencil)
    folder = args.output or Path(f"{definition.name}_{args.size}")
    if folder.exists() or folder.is_symlink():
        raise UsageError(f"{folder} exists, and is not overwritten; name a new folder with -o")
    expression = definition.expression(args.size)
    # Each stencil draws its own points: predictors that are judged on one know none of them.
    rng = random.Random(f"{args.seed} {definition.name} {args.size}")
    variants = explore(function_name(definition), expression, args.count, rng)
    if not variants:
        raise UsageError(
            f"{definition.path}: no variant of it has 32 threads or more a group; --size "
            f"{args.size} is too small, or no map computes its result"
        )
    points = sum(len(variant.kernels) for variant in variants)
    space = Path(f"{definition.name}.yaml")
    is_exact = args.cache_lines == "exact"
    texts = files(definition, args.size, variants, _command(args), is_exact)
    if len(texts[space]) > MAX_BYTES:
        raise UsageError(f"{points} points are more than a space has room for; ask for fewer with "
                         "--count")  # fmt: skip
    _write(folder, texts)
    fewer = "" if points == args.count else f"; no more of the {args.count} were found"
    print(f"{points} points of {len(variants)} variants{fewer}")
    print(f"wrote {folder / space}; tune it: python -m harness.tune {folder / space}")
    return 0


def _command(args: argparse.Namespace) -> str:
    options = ["--size", str(args.size), "--count", str(args.count), "--seed", str(args.seed)]
    options += ["--cache-lines", "exact"] if args.cache_lines == "exact" else []
    return shlex.join(["python", "-m", "harness.stencil", "explore", args.stencil, *options])


def _write(folder: Path, texts: dict[Path, str]) -> None:
    for path, text in texts.items():
        write_file(folder / path, text, parents=True)
