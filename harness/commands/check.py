"""harness check SPACE...: validate spaces, count and compile their configurations."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table

from harness.analysis.failures import group_failures
from harness.api.documents import CheckDocument
from harness.checking.inspection import (
    Compiled,
    Inspection,
    KernelInspection,
    ProgramInspection,
    SpaceSize,
)
from harness.checking.space_check import SpaceCheck, check_spaces
from harness.checking.targets import target_notes
from harness.commands.run import EXIT_ERROR, print_json
from harness.constraints.expression import Expression
from harness.core.errors import SpecError
from harness.core.records import LIMIT_NAMES, Build, Value, shown
from harness.core.text import counted, format_time
from harness.display.text import make_console, make_table, print_line, print_lines
from harness.measure.cuda.gpus import name_of
from harness.models.folds import ENOUGH_INPUTS, FEWEST_INPUTS
from harness.options.check import CheckOptions
from harness.space_file import Parameter, Spec, load_specs

_LISTED_VALUES = 10
_LISTED_INPUTS = 3
_SHOWN_REASONS = 10


def run(options: CheckOptions) -> int:
    """Print each space and the results of compiling it; return the exit code."""
    try:
        specs = load_specs(options.spaces)
    except SpecError as error:
        if not options.json:
            raise
        print_json(CheckDocument.describe(is_ok=False, spaces=[], faults=error.faults))
        return EXIT_ERROR
    console, checked = make_console(), list[SpaceCheck]()
    for space in check_spaces(specs, options):
        checked.append(space)
        if not options.json:
            _print_check(console, space, options)
    fails = any(space.fails(options.strict) for space in checked)
    is_unknown = any(space.why_not_run for space in checked)
    code = 0
    if is_unknown:
        code = EXIT_ERROR
    if fails:
        code = 1
    if options.json:
        print_json(CheckDocument.describe(is_ok=code == 0, spaces=checked, faults=[]))
        return code
    print_line(console, _summary(checked, options.strict))
    for space in checked:
        for target in space.targets:
            name = f"{space.spec.name} for {target.name}, "
            _print_reasons(console, target.results, name)
    for space in checked:
        if space.why_host_failed:
            name = space.spec.name
            print_line(console, f"  {name}, host module FAILED: {space.why_host_failed}")
    return code


def _summary(checked: Sequence[SpaceCheck], is_strict: bool) -> str:
    facts = [f"{counted(len(checked), 'space')} valid"]
    compiled = sum(bool(space.targets or space.why_unbuilt) for space in checked)
    failed = [space.spec.name for space in checked if not space.builds(is_strict)]
    runs = [space.run for space in checked if space.run is not None]
    if failed:
        subject = "a configuration" if is_strict else "the default"
        facts.append(f"{subject} failed in {len(failed)} of {compiled}: {', '.join(failed)}")
    elif compiled:
        facts.append(f"the default compiles in {compiled} of {len(checked)}")
    else:
        facts.append("nothing was compiled")
    for fact, specs in (
        ("the host module failed", [c.spec for c in checked if c.why_host_failed]),
        ("the default does not work", [r.spec for r in runs if r.failures]),
        ("the default was not run", [r.spec for r in runs if r.why_not_run]),
        ("an unseen input fails", [r.spec for r in runs if r.fails_unseen]),
    ):
        if specs:
            facts.append(f"{fact} in {len(specs)}: {', '.join(spec.name for spec in specs)}")
    return "; ".join(facts)


# ------------------------------------------------------------------------------- the space


def _print_check(console: Console, space: SpaceCheck, options: CheckOptions) -> None:
    """Print a space and what was found of it, without the reasons of failures."""
    spec, is_program = space.spec, space.spec.program is not None
    _print_space(console, space)
    if not space.targets and not (is_program and options.no_compile):
        print_lines(console, (f"  note: {notice}" for notice in spec.notices))
    for target in space.targets:
        _print_target(console, target)
    if space.why_unbuilt:
        print_line(console, f"  default FAILED: {space.why_unbuilt}")
    if space.host:
        print_line(console, f"  host module on {space.host}")
    if space.spec.framework is not None and space.run is None:
        note = "nothing is compiled before a first call; --run builds and calls the default"
        print_line(console, f"  {space.spec.framework}: {note}")
    for name, reason in space.passed_over.items():
        print_line(console, f"  not compiled for {name}: {reason}")
    if is_program and options.compile is not None and not options.run:
        print_line(console, "  With --compile, no program is run.")
    if space.run is not None:
        print_lines(console, (f"  {line}" for line in space.run.lines()))
    console.print()


def _print_space(console: Console, space: SpaceCheck) -> None:
    """Print the size, inputs, parameters, constraints, default and baselines of a space."""
    spec = space.spec
    title = f": {spec.title}" if spec.title else ""
    print_line(console, f"{spec.name}{title} ({spec.path})")
    for heading, size in space.sizes.items():
        print_line(console, f"  {heading}{_format_size(size)}")
    print_line(console, f"  {counted(len(spec.inputs), 'input')}: {_inputs(spec)}")
    if len(spec.inputs) < FEWEST_INPUTS:
        print_line(
            console,
            f"  note: choosing by input needs {FEWEST_INPUTS} inputs or more, and some "
            f"{ENOUGH_INPUTS} to judge it",
        )
    console.print(Padding(_parameters_table(spec), (0, 0, 0, 2), expand=False))
    print_lines(console, _relations(spec))
    print_line(console, f"  default: {spec.default}")
    if spec.baselines:
        names = ", ".join(baseline.name for baseline in spec.baselines)
        print_line(console, f"  other baselines: {names}")


def _relations(spec: Spec) -> Iterator[str]:
    """Describe the constraints, and the conditions under which parameters matter."""
    for constraint in spec.constraints:
        expression = constraint.expression
        where = f"line {constraint.line}{_needs(expression)}"
        yield f"  constraint: {expression.written} ({where})"
    for p in spec.parameters:
        if p.when is not None:
            yield f"  {p.name} matters when {p.when.text}; else it has its default{_needs(p.when)}"


def _needs(expression: Expression) -> str:
    """Name the device limits that an expression needs; empty where it needs none."""
    needs = sorted(expression.names & set(LIMIT_NAMES))
    return f"; checked with a device or --arch, for {', '.join(needs)}" if needs else ""


def _format_size(size: SpaceSize) -> str:
    """Format the numbers of points and of legal configurations."""
    points = f"{counted(size.points, 'point')}, "
    if size.estimate is not None:
        estimate = size.estimate
        return (
            f"{points}about {estimate.count:.3g} +- {estimate.error:.2g} of them legal on the "
            f"input ({estimate.problem}): an estimate by random points, with its standard error"
        )
    legal, where = size.legal, ""
    if len(legal) < size.inputs:
        where = f", counted on {len(legal)} of {size.inputs:,} inputs"
    least, most = min(legal, key=legal.__getitem__), max(legal, key=legal.__getitem__)
    if legal[least] == legal[most]:
        suffix = " on every input" if len(legal) > 1 else ""
        return f"{points}{legal[least]:,} of them legal{suffix}{where}"
    ends = f"from {legal[least]:,} ({least}) to {legal[most]:,} ({most})"
    return f"{points}{ends} of them legal{where}"


def _inputs(spec: Spec) -> str:
    if len(spec.inputs) <= _LISTED_INPUTS:
        return "; ".join(f"({problem})" for problem in spec.inputs)
    return ", ".join(spec.feature_ranges)


def _parameters_table(spec: Spec) -> Table:
    head = ("parameter", "role", "kind", "values", "default")
    rows = (
        (
            p.name,
            f"{p.role} of {p.compiler}" if p.compiler else p.role,
            p.kind.replace("_", " "),
            _values(p),
            shown(p.default),
        )
        for p in spec.parameters
    )
    return make_table(head, rows, left=range(len(head)), wrap=range(len(head)))


def _values(parameter: Parameter) -> str:
    values: Sequence[Value] = parameter.values
    if len(values) <= _LISTED_VALUES:
        return ", ".join(map(shown, values))
    ends = f"{shown(values[0])}, {shown(values[1])}, {shown(values[2])}, ..., {shown(values[-1])}"
    return f"{ends} ({len(values):,} values)"


# -------------------------------------------------------------------- compiled configurations


def _print_target(console: Console, inspection: Inspection) -> None:
    """Print the builds for a target: that of the default, and a summary of all."""
    print_lines(console, (f"  {line}" for line in _notes(inspection)))
    if inspection.missing:
        others = len(inspection.configs) - 1
        legal = f"{others} of {others + inspection.missing} other legal configurations"
        print_line(console, f"  note: only {legal} were found to compile")
    if len(inspection.configs) > 1:
        _print_sweep(console, inspection)
    _print_default(console, inspection, inspection.results[0])


def _notes(inspection: Inspection) -> Iterator[str]:
    """Describe the size of the space within the target's limits, and what to note."""
    spec = inspection.spec
    if isinstance(inspection, ProgramInspection):
        yield from (f"note: {notice}" for notice in spec.notices)
        yield f"built with {inspection.identity}{_version_hint(spec)}"
    if isinstance(inspection, KernelInspection):
        target = inspection.target
        yield f"within the limits of {target.name}: {_format_size(inspection.size)}"
        compiler = target.backend.compiler
        notices = [str(n) for n in spec.notices if compiler in (None, n.compiler)]
        yield from (f"note: {text}" for text in (*notices, *target_notes(spec, target)))


def _version_hint(spec: Spec) -> str:
    """Explain `version:` where the first word of the build may not be the compiler."""
    if spec.program is None or not spec.program.build or spec.program.model.version is not None:
        return ""
    return "; if that starts another compiler, as env or a shell does, name it in `version:`"


def _print_reasons(console: Console, results: Sequence[Compiled], prefix: str) -> None:
    """Print each reason of failures once, with its count."""
    failed = [result for result in results if result.failure]
    groups = group_failures(failed, lambda result: result.headline, lambda result: result.ended)
    for group in groups[:_SHOWN_REASONS]:
        reason = f"{group.kind}: {len(group.members)} x {group.headline}"
        print_line(console, f"  {prefix}{reason}")
        print_line(console, f"    for example ({group.members[0].config})")
    if len(groups) > _SHOWN_REASONS:
        rest = sum(len(group.members) for group in groups[_SHOWN_REASONS:])
        print_line(console, f"  {prefix}{rest} x {len(groups) - _SHOWN_REASONS} other reasons")


def _print_default(console: Console, inspection: Inspection, default: Compiled) -> None:
    status = "FAILED" if default.failure else "OK"
    build = f" ({_describe_build(default.build, default.dynamic_bytes)})" if default.build else ""
    print_line(console, f"  default for {inspection.name}: {status}{build}")
    log = default.build.log if default.build else ""
    print_lines(console, (f"    {line}" for line in (default.failure or log).splitlines()))


def _describe_build(build: Build, dynamic_bytes: int) -> str:
    name = name_of(build.compiler)
    took = f"in {format_time(build.compile_s)}{', cached' if build.cached else ''}"
    facts = [f"compiled by {name} {took}" if name else f"compiled {took}"]
    if build.registers is not None:
        facts.append(counted(build.registers, "register"))
    if build.shared_bytes is not None:
        dynamic = f" and {dynamic_bytes:,} of dynamic" if dynamic_bytes else ""
        static = counted(build.shared_bytes, "byte")
        facts.append(f"{static} of static{dynamic} shared (local) memory")
    if build.spill_bytes:
        facts.append(f"{counted(build.spill_bytes, 'byte')} spilled")
    return "; ".join(facts)


def _print_sweep(console: Console, inspection: Inspection) -> None:
    """Print the number of machine codes, how long they took, and their resources."""
    results, builds = inspection.results, inspection.builds
    unbuilt = len(results) - len(builds)
    # Without registers, a digest is of more than the code: PoCL's is of the source, and nvcc writes
    # its options into an executable.
    most = "" if any(build.registers is not None for build in builds) else "at most "
    codes = counted(len(inspection.codes), "different machine code")
    text = (
        f"{counted(len(results), 'configuration')} with the default: {len(builds)} compiled to "
        f"{most}{codes}, {unbuilt} not compiled"
    )
    if inspection.spec.program is None:
        text += f", {inspection.failed - unbuilt} not launchable"
    print_line(console, f"  {inspection.name}: {text}")
    cached = sum(build.cached for build in builds)
    new = len(results) - cached
    took = format_time(inspection.wall_s)
    rate = f" ({new / inspection.wall_s:.2f} per second)" if new else ""
    print_line(console, f"  {new} compiled now, {cached} from the build cache, in {took}{rate}")
    shared = [float(r.shared_bytes) for r in results if r.shared_bytes is not None]
    shares = [100 * r.occupancy.fraction for r in results if r.occupancy is not None]
    registers = [build.registers for build in builds if build.registers is not None]
    spills = [build.spill_bytes for build in builds if build.spill_bytes is not None]
    number = "{:,.0f}".format
    resources: list[tuple[str, Sequence[float], Callable[[float], str]]] = [
        ("registers", registers, number),
        ("shared memory, bytes", shared, number),
        ("spills, bytes", spills, number),
        ("occupancy, %", shares, number),
        ("compile time", [b.compile_s for b in builds], format_time),
    ]
    rows = []
    for name, values, form in resources:
        if values:
            ends = (min(values), statistics.median(values), max(values))
            rows.append([name, *map(form, ends)])
    if rows:
        table = make_table(("per configuration", "least", "median", "most"), rows)
        console.print(Padding(table, (0, 0, 0, 2), expand=False))
