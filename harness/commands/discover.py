"""python -m harness.discover SOURCE: write a space file from a kernel's source."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.commands.run import options_of, run_command
from harness.core.errors import UsageError
from harness.core.files import check_writable, write_file
from harness.core.invocation import command_line
from harness.discover.facts import discover
from harness.discover.host_file import host_text
from harness.discover.space_file import space_text, to_do

_EPILOG = """\
A pragma declares a parameter, above a #define or above a loop:

  #pragma erange 64,512,2
  #define BLOCK 256

  #pragma unroll_range 1,8
  for (int k = 0; k < 16; k++) ...

docs/pragmas.md explains all pragmas. Without pragmas, harness suggests values for #defines.
Exit code: 0 on success, 2 for an error in a pragma or in the command.
"""


@dataclass(frozen=True)
class _Discovery:
    """The options of one discovery; without `output` the space goes to standard output."""

    source: Path
    function: str | None
    output: Path | None
    host: Path | None


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    return run_command(_parser(), arguments, _run)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=command_line("discover"),
        description="Write a space from a kernel's pragmas, constants, loops and signature.\nFILL "
        "IN and CONFIRM mark what you must add or check.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("source", type=Path, metavar="SOURCE", help="a CUDA or OpenCL file")
    parser.add_argument("--function", metavar="NAME", help="the kernel, if the file has several")
    parser.add_argument("--output", type=Path, metavar="FILE",
                        help="a new file for the space (default: standard output)")  # fmt: skip
    parser.add_argument("--host", type=Path, metavar="FILE",
                        help="a new file for the skeleton of the host module")  # fmt: skip
    return parser


def _run(args: argparse.Namespace) -> int:
    return _discover(options_of(_Discovery, args))


def _discover(options: _Discovery) -> int:
    _check_targets(options)
    facts = discover(options.source, options.function)
    folder = options.output.parent if options.output else Path()
    host = options.host or facts.path.with_suffix(".py")
    items = []
    if options.host:
        items += _write(options.host, host_text(facts))
    text = space_text(facts, folder, host)
    if options.output:
        items += _write(options.output, text)
    else:
        print(text, end="")
        items += [f"  {item}" for item in to_do(text)]
    if items:
        print("\n".join(["to do:", *items]), file=sys.stderr)
    return 0


def _check_targets(options: _Discovery) -> None:
    """Refuse to overwrite a file, and host modules that Python cannot import."""
    output, host = options.output, options.host
    if output and host and output.resolve() == host.resolve():
        raise UsageError(f"{output} cannot be both the space and the host module")
    for path in filter(None, (output, host)):
        if path.exists() or path.is_symlink():
            raise UsageError(f"{path} already exists; name a new file")
        check_writable(path, "name a file in another folder")
    if host and host.suffix != ".py":
        raise UsageError(f"{host} is not a Python file; its name must end in .py")


def _write(path: Path, text: str) -> list[str]:
    """Write a new file; return a line for each thing that is left to do in it."""
    write_file(path, text, replace=False)
    print(f"wrote {path}", file=sys.stderr)
    return [f"  {path}, {item}" for item in to_do(text)]
