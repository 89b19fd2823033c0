"""Check spaces, and print the results as one JSON document."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from contextlib import closing

from rich.console import Console

from harness.api.documents import CheckDocument, FaultDocument, SpaceDocument, TargetDocument
from harness.api.options import CheckOptions
from harness.commands.check.default_run import run_default
from harness.commands.check.inspection import Compiled, Inspection, SampledBuilds, size_of
from harness.commands.check.program import try_program
from harness.commands.check.program_builds import ProgramInspection
from harness.commands.check.targets import checked_spaces
from harness.commands.check.without_effect import without_effect
from harness.core.errors import BackendUnavailable, SpecError
from harness.core.records import Config
from harness.space_file import Spec
from harness.space_file.command_line import NoLauncher, command_line


def faults_document(error: SpecError) -> CheckDocument:
    """Describe the faults of spaces."""
    faults = [FaultDocument(fault.path, fault.line, fault.text) for fault in error.faults]
    return CheckDocument(is_ok=False, spaces=[], faults=faults)


def space_document(
    spec: Spec, inspections: Sequence[Inspection], options: CheckOptions, why_host_failed: str
) -> SpaceDocument:
    """Describe a valid space and the results of compiling it."""
    compiler = next((p.compiler for p in spec.parameters if p.compiler is not None), None)
    size = size_of(spec, checked_spaces(spec, compiler=compiler))
    targets = [
        _compiled(inspection, _results(inspection, options), options) for inspection in inspections
    ]
    if spec.program is not None and not options.no_compile:
        targets.append(_program(spec, options))
    sources, why_no_launcher = _launcher(spec)
    return SpaceDocument(
        name=spec.name,
        path=str(spec.path),
        points=size.points,
        inputs=[dict(problem) for problem in spec.inputs],
        legal=[size.legal.get(problem) for problem in spec.inputs] if size.legal else None,
        default=dict(Config({p.name: p.default for p in spec.parameters})),
        targets=targets,
        why_host_failed=why_host_failed,
        why_run_failed=_why_run_failed(spec, options) if options.run else "",
        feature_sources=sources,
        why_no_launcher=why_no_launcher,
    )


def _launcher(spec: Spec) -> tuple[dict[str, str], str]:
    """Return where a program's launcher finds the features, and why there can be none."""
    if spec.program is None:
        return {}, ""
    try:
        sources = command_line(spec.program, spec.features).sources
    except NoLauncher as error:
        return {}, str(error)
    return {name: str(source) for name, source in sources.items()}, ""


def is_ok(space: SpaceDocument, is_strict: bool) -> bool:
    """Say whether a space passes: its host module, its default, and with `is_strict` every
    configuration."""
    passes = (t.is_default_ok and not (is_strict and t.failed) for t in space.targets)
    return not space.why_host_failed and not space.why_run_failed and all(passes)


def _results(inspection: Inspection, options: CheckOptions) -> Sequence[Compiled]:
    sweeps = options.compile is not None
    return list(inspection.compiled()) if sweeps else inspection.compiled_until_alike()


def _compiled(
    inspection: SampledBuilds, results: Sequence[Compiled], options: CheckOptions
) -> TargetDocument:
    sweeps = options.compile is not None
    no_effect = without_effect(inspection, results, options.seed) if sweeps else None
    return _target(inspection.name, results, no_effect)


def _target(
    name: str, results: Sequence[Compiled], no_effect: Mapping[str, int] | None = None
) -> TargetDocument:
    default = results[0]
    codes = {result.build.binary_sha256 for result in results if result.build}
    return TargetDocument(
        target=name,
        is_default_ok=not default.failure,
        why_failed=default.failure,
        compiled=len(results),
        failed=sum(bool(result.failure) for result in results),
        machine_codes=len(codes - {None}),
        without_effect=None if no_effect is None else dict(no_effect),
    )


def _program(spec: Spec, options: CheckOptions) -> TargetDocument:
    """Build and run a program's default, or with --compile only build."""
    if options.compile is not None:
        try:
            builds = ProgramInspection(spec, options.compile, options.seed)
        except BackendUnavailable as error:
            return TargetDocument("command", False, str(error), 0, 0, 0, None)
        with closing(builds):
            return _compiled(builds, list(builds.compiled()), options)
    silent = Console(file=io.StringIO())
    return _target("command", try_program(silent, spec, options.others, options.seed))


def _why_run_failed(spec: Spec, options: CheckOptions) -> str:
    """Run the default on each input; return what that prints where it does not work."""
    shown = io.StringIO()
    works = run_default(
        Console(file=shown, width=1000), spec, options.backend or "auto", options.device
    )
    return "" if works else shown.getvalue().strip()
