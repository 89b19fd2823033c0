"""python -m harness.check SPACE...: are the spaces valid, how large are they, do they compile?"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

from rich.console import Console

from harness.commands.check.describe import (
    describe_default,
    describe_space,
    describe_trials,
    print_notices,
)
from harness.commands.check.inspection import (
    Inspection,
    Target,
    architecture_target,
    device_target,
)
from harness.commands.check.program import try_program
from harness.commands.check.sweep import describe_sweep, sweep
from harness.commands.run import run_command
from harness.core.errors import HostModuleError, LaunchFailed, UsageError
from harness.core.program import Program, Read
from harness.core.records import Config, Value
from harness.core.text import counted
from harness.display import make_console
from harness.display.text import print_line
from harness.measure.build_queue import BuildQueue
from harness.measure.kernel_data import KernelData, make_kernel_data
from harness.measure.processes import count_of_builders
from harness.space_file import Spec, load_specs, space_schema

DEFAULT_SAMPLE = 8
_LISTED_LAUNCHES = 4
SCHEMA_DIALECT = "https://json-schema.org/draft/2020-12/schema"

_EPILOG = """\
In an editor: keep the schema and name it in the first line of a space, with the path from
the space's own folder. YAML language servers then complete and check while you type.

  python -m harness.check --schema > space.schema.json
  # yaml-language-server: $schema=../space.schema.json

Exit code: 0 if all is well, 1 if a default does not compile, a host module fails or, with
--strict, any configuration fails, 2 for a fault in a space or in the command.
"""

_KEPT = "; what was compiled is in the build cache, and the same command goes on from there"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    return run_command(_parser(), arguments, _check, _KEPT)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m harness.check",
        description="Validate spaces, say what they hold, and compile their configurations. "
        "No kernel is run, but the host module is; with --arch no GPU is needed. Of a program the "
        "default is run.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("spaces", nargs="*", type=Path, metavar="SPACE", help="a YAML file")
    parser.add_argument(
        "--backend",
        choices=("auto", "cuda", "opencl", "command"),
        help="auto (default): CUDA with a GPU, else an OpenCL GPU, else PoCL on the CPU",
    )
    parser.add_argument("--arch", action="append", default=[], metavar="SM",
                        help="compile with nvcc for this architecture, such as sm_90; may be "
                        "given several times")  # fmt: skip
    parser.add_argument("--sample", type=_whole, metavar="N",
                        help="compile N other configurations as well, drawn uniformly from the "
                        f"legal ones (default {DEFAULT_SAMPLE} with --backend or --arch, "
                        "else 0)")  # fmt: skip
    parser.add_argument("--compile", type=_whole, metavar="N",
                        help="sweep: compile N others, drawn likewise, and tell only how many "
                        "machine codes there are, what they take and what failed")  # fmt: skip
    parser.add_argument("--strict", action="store_true",
                        help="with --compile: exit with 1 if any configuration fails")  # fmt: skip
    parser.add_argument("--seed", type=int, default=0, help="of the sample (default 0)")
    parser.add_argument("--no-compile", action="store_true", help="validate and describe alone")
    parser.add_argument("--schema", action="store_true",
                        help="print the JSON Schema of spaces and exit")  # fmt: skip
    return parser


def _whole(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"must be 0 or more, but got {text}")
    return number


def _check(args: argparse.Namespace) -> int:
    _refuse_contradictions(args)
    if args.schema:
        schema = {"$schema": SCHEMA_DIALECT, **space_schema()}
        print(json.dumps(schema, indent=2))
        return 0
    specs = load_specs(args.spaces)
    _refuse_unfit(specs, args)
    console = make_console()
    with ExitStack() as stack:
        needs_target = not args.no_compile and any(spec.program is None for spec in specs)
        targets = _targets(args) if needs_target else []
        if args.backend or args.arch:
            _require_sources(specs, targets)
        builds = {target: stack.enter_context(closing(_builds(target))) for target in targets}
        # All builds are under way before the first is waited for.
        inspections = [_inspections(spec, builds, args) for spec in specs]
        failed, broken = [], []
        for spec, of_spec in zip(specs, inspections, strict=True):
            describe_space(console, spec)
            if spec.program is not None:
                if not args.no_compile and not try_program(console, spec, _sample(args), args.seed):
                    failed.append(spec.name)
                console.print()
                continue
            if not of_spec:
                print_notices(console, spec)
            verdicts = [_reported(console, inspection, args) for inspection in of_spec]
            if not all(verdicts):
                failed.append(spec.name)
            if not args.no_compile and not _report_host(console, spec):
                broken.append(spec.name)
            for target in targets:
                if target.language not in spec.sources:
                    print_line(console, f"  not compiled for {target.name}: {_lacks(spec, target)}")
            console.print()
    told = _summary(specs, failed, broken, inspections, args.no_compile, args.strict)
    print_line(console, told)
    return 1 if failed or broken else 0


def _builds(target: Target) -> BuildQueue[Program]:
    """Nothing is measured beside: every core may compile."""
    return BuildQueue(target.backend, target.identity, at_once=count_of_builders(beside=0))


def _reported(console: Console, inspection: Inspection, args: argparse.Namespace) -> bool:
    """Tell what came of compiling; whether all is well that must be."""
    if args.compile is None:
        return describe_trials(console, inspection)
    found = sweep(inspection)
    describe_sweep(console, inspection, found)
    is_well = describe_default(console, inspection, found.trials[0])
    return is_well and not (args.strict and any(trial.failure for trial in found.trials))


def _report_host(console: Console, spec: Spec) -> bool:
    """Run the host module on the smallest input; whether it gave what it must."""
    smallest = min(spec.inputs, key=lambda given: math.prod(map(_size, given.values())))
    try:
        case = make_kernel_data(spec.host, smallest)
        launches = _launches_told(spec, case) if spec.launch is None else ""
    except (HostModuleError, LaunchFailed) as error:
        print_line(console, f"  host module FAILED: {error}")
        return False
    told = f"arguments {', '.join(case.arguments)}; outputs {', '.join(case.expected)}{launches}"
    print_line(console, f"  host module on ({smallest}): {told}")
    return True


def _launches_told(spec: Spec, case: KernelData) -> str:
    """The default's first launches, those that need nothing read from a device."""
    default = Config({p.name: p.default for p in spec.parameters})
    case.arranged(default)
    told: list[str] = []
    for step in case.launches(default, spec.functions):
        if isinstance(step, Read) or len(told) == _LISTED_LAUNCHES:
            told.append("...")
            break
        told.append(f"{step.function} {_shape(step.grid)} groups of {_shape(step.group)}")
    return f"; launches {', '.join(told)}"


def _shape(extents: tuple[int, ...]) -> str:
    return "x".join(map(str, extents))


def _size(value: Value) -> float:
    return float(value) if isinstance(value, (int, float)) else 1.0


def _refuse_contradictions(args: argparse.Namespace) -> None:
    compiles = args.arch or args.backend or args.sample is not None or args.compile is not None
    if args.schema and (args.spaces or args.no_compile or compiles):
        raise UsageError("--schema stands alone: the schema is the same for all spaces")
    if not args.schema and not args.spaces:
        raise UsageError("name a space, for example spaces/mvmul.yaml")
    if args.no_compile and compiles:
        told = "--no-compile does not go with --backend, --arch, --sample or --compile"
        raise UsageError(told)
    if args.sample is not None and args.compile is not None:
        raise UsageError("--sample and --compile both draw configurations; give one of them")
    if args.strict and args.compile is None:
        raise UsageError("--strict judges what --compile N compiles; add it")
    if args.arch and args.backend == "opencl":
        raise UsageError("--arch names an architecture of nvcc; --backend opencl has none")


def _refuse_unfit(specs: Sequence[Spec], args: argparse.Namespace) -> None:
    """A program is built by its own command, and kernels are not."""
    for spec in specs:
        if spec.program is not None and (args.arch or args.backend not in (None, "command")):
            raise UsageError(
                f"{spec.path} tunes a program, which its own command builds; leave out --arch and "
                "--backend, or check it by itself"
            )
        if spec.program is None and args.backend == "command":
            raise UsageError(f"{spec.path} tunes a kernel, which --backend command cannot build")


def _targets(args: argparse.Namespace) -> list[Target]:
    if args.arch:
        return [architecture_target(arch) for arch in dict.fromkeys(args.arch)]
    return [device_target(args.backend or "auto")]


def _require_sources(specs: Sequence[Spec], targets: Sequence[Target]) -> None:
    """What was asked for by name must be possible for every space."""
    for spec in specs:
        for target in targets:
            if spec.program is None and target.language not in spec.sources:
                raise UsageError(f"{spec.path} cannot be compiled: {_lacks(spec, target)}")


def _lacks(spec: Spec, target: Target) -> str:
    there = " and ".join(sorted(spec.sources))
    hint = "--arch sm_90" if "cuda" in spec.sources else "--backend opencl"
    return f"it has no {target.language} source, only {there}; {hint} compiles that"


def _inspections(
    spec: Spec, builds: Mapping[Target, BuildQueue[Program]], args: argparse.Namespace
) -> list[Inspection]:
    return [
        Inspection(spec, target, of_target, _sample(args), args.seed)
        for target, of_target in builds.items()
        if target.language in spec.sources
    ]


def _sample(args: argparse.Namespace) -> int:
    """How many configurations beside the default are compiled."""
    if args.compile is not None:
        return int(args.compile)
    if args.sample is None:
        return DEFAULT_SAMPLE if args.backend or args.arch else 0
    return int(args.sample)


def _summary(
    specs: Sequence[Spec],
    failed: Sequence[str],
    broken: Sequence[str],
    inspections: Sequence[Sequence[Inspection]],
    no_compile: bool,
    strict: bool,
) -> str:
    of_programs = 0 if no_compile else sum(spec.program is not None for spec in specs)
    compiled = of_programs + sum(1 for of_spec in inspections if of_spec)
    told = [f"{counted(len(specs), 'space')} valid"]
    if failed:
        what = "a configuration" if strict else "the default"
        told.append(f"{what} failed in {len(failed)} of {compiled}: {', '.join(failed)}")
    elif compiled:
        told.append(f"the default compiles in {compiled} of {len(specs)}")
    else:
        told.append("nothing was compiled")
    if broken:
        told.append(f"the host module failed in {len(broken)}: {', '.join(broken)}")
    return "; ".join(told)
