"""python -m harness.check SPACE...: validate spaces, count and compile their configurations."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from harness.commands.check.describe import (
    describe_default,
    describe_sample,
    describe_space,
    print_notices,
)
from harness.commands.check.inspection import Inspection
from harness.commands.check.program import try_program
from harness.commands.check.sweep import describe_sweep, sweep
from harness.commands.check.targets import CompileTarget, architecture_target, device_target
from harness.commands.run import run_command
from harness.core.errors import HostModuleError, LaunchFailed, UsageError
from harness.core.program import Program, Read
from harness.core.records import Config, Value
from harness.core.text import counted
from harness.display.formats import make_console
from harness.display.text import print_line
from harness.measure.build_queue import BuildQueue
from harness.measure.kernel_data import KernelData, make_kernel_data
from harness.measure.processes import usable_cores
from harness.measure.tracked_config import TrackedConfig
from harness.space_file import Spec, load_specs, space_schema

DEFAULT_SAMPLE = 8
_LISTED_LAUNCHES = 4
SCHEMA_DIALECT = "https://json-schema.org/draft/2020-12/schema"

_EPILOG = """\
For completion in an editor, keep the schema in a file and name it in the first line of a
space, with the path from the space's own folder. YAML language servers then complete and
check while you type.

  python -m harness.check --schema > space.schema.json
  # yaml-language-server: $schema=../space.schema.json

Exit code: 0 if all is well; 1 if a default does not compile, a host module fails or, with
--strict, any configuration fails; 2 for a fault in a space or in the command.
"""

_KEPT = "; the build cache has what was compiled, and the same command continues from there"


@dataclass(frozen=True)
class CheckOptions:
    """The options of the command. `others` configurations are compiled beside the default; a
    sweep prints only their counts."""

    spaces: tuple[Path, ...]
    backend: str | None
    archs: tuple[str, ...]
    others: int
    is_sweep: bool
    is_strict: bool
    seed: int
    compiles: bool

    @property
    def names_target(self) -> bool:
        """Whether a backend or an architecture was named."""
        return bool(self.backend or self.archs)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    return run_command(_parser(), arguments, _run, _KEPT)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m harness.check",
        description="Validate spaces, count their configurations, and compile the default. No "
        "kernel is run, but the host module is; --arch needs no GPU. The default of a program is "
        "built and run.",
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
                        help="also compile N other legal configurations, drawn uniformly "
                        f"(default {DEFAULT_SAMPLE} with --backend or --arch, else 0)")  # fmt: skip
    parser.add_argument("--compile", type=_whole, metavar="N",
                        help="sweep: compile N others, drawn likewise, and print only the number "
                        "of machine codes, their resources and the failures")  # fmt: skip
    parser.add_argument("--strict", action="store_true",
                        help="with --compile: exit with 1 if any configuration fails")  # fmt: skip
    parser.add_argument("--seed", type=int, default=0, help="seed of the sample (default 0)")
    parser.add_argument("--no-compile", action="store_true", help="only validate and describe")
    parser.add_argument("--schema", action="store_true",
                        help="print the JSON Schema of spaces and exit")  # fmt: skip
    return parser


def _whole(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"must be 0 or more, but got {text}")
    return number


def _run(args: argparse.Namespace) -> int:
    _refuse_contradictions(args)
    if args.schema:
        schema = {"$schema": SCHEMA_DIALECT, **space_schema()}
        print(json.dumps(schema, indent=2))
        return 0
    return check(_options(args))


def _refuse_contradictions(args: argparse.Namespace) -> None:
    compiles = args.arch or args.backend or args.sample is not None or args.compile is not None
    if args.schema and (args.spaces or args.no_compile or compiles):
        raise UsageError("--schema stands alone: the schema is the same for all spaces")
    if not args.schema and not args.spaces:
        raise UsageError("name a space, for example spaces/mvmul.yaml")
    if args.no_compile and compiles:
        options = "--backend, --arch, --sample or --compile"
        raise UsageError(f"--no-compile does not go with {options}")
    if args.sample is not None and args.compile is not None:
        raise UsageError("--sample and --compile both draw configurations; give one of them")
    if args.strict and args.compile is None:
        raise UsageError("--strict judges what --compile N compiles; add --compile N")
    if args.arch and args.backend == "opencl":
        raise UsageError("--arch names an architecture of nvcc; --backend opencl has none")


def _options(args: argparse.Namespace) -> CheckOptions:
    default = DEFAULT_SAMPLE if args.backend or args.arch else 0
    drawn = [count for count in (args.compile, args.sample) if count is not None]
    return CheckOptions(
        spaces=tuple(args.spaces),
        backend=args.backend,
        archs=tuple(dict.fromkeys(args.arch)),
        others=drawn[0] if drawn else default,
        is_sweep=args.compile is not None,
        is_strict=args.strict,
        seed=args.seed,
        compiles=not args.no_compile,
    )


def check(options: CheckOptions) -> int:
    """Print each space and the results of compiling it; return the exit code."""
    specs = load_specs(options.spaces)
    _refuse_mismatched(specs, options)
    console = make_console()
    with ExitStack() as stack:
        needs_target = options.compiles and any(spec.program is None for spec in specs)
        targets = _targets(options) if needs_target else []
        if options.names_target:
            _require_sources(specs, targets)
        builds = {target: stack.enter_context(closing(_builds(target))) for target in targets}
        # All builds are started before the first one is waited for.
        inspections = [_inspections(spec, builds, options) for spec in specs]
        failed, broken = [], []
        for spec, of_spec in zip(specs, inspections, strict=True):
            describe_space(console, spec)
            if not _check_default(console, spec, of_spec, options):
                failed.append(spec.name)
            if spec.program is None and options.compiles:
                if not _check_host(console, spec):
                    broken.append(spec.name)
                for target in targets:
                    if target.language not in spec.sources:
                        reason = _missing_source(spec, target)
                        print_line(console, f"  not compiled for {target.name}: {reason}")
            console.print()
    programs = sum(spec.program is not None for spec in specs) if options.compiles else 0
    compiled = programs + sum(map(bool, inspections))
    print_line(console, _summary(len(specs), compiled, failed, broken, options.is_strict))
    return 1 if failed or broken else 0


def _builds(target: CompileTarget) -> BuildQueue[Program]:
    """Open the target's builds; nothing is measured beside them, so every core may compile."""
    return BuildQueue(target.backend, target.identity, at_once=usable_cores())


def _check_default(
    console: Console, spec: Spec, inspections: Sequence[Inspection], options: CheckOptions
) -> bool:
    """Compile a kernel for each target, or try a program; return whether it passes."""
    if spec.program is not None:
        return not options.compiles or try_program(console, spec, options.others, options.seed)
    if not inspections:
        print_notices(console, spec)
    passes = [_report(console, inspection, options) for inspection in inspections]
    return all(passes)


def _report(console: Console, inspection: Inspection, options: CheckOptions) -> bool:
    """Print the results of compiling; return whether the default, or with --strict every
    configuration, compiles."""
    if not options.is_sweep:
        return describe_sample(console, inspection)
    found = sweep(inspection)
    describe_sweep(console, inspection, found)
    passes = describe_default(console, inspection, found.results[0])
    return passes and not (options.is_strict and any(result.failure for result in found.results))


def _check_host(console: Console, spec: Spec) -> bool:
    """Run the host module on the smallest input; return whether it gives all that it must."""
    smallest = min(spec.inputs, key=lambda problem: math.prod(map(_size, problem.values())))
    try:
        data = make_kernel_data(spec.host, smallest)
        launches = _launches(spec, data) if spec.launch is None else ""
    except (HostModuleError, LaunchFailed) as error:
        print_line(console, f"  host module FAILED: {error}")
        return False
    names = f"arguments {', '.join(data.arguments)}; outputs {', '.join(data.expected)}"
    print_line(console, f"  host module on ({smallest}): {names}{launches}")
    return True


def _launches(spec: Spec, data: KernelData) -> str:
    """List the default's first launches, up to one that reads data from the device."""
    default = Config({p.name: p.default for p in spec.parameters})
    data.arranged(TrackedConfig(default))
    steps: list[str] = []
    for step in data.launches(TrackedConfig(default), spec.functions):
        if isinstance(step, Read) or len(steps) == _LISTED_LAUNCHES:
            steps.append("...")
            break
        steps.append(f"{step.function} {_shape(step.grid)} groups of {_shape(step.group)}")
    return f"; launches {', '.join(steps)}"


def _shape(extents: tuple[int, ...]) -> str:
    return "x".join(map(str, extents))


def _size(value: Value) -> float:
    return float(value) if isinstance(value, (int, float)) else 1.0


def _refuse_mismatched(specs: Sequence[Spec], options: CheckOptions) -> None:
    """Refuse --arch and kernel backends for programs, and --backend command for kernels."""
    for spec in specs:
        if spec.program is not None and (options.archs or options.backend not in (None, "command")):
            raise UsageError(
                f"{spec.path} tunes a program, which its own command builds; leave out --arch and "
                "--backend, or check it alone"
            )
        if spec.program is None and options.backend == "command":
            raise UsageError(f"{spec.path} tunes a kernel, which --backend command cannot build")


def _targets(options: CheckOptions) -> list[CompileTarget]:
    if options.archs:
        return [architecture_target(arch) for arch in options.archs]
    return [device_target(options.backend or "auto")]


def _require_sources(specs: Sequence[Spec], targets: Sequence[CompileTarget]) -> None:
    """Refuse a space that has no source for a target that was named."""
    for spec in specs:
        for target in targets:
            if spec.program is None and target.language not in spec.sources:
                raise UsageError(f"{spec.path} cannot be compiled: {_missing_source(spec, target)}")


def _missing_source(spec: Spec, target: CompileTarget) -> str:
    languages = " and ".join(sorted(spec.sources))
    hint = "--arch sm_90" if "cuda" in spec.sources else "--backend opencl"
    return f"it has no {target.language} source, only {languages}; {hint} compiles that"


def _inspections(
    spec: Spec, builds: Mapping[CompileTarget, BuildQueue[Program]], options: CheckOptions
) -> list[Inspection]:
    return [
        Inspection(spec, target, of_target, options.others, options.seed)
        for target, of_target in builds.items()
        if target.language in spec.sources
    ]


def _summary(
    spaces: int, compiled: int, failed: Sequence[str], broken: Sequence[str], is_strict: bool
) -> str:
    facts = [f"{counted(spaces, 'space')} valid"]
    if failed:
        subject = "a configuration" if is_strict else "the default"
        facts.append(f"{subject} failed in {len(failed)} of {compiled}: {', '.join(failed)}")
    elif compiled:
        facts.append(f"the default compiles in {compiled} of {spaces}")
    else:
        facts.append("nothing was compiled")
    if broken:
        facts.append(f"the host module failed in {len(broken)}: {', '.join(broken)}")
    return "; ".join(facts)
