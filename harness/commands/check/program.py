"""Build, run, time and verify the program of a space."""

from __future__ import annotations

import math
import random
from contextlib import closing

from rich.console import Console

from harness.commands.check.describe import print_notices
from harness.commands.check.inspection import Compiled
from harness.core.errors import BackendUnavailable, HostModuleError
from harness.core.program import Binary
from harness.core.records import Config, Input, Measurement
from harness.core.text import counted, format_time
from harness.display.text import print_line
from harness.measure.flags import fitted_to_program
from harness.measure.programs.measurer import ProgramMeasurer
from harness.space import ConstrainedSpace, Space
from harness.space_file import Spec

_RUNS = 2


def try_program(console: Console, spec: Spec, sample: int, seed: int) -> list[Compiled]:
    """Build and run the default on the smallest input, then build a uniform sample of others;
    print and return the results, the default first. Its failure may be one of its run."""
    try:
        measurer = ProgramMeasurer(spec.with_measure({"repeats": _RUNS, "min_repeats": _RUNS}))
    except BackendUnavailable as error:
        print_line(console, f"  default FAILED: {error}")
        return [Compiled(Config({p.name: p.default for p in spec.parameters}), failure=str(error))]
    with closing(measurer):
        spec = fitted_to_program(spec)
        print_notices(console, spec)
        problem = min(spec.inputs, key=_size)
        space = ConstrainedSpace.of(spec, problem, measurer.limits, measurer.compiler)
        print_line(console, f"  built with {measurer.environment.compiler}{_version_hint(spec)}")
        results = [_try_default(console, measurer, space, problem)]
        if sample:
            results += _build_others(console, measurer, space, problem, sample, seed)
        return results


def _version_hint(spec: Spec) -> str:
    """Explain `version:` where the first word of the build may not be the compiler."""
    if spec.program is None or not spec.program.build or spec.program.version is not None:
        return ""
    return (
        "; a change of that file or of its version rebuilds everything. If it starts another "
        "compiler, as env, a wrapper or a shell does, give `version:` that compiler's command"
    )


def _try_default(
    console: Console, measurer: ProgramMeasurer, space: Space, problem: Input
) -> Compiled:
    default = space.canonical(space.default)
    build = None
    try:
        found = measurer.measure(space, problem, default, None)
        build = found.build
        failure = "" if found.timing else f"{found.outcome}: {found.message}"
    except HostModuleError as error:
        failure = str(error)
    if failure:
        print_line(console, f"  default FAILED on ({problem}): {failure}")
    else:
        time = format_time(found.time_s)
        print_line(console, f"  default on ({problem}): OK, {time}; {_describe(found)}")
    return Compiled(default, build, failure=failure)


def _describe(found: Measurement) -> str:
    compile_s = found.build.compile_s if found.build else 0.0
    built = f"built in {format_time(compile_s)}" if compile_s else "nothing to build"
    process_s = found.observed.get("process_s")
    return built if process_s is None else f"{built}; the process took {format_time(process_s)}"


def _build_others(
    console: Console,
    measurer: ProgramMeasurer,
    space: Space,
    problem: Input,
    sample: int,
    seed: int,
) -> list[Compiled]:
    others = space.sample(random.Random(seed), sample, {space.canonical(space.default)})
    measurer.expect(space, others)
    built = [measurer.build(space, config, problem) for config in others]
    failed = sum(isinstance(found, Measurement) for found in built)
    codes = {found.build.binary_sha256 for found in built if isinstance(found, Binary)}
    counts = f"{counted(len(built), 'other configuration')} built, {failed} failed"
    print_line(console, f"  {counts}; {counted(len(codes), 'different program')}")
    return [
        Compiled(config, failure=found.message)
        if isinstance(found, Measurement)
        else Compiled(config, found.build)
        for config, found in zip(others, built, strict=True)
    ]


def _size(problem: Input) -> float:
    return math.prod(float(v) for v in problem.values() if isinstance(v, (int, float)))
