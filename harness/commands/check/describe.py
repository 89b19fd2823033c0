"""A space, and what a compiler made of its configurations, in words and tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from harness.commands.check.inspection import (
    ONLY_A_DEVICE_TELLS,
    Inspection,
    Size,
    Trial,
    size_of,
    unjudged,
)
from harness.constraints.expression import Expression
from harness.core.records import LIMIT_NAMES, Build, Config, Value, shown
from harness.core.text import counted
from harness.display import format_time
from harness.display.text import print_line
from harness.space import Space
from harness.space_file import Parameter, Spec

_LISTED_VALUES = 10
_LISTED_INPUTS = 3


def print_notices(console: Console, spec: Spec, compiler: str | None = None) -> None:
    """What a person has to know of the named flags, of one compiler where one is given."""
    for notice in spec.notices:
        if compiler in (None, notice.compiler):
            print_line(console, f"  note: {notice}")


# -------------------------------------------------------------------------- what it holds


def describe_space(console: Console, spec: Spec) -> None:
    title = f": {spec.title}" if spec.title else ""
    print_line(console, f"{spec.name}{title} ({spec.path})")
    for language, flags in _flag_sets(spec):
        spaces = [Space.of(spec, given, None, flags) for given in spec.inputs]
        print_line(console, f"  {language}{size_told(size_of(spec, spaces))}")
    print_line(console, f"  {counted(len(spec.inputs), 'input')}: {_inputs_told(spec)}")
    console.print(Padding(_parameters_table(spec), (0, 0, 0, 2), expand=False))
    for constraint in spec.constraints:
        expression, settled = constraint.expression, constraint.expression.told({})
        where = f"line {constraint.line}{f', {settled}' if settled else ''}"
        print_line(
            console, f"  constraint: {expression.written} ({where}{_needs_told(expression)})"
        )
    for p in spec.parameters:
        if p.when is not None:
            told = f"{p.when.text}; else it has its default{_needs_told(p.when)}"
            print_line(console, f"  {p.name} matters when {told}")
    default = Config({p.name: p.default for p in spec.parameters})
    print_line(console, f"  default: {default}")
    if spec.baselines:
        told = ", ".join(baseline.name for baseline in spec.baselines)
        print_line(console, f"  baselines beside the default: {told}")


def _needs_told(expression: Expression) -> str:
    needs = sorted(expression.names & set(LIMIT_NAMES))
    if not needs:
        return ""
    where = "a device" if ONLY_A_DEVICE_TELLS in needs else "a device or --arch"
    return f"; judged with {where}, for {', '.join(needs)}"


def _flag_sets(spec: Spec) -> Iterator[tuple[str, str | None]]:
    """How to head a size, and the compiler whose flags it includes; one where none are tuned."""
    compilers = {"cuda": "nvcc", "opencl": "opencl"}
    if spec.program is not None:
        yield "", spec.program_compiler
        return
    if all(p.compiler is None for p in spec.parameters):
        yield "", None
        return
    for language in sorted(spec.sources):
        compiler = compilers[language]
        tuned = any(p.compiler == compiler for p in spec.parameters)
        yield f"{language}, {'with' if tuned else 'no'} compiler flags: ", compiler


def size_told(size: Size) -> str:
    """How many points and legal configurations there are."""
    told = f"{counted(size.points, 'point')}, "
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


def describe_trials(console: Console, inspection: Inspection) -> bool:
    """Tell what came of compiling; whether the default is well."""
    spec, target = inspection.spec, inspection.target
    print_line(console, f"  within the limits of {target.name}: {size_told(inspection.size)}")
    print_notices(console, spec, target.backend.compiler)
    for sentence in unjudged(spec, target):
        print_line(console, f"  note: {sentence}")
    trials = list(inspection.trials())
    if inspection.missing:
        found = f"{len(trials) - 1} of {len(trials) - 1 + inspection.missing}"
        print_line(console, f"  note: only {found} other legal configurations were found to sample")
    if len(trials) > 1:
        console.print(Padding(_trials_table(inspection, trials), (0, 0, 0, 2), expand=False))
        print_line(console, f"  {_table_notes(inspection)}")
        print_line(console, f"  {_trials_told(trials)}")
    return describe_default(console, inspection, trials[0])


def describe_default(console: Console, inspection: Inspection, default: Trial) -> bool:
    """Tell what came of the default; whether it is well."""
    target = inspection.target
    told = "OK" if not default.failure else "FAILED"
    built = f" ({_build_told(default.build)})" if default.build else ""
    print_line(console, f"  default for {target.name}: {told}{built}")
    for line in (default.failure or _log(default)).splitlines():
        print_line(console, f"    {line}")
    return not default.failure


def _log(trial: Trial) -> str:
    return trial.build.log if trial.build else ""


def _build_told(build: Build) -> str:
    told = [f"compiled in {format_time(build.compile_s)}{', cached' if build.cached else ''}"]
    if build.registers is not None:
        told.append(counted(build.registers, "register"))
    if build.shared_bytes is not None:
        told.append(f"{counted(build.shared_bytes, 'byte')} of shared (local) memory")
    if build.spill_bytes:
        told.append(f"{counted(build.spill_bytes, 'byte')} spilled")
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
    told = [f"{counted(len(trials), 'configuration')} compiled, {failed} failed"]
    codes = {build.binary_sha256 for build in builds if build.binary_sha256}
    registers = [build.registers for build in builds if build.registers is not None]
    if codes:
        most = "" if registers else "at most "  # PoCL tells sources that may differ, not code
        told.append(f"{most}{counted(len(codes), 'different machine code')}")
    if registers:
        told.append(f"{min(registers)} to {max(registers)} registers")
        spilling = sum(bool(build.spill_bytes) for build in builds)
        told.append(f"{spilling or 'none'} with spills")
    shares = [trial.occupancy.fraction for trial in trials if trial.occupancy]
    if shares:
        told.append(f"occupancy {min(shares):.0%} to {max(shares):.0%}")
    return "; ".join(told)
