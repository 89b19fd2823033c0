"""python -m harness.check SPACE...: are the spaces valid, how large are they, do they compile?"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from harness.builds import Builds
from harness.command import run_command
from harness.display import format_time, make_console
from harness.errors import HostModuleError, UsageError
from harness.host import make_case
from harness.inspection import (
    ONLY_A_DEVICE_TELLS,
    Inspection,
    Size,
    Target,
    Trial,
    architecture_target,
    device_target,
    size_of,
    unjudged,
)
from harness.records import LIMIT_NAMES, Build, Config, Value, shown
from harness.space import Space
from harness.spec import Constraint, Parameter, SpaceFile, Spec, load_specs

DEFAULT_SAMPLE = 8
SCHEMA_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_LISTED_VALUES = 10
_LISTED_INPUTS = 3

_EPILOG = """\
In an editor: keep the schema and name it in the first line of a space, with the path from
the space's own folder. YAML language servers then complete and check while you type.

  python -m harness.check --schema > space.schema.json
  # yaml-language-server: $schema=../space.schema.json

Exit code: 0 if all is well, 1 if a default does not compile or a host module fails, 2 for a
fault in a space or in the command.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    return run_command(_parser(), arguments, _check)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m harness.check",
        description="Validate spaces, say what they hold, and compile their configurations. "
        "No kernel is run, but the host module is; with --arch no GPU is needed.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("spaces", nargs="*", type=Path, metavar="SPACE", help="a YAML file")
    parser.add_argument(
        "--backend",
        choices=("auto", "cuda", "opencl"),
        help="auto (default): CUDA with a GPU, else an OpenCL GPU, else PoCL on the CPU",
    )
    parser.add_argument("--arch", action="append", default=[], metavar="SM",
                        help="compile with nvcc for this architecture, such as sm_90; may be "
                        "given several times")  # fmt: skip
    parser.add_argument("--sample", type=_whole, metavar="N",
                        help="compile N other configurations as well, drawn uniformly from the "
                        f"legal ones (default {DEFAULT_SAMPLE} with --backend or --arch, "
                        "else 0)")  # fmt: skip
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
        schema = {"$schema": SCHEMA_DIALECT, **SpaceFile.model_json_schema()}
        print(json.dumps(schema, indent=2))
        return 0
    specs = load_specs(args.spaces)
    console = make_console()
    with ExitStack() as stack:
        targets = [] if args.no_compile else _targets(args)
        if args.backend or args.arch:
            _require_sources(specs, targets)
        builds = {
            target: stack.enter_context(closing(Builds(target.backend, target.identity)))
            for target in targets
        }
        # All builds are under way before the first is waited for.
        inspections = [_inspections(spec, builds, args) for spec in specs]
        failed = []
        for spec, of_spec in zip(specs, inspections, strict=True):
            _describe(console, spec)
            verdicts = [_report(console, inspection) for inspection in of_spec]
            if not args.no_compile:
                verdicts.append(_report_host(console, spec))
            if not all(verdicts):
                failed.append(spec.name)
            for target in targets:
                if target.language not in spec.sources:
                    _print(console, f"  not compiled for {target.name}: {_lacks(spec, target)}")
            console.print()
    _print(console, _summary(specs, failed, inspections))
    return 1 if failed else 0


def _report_host(console: Console, spec: Spec) -> bool:
    """Run the host module on the smallest input; whether it gave what it must."""
    smallest = min(spec.inputs, key=lambda given: math.prod(map(_size, given.values())))
    try:
        case = make_case(spec.host, smallest)
    except HostModuleError as error:
        _print(console, f"  host module FAILED: {error}")
        return False
    told = f"arguments {', '.join(case.arguments)}; outputs {', '.join(case.expected)}"
    _print(console, f"  host module on ({smallest}): {told}")
    return True


def _size(value: Value) -> float:
    return float(value) if isinstance(value, (int, float)) else 1.0


def _refuse_contradictions(args: argparse.Namespace) -> None:
    compiles = args.arch or args.backend or args.sample is not None
    if args.schema and (args.spaces or args.no_compile or compiles):
        raise UsageError("--schema stands alone: the schema is the same for all spaces")
    if not args.schema and not args.spaces:
        raise UsageError("name a space, for example spaces/mvmul.yaml")
    if args.no_compile and compiles:
        raise UsageError("--no-compile does not go with --backend, --arch or --sample")
    if args.arch and args.backend == "opencl":
        raise UsageError("--arch names an architecture of nvcc; --backend opencl has none")


def _targets(args: argparse.Namespace) -> list[Target]:
    if args.arch:
        return [architecture_target(arch) for arch in dict.fromkeys(args.arch)]
    return [device_target(args.backend or "auto")]


def _require_sources(specs: Sequence[Spec], targets: Sequence[Target]) -> None:
    """What was asked for by name must be possible for every space."""
    for spec in specs:
        for target in targets:
            if target.language not in spec.sources:
                raise UsageError(f"{spec.path} cannot be compiled: {_lacks(spec, target)}")


def _lacks(spec: Spec, target: Target) -> str:
    there = " and ".join(sorted(spec.sources))
    hint = "--arch sm_90" if "cuda" in spec.sources else "--backend opencl"
    return f"it has no {target.language} source, only {there}; {hint} compiles that"


def _inspections(
    spec: Spec, builds: Mapping[Target, Builds], args: argparse.Namespace
) -> list[Inspection]:
    told = args.backend or args.arch
    sample = (DEFAULT_SAMPLE if told else 0) if args.sample is None else args.sample
    return [
        Inspection(spec, target, of_target, sample, args.seed)
        for target, of_target in builds.items()
        if target.language in spec.sources
    ]


def _summary(
    specs: Sequence[Spec], failed: Sequence[str], inspections: Sequence[Sequence[Inspection]]
) -> str:
    compiled = sum(1 for of_spec in inspections if of_spec)
    text = f"{_counted(len(specs), 'space')} valid"
    if failed:
        return f"{text}; the default failed in {len(failed)} of {compiled}: {', '.join(failed)}"
    if compiled:
        return f"{text}; the default compiles in {compiled} of {len(specs)}"
    return f"{text}; nothing was compiled"


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def _print(console: Console, text: str) -> None:
    console.print(Text(text), soft_wrap=True)


# -------------------------------------------------------------------------- what it holds


def _describe(console: Console, spec: Spec) -> None:
    _print(console, f"{spec.name}: {spec.title or 'no title'} ({spec.path})")
    for language, flags in _flag_sets(spec):
        spaces = [Space.of(spec, given, None, flags) for given in spec.inputs]
        _print(console, f"  {language}{_size_told(size_of(spec, spaces))}")
    _print(console, f"  {_counted(len(spec.inputs), 'input')}: {_inputs_told(spec)}")
    console.print(Padding(_parameters_table(spec), (0, 0, 0, 2), expand=False))
    for constraint in spec.constraints:
        told = f"line {constraint.line}{_needs_told(constraint)}"
        _print(console, f"  constraint: {constraint.expression.text} ({told})")
    default = Config({p.name: p.default for p in spec.parameters})
    _print(console, f"  default: {default}")


def _needs_told(constraint: Constraint) -> str:
    needs = sorted(constraint.expression.names & set(LIMIT_NAMES))
    if not needs:
        return ""
    where = "a device" if ONLY_A_DEVICE_TELLS in needs else "a device or --arch"
    return f"; judged with {where}, for {', '.join(needs)}"


def _flag_sets(spec: Spec) -> Iterator[tuple[str, str | None]]:
    """How to head a size, and the compiler whose flags it includes; one where none are tuned."""
    compilers = {"cuda": "nvcc", "opencl": "opencl"}
    if all(p.compiler is None for p in spec.parameters):
        yield "", None
        return
    for language in sorted(spec.sources):
        compiler = compilers[language]
        tuned = any(p.compiler == compiler for p in spec.parameters)
        yield f"{language}, {'with' if tuned else 'no'} compiler flags: ", compiler


def _size_told(size: Size) -> str:
    told = f"{_counted(size.points, 'point')}, "
    if size.estimate is not None:
        found = size.estimate
        return (
            f"{told}about {found.count:.3g} +- {found.error:.2g} of them legal on the input "
            f"({found.given}): an estimate by random points, with its standard error"
        )
    (fewest_on, fewest), (most_on, most) = (
        choose(size.legal.items(), key=lambda item: item[1]) for choose in (min, max)
    )
    if fewest == most:
        return f"{told}{fewest:,} of them legal" + (
            " on every input" if len(size.legal) > 1 else ""
        )
    return f"{told}from {fewest:,} ({fewest_on}) to {most:,} ({most_on}) of them legal"


def _inputs_told(spec: Spec) -> str:
    if len(spec.inputs) <= _LISTED_INPUTS:
        return "; ".join(f"({given})" for given in spec.inputs)
    return ", ".join(_feature_told(spec, name) for name in spec.features)


def _feature_told(spec: Spec, name: str) -> str:
    values = [v for given in spec.inputs if isinstance(v := given[name], (int, float))]
    low, high = min(values), max(values)
    return f"{name}={low}" if low == high else f"{name} from {low} to {high}"


def _parameters_table(spec: Spec) -> Table:
    table = Table()
    for heading in ("parameter", "role", "kind", "values", "default"):
        table.add_column(heading)
    for p in spec.parameters:
        role = f"{p.role} of {p.compiler}" if p.compiler else p.role
        cells = (p.name, role, p.kind.replace("_", " "), _values_told(p), shown(p.default))
        table.add_row(*map(Text, cells))
    return table


def _values_told(parameter: Parameter) -> str:
    values: Sequence[Value] = parameter.values
    if len(values) <= _LISTED_VALUES:
        return ", ".join(map(shown, values))
    ends = f"{shown(values[0])}, {shown(values[1])}, {shown(values[2])}, ..., {shown(values[-1])}"
    return f"{ends} ({len(values):,} values)"


# ------------------------------------------------------------------------- what comes out


def _report(console: Console, inspection: Inspection) -> bool:
    """Tell what came of compiling; whether the default is well."""
    spec, target = inspection.spec, inspection.target
    _print(console, f"  within the limits of {target.name}: {_size_told(inspection.size)}")
    for sentence in unjudged(spec, target):
        _print(console, f"  note: {sentence}")
    trials = list(inspection.trials())
    if inspection.missing:
        found = f"{len(trials) - 1} of {len(trials) - 1 + inspection.missing}"
        _print(console, f"  note: only {found} other legal configurations were found to sample")
    if len(trials) > 1:
        console.print(Padding(_trials_table(inspection, trials), (0, 0, 0, 2), expand=False))
        _print(console, f"  {_table_notes(inspection)}")
        _print(console, f"  {_trials_told(trials)}")
    default = trials[0]
    told = "OK" if not default.failure else "FAILED"
    built = f" ({_build_told(default.build)})" if default.build else ""
    _print(console, f"  default for {target.name}: {told}{built}")
    for line in (default.failure or _log(default)).splitlines():
        _print(console, f"    {line}")
    return not default.failure


def _log(trial: Trial) -> str:
    return trial.build.log if trial.build else ""


def _build_told(build: Build) -> str:
    told = [f"compiled in {format_time(build.compile_s)}{', cached' if build.cached else ''}"]
    if build.registers is not None:
        told.append(_counted(build.registers, "register"))
    if build.shared_bytes is not None:
        told.append(f"{_counted(build.shared_bytes, 'byte')} of shared (local) memory")
    if build.spill_bytes:
        told.append(f"{_counted(build.spill_bytes, 'byte')} spilled")
    return "; ".join(told)


def _trials_table(inspection: Inspection, trials: Sequence[Trial]) -> Table:
    target = inspection.target
    table = Table(title=f"{inspection.spec.name} for {target.name}", title_justify="left")
    table.add_column("configuration")
    memory = "shared memory" if target.nvcc else "local memory"
    for heading in ("registers", memory, "spills", "group"):
        table.add_column(heading, justify="right")
    table.add_column("occupancy")
    table.add_column("compiled in", justify="right")
    troubled = any(trial.headline for trial in trials)
    if troubled:
        table.add_column("failure or warning")
    for trial in trials:
        headline = [trial.headline] if troubled else []
        table.add_row(*map(Text, [*_cells(trial), *headline]))
    return table


def _table_notes(inspection: Inspection) -> str:
    spec = inspection.spec
    told = (
        "The default comes first. Registers, memory and spills: the most of any function of the "
        "source. "
    )
    if spec.launch is None:
        return told + "No group and no occupancy: the host module tells the launches, from data."
    why_no_occupancy = inspection.target.why_no_occupancy
    told += f"Group: work-items of a group on the input ({spec.inputs[0]})."
    return told + (f" No occupancy: {why_no_occupancy}." if why_no_occupancy else "")


def _cells(trial: Trial) -> Iterator[str]:
    build, resident = trial.build, trial.occupancy
    yield str(trial.config)
    yield _number(build.registers if build else None)
    yield _number(build.shared_bytes if build else None, " B")
    yield _number(build.spill_bytes if build else None, " B")
    yield _number(trial.group_size)
    yield f"{resident.fraction:.0%}, {resident.limiter}" if resident else "-"
    cached = ", cached" if build and build.cached else ""
    yield f"{format_time(build.compile_s)}{cached}" if build else "-"


def _number(value: int | None, unit: str = "") -> str:
    return "-" if value is None else f"{value:,}{unit}"


def _trials_told(trials: Sequence[Trial]) -> str:
    builds = [trial.build for trial in trials if trial.build]
    failed = sum(bool(trial.failure) for trial in trials)
    told = [f"{_counted(len(trials), 'configuration')} compiled, {failed} failed"]
    codes = {build.binary_sha256 for build in builds if build.binary_sha256}
    if codes:
        told.append(f"{_counted(len(codes), 'different machine code')}")
    registers = [build.registers for build in builds if build.registers is not None]
    if registers:
        told.append(f"{min(registers)} to {max(registers)} registers")
        spilling = sum(bool(build.spill_bytes) for build in builds)
        told.append(f"{spilling or 'none'} with spills")
    shares = [trial.occupancy.fraction for trial in trials if trial.occupancy]
    if shares:
        told.append(f"occupancy {min(shares):.0%} to {max(shares):.0%}")
    return "; ".join(told)


if __name__ == "__main__":
    sys.exit(main())
