"""Check a space: count it, build some of its configurations, try its host module and its default.

What is found is a record, which is printed (`describe`), or described as a document for scripts.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, redirect_stdout
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from harness.checking.default_run import DefaultRun, run_default
from harness.checking.inspection import (
    Inspection,
    KernelInspection,
    ProgramInspection,
    SpaceSize,
)
from harness.checking.targets import CompileTarget, checked_spaces
from harness.core.errors import (
    BackendUnavailable,
    DeviceBusy,
    HostModuleError,
    LaunchFailed,
    UsageError,
)
from harness.core.locks import patiently
from harness.core.machine import usable_cores
from harness.core.program import Launch, Program, Read
from harness.display.progress import ProgressDisplay
from harness.display.text import make_console, say
from harness.measure.builds.queue import BuildQueue
from harness.measure.choose import require_free
from harness.measure.device.host_module import TrackedConfig
from harness.measure.kernels.data import KernelData, make_kernel_data
from harness.measure.python.backend import require_framework
from harness.options.check import CheckOptions
from harness.space_file import Spec
from harness.space_file.input_ranges import size_of_input

if TYPE_CHECKING:
    from harness.discover.source_arguments import SourceArguments

_LISTED_LAUNCHES = 4


@dataclass(frozen=True)
class SpaceCheck:
    """What was found of a valid space.

    `sizes` are headed by the compiler whose flags count, where this differs. `why_unbuilt` says why
    nothing of a program could be built, `passed_over` why targets were, and `host` what the host
    module makes.
    """

    spec: Spec
    sizes: Mapping[str, SpaceSize]
    targets: Sequence[Inspection]
    why_unbuilt: str
    passed_over: Mapping[str, str]
    host: str
    why_host_failed: str
    run: DefaultRun | None

    def builds(self, is_strict: bool) -> bool:
        """Whether the default, or every configuration, compiles for all targets."""
        return not self.why_unbuilt and all(t.passes(is_strict) for t in self.targets)

    @property
    def why_run_failed(self) -> str:
        """Why the default does not work; empty where it does, or was not run."""
        return self.run.why_failed if self.run else ""

    @property
    def why_not_run(self) -> str:
        """Why the default was not run, or not on all inputs, though it should have been."""
        return self.run.why_not_run if self.run else ""

    def fails(self, is_strict: bool) -> bool:
        """Whether something does not work."""
        works = self.builds(is_strict) and not self.why_host_failed and not self.why_run_failed
        return not works

    @property
    def size(self) -> SpaceSize:
        """The larger size of several: the one with more flags, which are of one compiler."""
        return max(self.sizes.values(), key=lambda size: size.points)

    @property
    def legal(self) -> Sequence[int | None] | None:
        """The number of legal configurations of each input; None where one is too large."""
        legal = self.size.legal
        return [legal.get(problem) for problem in self.spec.inputs] if legal else None

    @property
    def documents(self) -> Sequence[object]:
        """The targets as `check --json` has them; a program that cannot be built has one."""
        why = self.why_unbuilt
        if not why:
            return self.targets
        counts = {"compiled": (), "failed": 0, "machine_codes": ()}
        return [{"target": "command", "is_default_ok": why, "why_failed": why, **counts}]


def check_spaces(specs: Sequence[Spec], options: CheckOptions) -> Iterator[SpaceCheck]:
    """Check each space. All defaults are being built before the first one is waited for.

    Raises UsageError where the options do not fit a space, BackendUnavailable, and DeviceBusy where
    another process measures on the device.
    """
    _refuse_mismatched(specs, options)
    with ExitStack() as stack:
        if options.run:  # before minutes of compilation
            _wait_for_devices(specs, options)
        needs_target = not options.no_compile and any(_is_compiled(spec) for spec in specs)
        targets = _targets(options) if needs_target else []
        if options.names_target:
            _require_sources(specs, targets)
        compiled = [targets if _is_compiled(spec) else [] for spec in specs]
        fitting = [[t.fitted_to(s) for t in own] for s, own in zip(specs, compiled, strict=True)]
        builds = {
            # Nothing is measured meanwhile, so every core may compile.
            target: stack.enter_context(
                closing(BuildQueue(target.backend, target.identity, at_once=usable_cores()))
            )
            for target in dict.fromkeys(itertools.chain(*fitting))
        }
        started = [
            _inspections(spec, {t: builds[t] for t in own}, options, stack)
            for spec, own in zip(specs, fitting, strict=True)
        ]
        for spec, (inspections, why_unbuilt) in zip(specs, started, strict=True):
            yield _checked(spec, inspections, why_unbuilt, targets, options)


def _wait_for_devices(specs: Sequence[Spec], options: CheckOptions) -> None:
    """Wait for another process that measures on a device; raises DeviceBusy."""
    end_s = time.monotonic() + options.wait
    for spec in specs:
        free = partial(require_free, spec, options.backend or "auto", options.device)
        try:
            patiently(free, end_s, say)
        except DeviceBusy:
            raise
        except BackendUnavailable:
            continue  # run_default says so


def _is_compiled(spec: Spec) -> bool:
    """Whether a space has sources in CUDA or OpenCL: no program, and no Python callable."""
    return spec.program is None and spec.framework is None


def _inspections(
    spec: Spec,
    builds: Mapping[CompileTarget, BuildQueue[Program]],
    options: CheckOptions,
    stack: ExitStack,
) -> tuple[Sequence[Inspection], str]:
    """Start the builds of a space; return them, and why there can be none of a program."""
    if options.no_compile:
        return [], ""
    if spec.program is None:
        return [
            KernelInspection(spec, target, queue, options.others, options.seed)
            for target, queue in builds.items()
            if target.language in spec.sources
        ], ""
    try:
        program = ProgramInspection(spec, options.others, options.seed)
    except BackendUnavailable as error:
        return [], str(error)
    return [stack.enter_context(closing(program))], ""


def _checked(
    spec: Spec,
    inspections: Sequence[Inspection],
    why_unbuilt: str,
    targets: Sequence[CompileTarget],
    options: CheckOptions,
) -> SpaceCheck:
    is_program = spec.program is not None
    host = why_host_failed = ""
    for inspection in inspections:
        with ProgressDisplay(make_console(stderr=True), not options.others) as display:
            inspection.finish(display)
    why_not_run = _missing_framework(spec)
    if not is_program and not options.no_compile and not why_not_run:
        kernels = [i for i in inspections if isinstance(i, KernelInspection)]
        try:
            host = describe_host(spec, kernels)
        except (HostModuleError, LaunchFailed) as error:
            why_host_failed = str(error)
    tries_program = is_program and options.compile is None and not options.no_compile
    is_built = not why_unbuilt and all(target.passes(is_strict=False) for target in inspections)
    run = None
    if why_not_run and not options.no_compile:
        run = DefaultRun(spec, why_not_run=why_not_run)
    elif is_built and (options.run or tries_program):
        inputs = spec.inputs if options.run else [min(spec.inputs, key=size_of_input)]
        backend, unseen = options.backend or "auto", options.unseen or 0
        run = run_default(spec, backend, options.device, inputs, unseen, options.seed, options.wait)
    return SpaceCheck(
        spec=spec,
        sizes={
            heading: SpaceSize.of(spec, checked_spaces(spec, compiler=compiler))
            for heading, compiler in _flag_sets(spec)
        },
        targets=inspections,
        why_unbuilt=why_unbuilt,
        passed_over={
            target.name: _missing_source(spec, target)
            for target in targets
            if _is_compiled(spec) and target.language not in spec.sources
        },
        host=host,
        why_host_failed=why_host_failed,
        run=run,
    )


def _missing_framework(spec: Spec) -> str:
    """Say what to install for a Python callable; empty where nothing is missing."""
    try:
        require_framework(spec)
    except BackendUnavailable as error:
        return str(error)
    return ""


# ----------------------------------------------------------------------------------- the space


def _flag_sets(spec: Spec) -> Iterator[tuple[str, str | None]]:
    """Yield the headings of the sizes, each with the compiler whose flags count."""
    compilers = {"cuda": "nvcc", "opencl": "opencl"}
    if spec.program is not None:
        yield "", spec.program_compiler
        return
    if all(p.compiler is None for p in spec.parameters):
        yield "", None
        return
    for language in sorted(spec.sources):
        compiler = compilers[language]
        has_flags = any(p.compiler == compiler for p in spec.parameters)
        yield f"{language}, {'with' if has_flags else 'no'} compiler flags: ", compiler


# ------------------------------------------------------------------------------ the host module


def describe_host(spec: Spec, inspections: Sequence[KernelInspection]) -> str:
    """Run the host module on the smallest input, and compare what it makes with the kernel.

    Raises HostModuleError where it fails, LaunchFailed where the kernel takes other arguments.
    """
    # Here: it loads the parser.
    from harness.discover.source_arguments import SourceArguments

    smallest = min(spec.inputs, key=size_of_input)
    with redirect_stdout(sys.stderr):  # what it prints is no part of a document
        data = make_kernel_data(spec.host, smallest)
    compiled = spec.sources if _is_compiled(spec) else ()
    by_language = [SourceArguments(spec, language) for language in compiled]
    launches = _launches(spec, data, by_language) if spec.launch is None else ""
    if spec.launch is not None:
        launch = Launch(spec.functions[0], (1,), (1,), tuple(data.arguments))
        for arguments in by_language:
            arguments.check(launch, data, by_name=True)
    for inspection in inspections:
        inspection.check_arguments(data)
    names = f"arguments {', '.join(data.arguments)}; outputs {', '.join(data.expected)}"
    return f"({smallest}): {names}{launches}"


def _launches(spec: Spec, data: KernelData, by_language: Sequence[SourceArguments]) -> str:
    """List the default's first launches, up to one that reads data from the device.

    Raises LaunchFailed for arguments that do not fit the source.
    """
    data.arranged(TrackedConfig(spec.default))
    steps: list[str] = []
    for step in data.launches(TrackedConfig(spec.default), spec.functions):
        if isinstance(step, Read) or len(steps) == _LISTED_LAUNCHES:
            steps.append("...")
            break
        for arguments in by_language:
            arguments.check(step, data)
        steps.append(f"{step.function} {_shape(step.grid)} groups of {_shape(step.group)}")
    return f"; launches {', '.join(steps)}"


def _shape(extents: tuple[int, ...]) -> str:
    return "x".join(map(str, extents))


# ---------------------------------------------------------------------------------- the targets


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
        if spec.framework is not None and options.archs:
            raise UsageError(f"{spec.path} tunes a Python callable; leave --arch out")
        if spec.program is None and options.backend == "command":
            raise UsageError(f"{spec.path} tunes a kernel, which --backend command cannot build")


def _targets(options: CheckOptions) -> list[CompileTarget]:
    if options.archs:
        named = (arch.strip() for archs in options.archs for arch in archs.split(","))
        return [CompileTarget.of_architecture(arch) for arch in dict.fromkeys(named)]
    return [CompileTarget.of_device(options.backend or "auto", options.device)]


def _require_sources(specs: Sequence[Spec], targets: Sequence[CompileTarget]) -> None:
    """Refuse a space that has no source for a target that was named."""
    for spec in specs:
        for target in targets:
            if _is_compiled(spec) and target.language not in spec.sources:
                raise UsageError(f"{spec.path} cannot be compiled: {_missing_source(spec, target)}")


def _missing_source(spec: Spec, target: CompileTarget) -> str:
    """Say that a space has no source for a target, and what compiles those that it has."""
    languages = " and ".join(sorted(spec.sources))
    hint = "--arch sm_90" if "cuda" in spec.sources else "--backend opencl"
    return f"it has no {target.language} source, only {languages}; {hint} compiles that"
