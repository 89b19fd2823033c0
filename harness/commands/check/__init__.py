"""harness check SPACE...: validate spaces, count and compile their configurations."""

from __future__ import annotations

import io
import itertools
import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING

from rich.console import Console

from harness.api.documents import CheckDocument
from harness.api.options import SPACE_SCHEMA, CheckOptions
from harness.api.schemas import SCHEMA_DIALECT, document_schema
from harness.commands.check.default_run import run_default
from harness.commands.check.describe import (
    describe_default,
    describe_sample,
    describe_space,
    print_compile_notes,
    print_missing,
    print_notices,
    print_reasons,
)
from harness.commands.check.document import faults_document, is_ok, space_document
from harness.commands.check.inspection import Compiled, Inspection, SampledBuilds
from harness.commands.check.program import try_program
from harness.commands.check.program_builds import ProgramInspection
from harness.commands.check.sweep import describe_sweep, sweep
from harness.commands.check.targets import (
    CompileTarget,
    architecture_target,
    device_target,
    target_of,
)
from harness.commands.check.without_effect import describe_without_effect, without_effect
from harness.commands.run import EXIT_ERROR, main_of, print_json
from harness.core.errors import (
    BackendUnavailable,
    HostModuleError,
    LaunchFailed,
    SpecError,
    UsageError,
)
from harness.core.machine import usable_cores
from harness.core.program import Launch, Program, Read
from harness.core.records import Config, Value
from harness.core.text import counted, escaped
from harness.display.formats import make_console
from harness.display.text import print_line
from harness.measure.builds.queue import BuildQueue
from harness.measure.devices import inventory
from harness.measure.kernels.data import KernelData, make_kernel_data
from harness.measure.trial.host_module import TrackedConfig
from harness.space_file import Spec, load_specs, space_schema

if TYPE_CHECKING:
    from harness.discover.source_arguments import SourceArguments

_LISTED_LAUNCHES = 4


main = main_of("check")


def print_devices() -> int:
    """Print this machine's devices, as `--device` names them; return the exit code."""
    for line in inventory():
        print(escaped(line, "\n"))
    return 0


def print_schema(of: str) -> int:
    """Print the JSON Schema of spaces, or of a command's document; return the exit code."""
    is_space = of == SPACE_SCHEMA
    found = {"$schema": SCHEMA_DIALECT, **space_schema()} if is_space else document_schema(of)
    print(json.dumps(found, indent=2))
    return 0


def run(options: CheckOptions) -> int:
    """Print each space and the results of compiling it; return the exit code."""
    if options.devices:
        return print_devices()
    if options.schema:
        return print_schema(options.schema)
    try:
        specs = load_specs(options.spaces)
    except SpecError as error:
        if not options.json:
            raise
        print_json(faults_document(error))
        return EXIT_ERROR
    _refuse_mismatched(specs, options)
    if options.json:
        return _check_as_json(specs, options)
    console = make_console()
    with _inspected(specs, options) as (targets, inspections):
        failed, broken, not_working = [], dict[str, str](), list[str]()
        failures: list[tuple[str, Sequence[Compiled]]] = []
        for spec, of_spec in zip(specs, inspections, strict=True):
            describe_space(console, spec)
            if not _check_default(console, spec, of_spec, options, failures):
                failed.append(spec.name)
            if spec.program is None and not options.no_compile:
                if reason := _check_host(console, spec, of_spec):
                    broken[spec.name] = reason
                for target in targets:
                    if target.language not in spec.sources:
                        reason = _missing_source(spec, target)
                        print_line(console, f"  not compiled for {target.name}: {reason}")
            if options.run and not run_default(
                console, spec, options.backend or "auto", options.device
            ):
                not_working.append(spec.name)
            console.print()
    programs = 0 if options.no_compile else sum(spec.program is not None for spec in specs)
    compiled = programs + sum(map(bool, inspections))
    summary = _summary(len(specs), compiled, failed, broken, options.strict)
    if not_working:
        summary += f"; the default does not work in {len(not_working)}: {', '.join(not_working)}"
    print_line(console, summary)
    for name, results in failures:
        print_reasons(console, results, f"{name}, ")
    for name, reason in broken.items():
        print_line(console, f"  {name}, host module FAILED: {reason}")
    return 1 if failed or broken or not_working else 0


@contextmanager
def _inspected(
    specs: Sequence[Spec], options: CheckOptions
) -> Iterator[tuple[Sequence[CompileTarget], Sequence[list[Inspection]]]]:
    """Open the targets, and start all builds before the first one is waited for."""
    with ExitStack() as stack:
        needs_target = not options.no_compile and any(spec.program is None for spec in specs)
        targets = _targets(options) if needs_target else []
        if options.names_target:
            _require_sources(specs, targets)
        fitting = [[target_of(spec, target) for target in targets] for spec in specs]
        builds = {
            target: stack.enter_context(closing(_builds(target)))
            for target in dict.fromkeys(itertools.chain(*fitting))
        }
        yield (
            targets,
            [
                _inspections(spec, {target: builds[target] for target in of_spec}, options)
                for spec, of_spec in zip(specs, fitting, strict=True)
            ],
        )


def _check_as_json(specs: Sequence[Spec], options: CheckOptions) -> int:
    """Print a document on all spaces; return the exit code."""
    with _inspected(specs, options) as (_, inspections):
        spaces = [
            space_document(spec, of_spec, options, _why_host_failed(spec, of_spec, options))
            for spec, of_spec in zip(specs, inspections, strict=True)
        ]
    all_ok = all(is_ok(space, options.strict) for space in spaces)
    print_json(CheckDocument(is_ok=all_ok, spaces=spaces, faults=[]))
    return 0 if all_ok else 1


def _why_host_failed(spec: Spec, inspections: Sequence[Inspection], options: CheckOptions) -> str:
    """Return why the check of the host module fails; empty where it passes or is not run."""
    if spec.program is not None or options.no_compile:
        return ""
    return _check_host(Console(file=io.StringIO()), spec, inspections)


def _builds(target: CompileTarget) -> BuildQueue[Program]:
    """Open the target's builds; nothing is measured meanwhile, so every core may compile."""
    return BuildQueue(target.backend, target.identity, at_once=usable_cores())


def _check_default(
    console: Console,
    spec: Spec,
    inspections: Sequence[Inspection],
    options: CheckOptions,
    failures: list[tuple[str, Sequence[Compiled]]],
) -> bool:
    """Compile a kernel for each target, or try a program; return whether it passes.

    Results with failures are added to `failures`, each with its name, to be printed last.
    """
    if spec.program is not None:
        return bool(options.no_compile) or _check_program(console, spec, options, failures)
    if not inspections:
        print_notices(console, spec)
    found = [_report(console, inspection, options) for inspection in inspections]
    names = (f"{spec.name} for {inspection.name}" for inspection in inspections)
    failures += zip(names, found, strict=True)
    return all(_passes(results, options) for results in found)


def _passes(results: Sequence[Compiled], options: CheckOptions) -> bool:
    """Whether the default, or with --strict every configuration, compiles."""
    return not any(result.failure for result in (results if options.strict else results[:1]))


def _check_program(
    console: Console,
    spec: Spec,
    options: CheckOptions,
    failures: list[tuple[str, Sequence[Compiled]]],
) -> bool:
    """Build and run a program's default, or with --compile only build; return whether it passes."""
    if options.compile is None:
        default, *others = try_program(console, spec, options.others, options.seed)
        failures.append((spec.name, others))
        return not default.failure
    try:
        builds = ProgramInspection(spec, options.compile, options.seed)
    except BackendUnavailable as error:
        print_line(console, f"  default FAILED: {error}")
        return False
    with closing(builds):
        print_notices(console, builds.spec)
        print_missing(console, builds)
        print_line(console, f"  built with {builds.identity}")
        results = _report_sweep(console, builds, options)
    print_line(console, "  With --compile, no program is run.")
    failures.append((spec.name, results))
    return _passes(results, options)


def _report(console: Console, inspection: Inspection, options: CheckOptions) -> Sequence[Compiled]:
    """Print and return the results of compiling, without the reasons of failures."""
    if options.compile is None:
        return describe_sample(console, inspection)
    print_compile_notes(console, inspection)
    return _report_sweep(console, inspection, options)


def _report_sweep(
    console: Console, inspection: SampledBuilds, options: CheckOptions
) -> Sequence[Compiled]:
    found = sweep(inspection)
    describe_sweep(console, inspection, found)
    no_effect = without_effect(inspection, found.results, options.seed)
    describe_without_effect(console, inspection, no_effect)
    describe_default(console, inspection, found.results[0])
    return found.results


def _check_host(console: Console, spec: Spec, inspections: Sequence[Inspection]) -> str:
    """Run the host module on the smallest input; return why it fails, or why the kernel takes
    other arguments; empty where all is well."""
    # Here: it loads the parser.
    from harness.discover.source_arguments import SourceArguments

    smallest = min(spec.inputs, key=lambda problem: math.prod(map(_size, problem.values())))
    try:
        data = make_kernel_data(spec.host, smallest)
        by_language = [SourceArguments(spec, language) for language in spec.sources]
        launches = _launches(spec, data, by_language) if spec.launch is None else ""
        if spec.launch is not None:
            launch = Launch(spec.functions[0], (1,), (1,), tuple(data.arguments))
            for arguments in by_language:
                arguments.check(launch, data, by_name=True)
        for inspection in inspections:
            inspection.check_arguments(data)
    except (HostModuleError, LaunchFailed) as error:
        return str(error)
    names = f"arguments {', '.join(data.arguments)}; outputs {', '.join(data.expected)}"
    print_line(console, f"  host module on ({smallest}): {names}{launches}")
    return ""


def _launches(spec: Spec, data: KernelData, by_language: Sequence[SourceArguments]) -> str:
    """List the default's first launches, up to one that reads data from the device.

    Raises LaunchFailed for arguments that do not fit the source.
    """
    default = Config({p.name: p.default for p in spec.parameters})
    data.arranged(TrackedConfig(default))
    steps: list[str] = []
    for step in data.launches(TrackedConfig(default), spec.functions):
        if isinstance(step, Read) or len(steps) == _LISTED_LAUNCHES:
            steps.append("...")
            break
        for arguments in by_language:
            arguments.check(step, data)
        steps.append(f"{step.function} {_shape(step.grid)} groups of {_shape(step.group)}")
    return f"; launches {', '.join(steps)}"


def _shape(extents: tuple[int, ...]) -> str:
    return "x".join(map(str, extents))


def _size(value: Value) -> float:
    return float(value) if isinstance(value, (int, float)) else 1.0


def _refuse_mismatched(specs: Sequence[Spec], options: CheckOptions) -> None:
    """Refuse --arch and kernel backends for programs, and --backend command for kernels."""
    for spec in specs:
        if spec.program is not None and (
            options.archs or options.device or options.backend not in (None, "command")
        ):
            raise UsageError(
                f"{spec.path} tunes a program, which its own command builds; leave out --arch, "
                "--backend and --device, or check it alone"
            )
        if spec.program is None and options.backend == "command":
            raise UsageError(f"{spec.path} tunes a kernel, which --backend command cannot build")


def _targets(options: CheckOptions) -> list[CompileTarget]:
    if options.archs:
        named = (arch.strip() for archs in options.archs for arch in archs.split(","))
        return [architecture_target(arch) for arch in dict.fromkeys(named)]
    return [device_target(options.backend or "auto", options.device)]


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
    spaces: int, compiled: int, failed: Sequence[str], broken: Collection[str], is_strict: bool
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
