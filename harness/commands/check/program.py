"""Trying the program of a space: is it built, run, timed and verified as the space says?"""

from __future__ import annotations

import math
import random
from contextlib import closing

from rich.console import Console

from harness.commands.check.describe import print_notices
from harness.core.errors import BackendUnavailable, HostModuleError
from harness.core.program import Binary
from harness.core.records import Input, Measurement
from harness.core.text import counted
from harness.display import format_time
from harness.display.text import print_line
from harness.measure.flags.fit import fitted_to_program
from harness.measure.programs import ProgramMeasurer
from harness.space import Space
from harness.space_file import Spec

_RUNS = 2


def try_program(console: Console, spec: Spec, sample: int, seed: int) -> bool:
    """Build and run the default on the smallest input, build a uniform sample of the others, and
    tell what came of it; whether the default is well."""
    try:
        measurer = ProgramMeasurer(spec.with_measure({"repeats": _RUNS, "min_repeats": _RUNS}))
    except BackendUnavailable as error:
        print_line(console, f"  default FAILED: {error}")
        return False
    with closing(measurer):
        spec = fitted_to_program(spec)
        print_notices(console, spec)
        given = min(spec.inputs, key=_size)
        space = Space.of(spec, given, measurer.limits, measurer.compiler)
        print_line(console, f"  built with {measurer.environment.compiler}{_hint(spec)}")
        is_well = _tried(console, measurer, space, given)
        if sample:
            _build_others(console, measurer, space, given, sample, seed)
        return is_well


def _hint(spec: Spec) -> str:
    """What to do where the first word of the build is not the compiler."""
    if spec.program is None or not spec.program.build or spec.program.version is not None:
        return ""
    return (
        "; when that file or its version changes, all is built anew. Where it starts another "
        "compiler, as env, a wrapper or a shell does, let `version:` tell of that one"
    )


def _tried(console: Console, measurer: ProgramMeasurer, space: Space, given: Input) -> bool:
    try:
        found = measurer.measure(space, given, space.canonical(space.default), None)
    except HostModuleError as error:
        print_line(console, f"  default FAILED on ({given}): {error}")
        return False
    if found.timing is None:
        print_line(console, f"  default FAILED on ({given}): {found.outcome}: {found.message}")
        return False
    print_line(console, f"  default on ({given}): OK, {format_time(found.time_s)}; {_told(found)}")
    return True


def _told(found: Measurement) -> str:
    built = "nothing to build" if found.build is None else _build_told(found.build.compile_s)
    process_s = found.observed.get("process_s")
    of_process = f", of {format_time(process_s)} of its process" if process_s is not None else ""
    return f"{built}{of_process}"


def _build_told(compile_s: float) -> str:
    return f"built in {format_time(compile_s)}" if compile_s else "nothing to build"


def _build_others(
    console: Console,
    measurer: ProgramMeasurer,
    space: Space,
    given: Input,
    sample: int,
    seed: int,
) -> None:
    others = space.sample(random.Random(seed), sample, {space.canonical(space.default)})
    measurer.expect(space, others)
    built = [measurer.build(space, config, given) for config in others]
    failed = [found for found in built if isinstance(found, Measurement)]
    codes = {found.build.binary_sha256 for found in built if isinstance(found, Binary)}
    told = f"{counted(len(built), 'other configuration')} built, {len(failed)} failed"
    print_line(console, f"  {told}; {counted(len(codes), 'different program')}")
    for measurement in failed[:3]:
        lines = measurement.message.splitlines()
        print_line(console, f"    ({measurement.config}): {' '.join(lines[:2])}")


def _size(given: Input) -> float:
    return math.prod(float(v) for v in given.values() if isinstance(v, (int, float)))
