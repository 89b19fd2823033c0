"""python -m harness.check SPACE...: validate spaces, count and compile their configurations."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from harness.commands.check.options import DEFAULT_SAMPLE, SPACE_SCHEMA, CheckOptions
from harness.commands.run import (
    WITH_JSON,
    add_device,
    add_json,
    options_of,
    run_command,
    whole_number,
)
from harness.core.errors import UsageError
from harness.core.invocation import command_line

_EPILOG = """\
For completion in an editor, write the schema to a file and name it in the first line of a
space:

  python -m harness.check --schema > space.schema.json
  # yaml-language-server: $schema=../space.schema.json

Exit code: 0 on success; 1 if a default or a host module fails, or with --strict any
configuration; 2 for a fault in a space or in the command.
"""

_KEPT = "; the build cache has what was compiled, and the same command continues from there"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    return run_command(_parser(), arguments, _run, _KEPT)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=command_line("check"),
        description="Validate spaces, count their configurations, and compile the default.\nThe "
        "host module runs; the kernel runs only with --run. The default of a program is built\n"
        "and run; with --compile it is only built.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("spaces", nargs="*", type=Path, metavar="SPACE", help="space file (YAML)")
    parser.add_argument(
        "--backend",
        choices=("auto", "cuda", "opencl", "command"),
        help="where kernels run (default auto: CUDA with a GPU, else an OpenCL GPU, else PoCL on "
        "the CPU)",
    )
    add_device(parser)
    parser.add_argument("--devices", action="store_true",
                        help="list this machine's devices, and exit")  # fmt: skip
    parser.add_argument("--arch", dest="archs", action="append", default=[], metavar="SM",
                        help="compile for this NVIDIA architecture, such as sm_90, or for several, "
                        "such as sm_80,sm_90; needs no GPU")  # fmt: skip
    parser.add_argument("--sample", type=whole_number(0), metavar="N",
                        help="also compile N other legal configurations, drawn uniformly "
                        f"(default {DEFAULT_SAMPLE} with --backend, --device or --arch; else "
                        "0)")  # fmt: skip
    parser.add_argument("--compile", type=whole_number(0), metavar="N",
                        help="compile N others and print a summary: machine codes, resources, "
                        "failures, and parameters that change nothing")  # fmt: skip
    parser.add_argument("--strict", action="store_true",
                        help="with --compile: exit with 1 if any configuration fails")  # fmt: skip
    parser.add_argument("--seed", type=int, default=0, help="seed of the sample (default 0)")
    parser.add_argument("--no-compile", action="store_true", help="only validate and describe")
    parser.add_argument("--run", action="store_true",
                        help="run the default on each input and verify it")  # fmt: skip
    parser.add_argument("--schema", nargs="?", const=SPACE_SCHEMA, metavar="COMMAND",
                        help="print the JSON Schema of spaces, or of a COMMAND's --json "
                        f"({', '.join(WITH_JSON)}), and exit")  # fmt: skip
    add_json(parser)
    return parser


def _run(args: argparse.Namespace) -> int:
    _refuse_contradictions(args)
    from harness.commands.check.command import (  # here: it takes a second
        check,
        print_devices,
        print_schema,
    )

    if args.devices:
        return print_devices()
    return print_schema(args.schema) if args.schema else check(options_of(CheckOptions, args))


def _refuse_contradictions(args: argparse.Namespace) -> None:
    names_target = args.archs or args.backend or args.device
    compiles = names_target or args.sample is not None or args.compile is not None
    if args.schema not in (None, SPACE_SCHEMA, *WITH_JSON):
        commands = ", ".join(WITH_JSON)
        raise UsageError(
            f"--schema stands alone for the schema of spaces, or names a command ({commands}) for "
            f"that of its --json; got {args.schema!r}"
        )
    if args.schema and (args.spaces or args.no_compile or compiles):
        raise UsageError("--schema stands alone: the schema is the same for all spaces")
    if args.devices and (
        args.json or args.schema or args.spaces or args.no_compile or args.run or compiles
    ):
        raise UsageError("--devices stands alone: it lists the devices that --device can name")
    if not (args.schema or args.devices or args.spaces):
        raise UsageError("name a space, for example spaces/mvmul.yaml")
    if args.no_compile and (compiles or args.run):
        options = "--backend, --device, --arch, --sample, --compile or --run"
        raise UsageError(f"--no-compile does not go with {options}")
    if args.sample is not None and args.compile is not None:
        raise UsageError("--sample and --compile both draw configurations; give one of them")
    if args.strict and args.compile is None:
        raise UsageError("--strict judges what --compile N compiles; add --compile N")
    if args.archs and args.run:
        raise UsageError("--arch compiles for a GPU that need not be here; --run runs on this one")
    if args.archs and args.device:
        raise UsageError("--arch compiles for a GPU that need not be here; leave --device out")
    if args.archs and args.backend == "opencl":
        raise UsageError("--arch names an NVIDIA architecture; --backend opencl has none")
