"""python -m harness.stencil explore STENCIL: write the space of a stencil's variants."""

from __future__ import annotations

import argparse
import random
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.commands.run import run_command
from harness.core.errors import UsageError
from harness.core.files import write_folder
from harness.core.text import counted
from harness.space_file.document import MAX_BYTES
from harness.stencil.definition import Definition, load_definition, program_names
from harness.stencil.explore import Variant, explore
from harness.stencil.space_files import files, function_name

_EPILOG = """\
A stencil is a Python file that defines an expression and a reference; see docs/stencil.md.
Exit code: 0 if the space is written, 2 for an error in the stencil or in the command.
"""


@dataclass(frozen=True)
class _Exploration:
    """The options of one exploration; `folder` is None for the usual one."""

    stencil: str
    size: int
    count: int
    seed: int
    exact_lines: bool
    folder: Path | None

    @property
    def command(self) -> str:
        """Return the command that repeats the exploration."""
        words = ["python", "-m", "harness.stencil", "explore", self.stencil]
        words += ["--size", str(self.size), "--count", str(self.count), "--seed", str(self.seed)]
        words += ["--cache-lines", "exact"] if self.exact_lines else []
        return shlex.join(words)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    return run_command(_parser(), arguments, _run)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m harness.stencil",
        description="Write the space of a stencil: rewrite rules turn its expression into "
        "variants, each with several thread configurations.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", choices=("explore",))
    parser.add_argument("stencil", metavar="STENCIL",
                        help=f"a Python file, or one of {', '.join(program_names())}")  # fmt: skip
    parser.add_argument("--size", type=_positive, required=True, metavar="N",
                        help="the argument of expression(): the length of a side")  # fmt: skip
    parser.add_argument("--count", type=_positive, default=1000, metavar="K",
                        help="the number of points in the space (default 1000)")  # fmt: skip
    parser.add_argument("-o", "--output", type=Path, metavar="FOLDER",
                        help="a new folder (default NAME_SIZE)")  # fmt: skip
    parser.add_argument("--seed", type=int, default=0,
                        help="the seed of the random draws (default 0)")  # fmt: skip
    parser.add_argument("--cache-lines", choices=("published", "exact"), default="published",
                        help="how to count the cache lines of the features: `published` looks at "
                        "one warp (default); `exact` at all warps, which takes seconds for each "
                        "point of a large grid")  # fmt: skip
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be 1 or more, but got {text}")
    return number


def _run(args: argparse.Namespace) -> int:
    return _explore(
        _Exploration(
            stencil=args.stencil,
            size=args.size,
            count=args.count,
            seed=args.seed,
            exact_lines=args.cache_lines == "exact",
            folder=args.output,
        )
    )


def _explore(options: _Exploration) -> int:
    definition = load_definition(options.stencil)
    folder = options.folder or Path(f"{definition.name}_{options.size}")
    _check_is_new(folder)
    variants = _variants(definition, options)
    points = sum(len(variant.kernels) for variant in variants)
    space = Path(f"{definition.name}.yaml")
    texts = files(definition, options.size, variants, options.command, options.exact_lines)
    if len(texts[space]) > MAX_BYTES:
        raise UsageError(f"{points} points are too many for one space; ask for fewer with --count")
    contents = {path.as_posix(): text.encode() for path, text in texts.items()}
    write_folder(folder, contents, replace=False)
    fewer = "" if points == options.count else f"; found no more of the {options.count}"
    print(f"{counted(points, 'point')} of {counted(len(variants), 'variant')}{fewer}")
    print(f"wrote {folder / space}; tune it: python -m harness.tune {folder / space}")
    return 0


def _check_is_new(folder: Path) -> None:
    if folder.exists() or folder.is_symlink():
        raise UsageError(f"{folder} already exists; name a new folder with -o")


def _variants(definition: Definition, options: _Exploration) -> list[Variant]:
    expression = definition.expression(options.size)
    # Each stencil draws different points, so a predictor is judged on points that it does not know.
    rng = random.Random(f"{options.seed} {definition.name} {options.size}")
    variants = explore(function_name(definition), expression, options.count, rng)
    if not variants:
        raise UsageError(
            f"{definition.path}: no variant has 32 threads or more in a group; --size "
            f"{options.size} is too small, or no map computes its result"
        )
    return variants
