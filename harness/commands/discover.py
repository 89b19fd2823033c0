"""python -m harness.discover SOURCE: the space that a kernel's source names, as a space file."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from harness.commands.run import run_command
from harness.core.errors import UsageError
from harness.core.files import write_file
from harness.discover.facts import Facts, discover
from harness.discover.host_file import host_text
from harness.discover.space_file import space_text, to_do

_EPILOG = """\
A pragma says what may be tuned, above a #define or above a loop:

  #pragma erange 64,512,2
  #define BLOCK 256

  #pragma unroll_range 1,8
  for (int k = 0; k < 16; k++) ...

docs/pragmas.md explains them all. Without pragmas, values are suggested for the #defines.
Exit code: 0 if all is well, 2 for a fault in a pragma or in the command.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    return run_command(_parser(), arguments, _discover)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m harness.discover",
        description="Read a kernel's pragmas, constants, loops and signature, and write its "
        "space, with what a person has to add marked in it.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("source", type=Path, metavar="SOURCE", help="a CUDA or OpenCL file")
    parser.add_argument("--function", metavar="NAME", help="which of the file's kernels")
    parser.add_argument("--output", type=Path, metavar="FILE",
                        help="a new file for the space (default: standard output)")  # fmt: skip
    parser.add_argument("--host", type=Path, metavar="FILE",
                        help="a new file for the skeleton of the host module")  # fmt: skip
    return parser


def _discover(args: argparse.Namespace) -> int:
    _refuse_to_overwrite(args)
    facts = discover(args.source, args.function)
    folder = args.output.parent if args.output else Path()
    host = args.host or _usual_host(facts)
    told = []
    if args.host:
        told += _write(args.host, host_text(facts))
    text = space_text(facts, folder, host)
    if args.output:
        told += _write(args.output, text)
    else:
        print(text, end="")
        told += [f"  {item}" for item in to_do(text)]
    if told:
        print("\n".join(["to do:", *told]), file=sys.stderr)
    return 0


def _refuse_to_overwrite(args: argparse.Namespace) -> None:
    if args.output and args.host and args.output.resolve() == args.host.resolve():
        raise UsageError(f"{args.output} cannot be both the space and the host module")
    for path in filter(None, (args.output, args.host)):
        if path.exists() or path.is_symlink():
            raise UsageError(f"{path} exists, and is not overwritten; name a new file")
    if args.host and args.host.suffix != ".py":
        raise UsageError(f"{args.host} is not a Python file; its name must end in .py")


def _usual_host(facts: Facts) -> Path:
    """Where a host module stands by custom: beside the source, under its name."""
    return facts.path.with_suffix(".py")


def _write(path: Path, text: str) -> list[str]:
    """Write a new file; what there is to do in it."""
    write_file(path, text)
    print(f"wrote {path}", file=sys.stderr)
    return [f"  {path}, {item}" for item in to_do(text)]
