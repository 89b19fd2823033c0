"""Build the program of each configuration that a dispatcher may choose, exactly as measured."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import closing

from harness.core.config_diff import difference
from harness.core.errors import BuildFailed
from harness.core.machine import usable_cores
from harness.core.records import Config, Input, Value
from harness.dispatch.choice import DispatchProgram
from harness.dispatch.dispatcher import KernelFile
from harness.measure.builds.queue import BuildQueue
from harness.measure.programs.building import backend_of, command_build
from harness.space import ConstrainedSpace
from harness.space_file import ProgramPlan, Spec
from harness.space_file.command_line import SOURCE, why_not_built_once
from harness.space_file.program import LISTS, names_of

_MOST_NAME = 80
_NO_INPUT = Input({})


def compiler_identity(spec: Spec) -> str:
    """Return the name, version and digest of the compiler that is here, as it is recorded with
    measurements; raises BackendUnavailable without it."""
    return backend_of(spec).identity


def why_no_programs(spec: Spec) -> str:
    """Say why a configuration is not one program for all inputs; empty where it is."""
    return "" if spec.program is None else why_not_built_once(spec.program, spec.features)


def program_files(spec: Spec, program: DispatchProgram) -> tuple[KernelFile, ...]:
    """Make the file that each configuration runs: a build, from the build cache where it is there,
    or the source of a program that is not built; none if `run` names neither.

    Several programs are built at once. Raises BackendUnavailable without the compiler, and
    BuildFailed.
    """
    backend = backend_of(spec)
    plan = backend.plan
    if not plan.build:
        return _sources(plan, program)
    used = names_of(plan.build)
    built = [p for p in spec.tuned_for(backend.compiler) if p.role == "flag" or p.name in used]
    defaults = {parameter.name: parameter.default for parameter in built}
    space = ConstrainedSpace(spec.tuned_for(backend.compiler))
    device, identity = backend.device_here, backend.identity
    builds = [command_build(spec, space, config, _NO_INPUT, device) for config in program.portfolio]
    names: dict[str, str] = {}
    files = []
    with closing(BuildQueue(backend, identity, at_once=usable_cores())) as queue:
        for build in builds:
            queue.start(build)
        contents: dict[str, bytes] = {}
        for index, (config, build) in enumerate(zip(program.portfolio, builds, strict=True)):
            key = build.key(identity)
            names.setdefault(key, file_name(index, config, defaults))
            if key not in contents:
                try:
                    contents[key] = queue.finish(build).data
                except BuildFailed as error:
                    raise BuildFailed(f"({config}) does not build: {error}") from None
            files.append(KernelFile(names[key], contents[key], build.options))
    return tuple(files)


def file_name(index: int, config: Config, defaults: Mapping[str, Value]) -> str:
    """Name a program by its number and its changes from the default: `2-TILE=16-level=3`."""
    own = Config({name: value for name, value in config.items() if name in defaults})
    words = re.sub(r"[^A-Za-z0-9_.=+]+", "-", difference(own, defaults)).strip("-")
    name = f"{index}-{words}"
    return name if len(name) <= _MOST_NAME else name[:_MOST_NAME].rpartition("-")[0]


def _sources(plan: ProgramPlan, program: DispatchProgram) -> tuple[KernelFile, ...]:
    if not names_of(plan.run) & {SOURCE, *LISTS} or len(plan.sources) != 1:
        return ()
    path = plan.sources[0].path
    file = KernelFile(path.name, path.read_bytes())
    return (file,) * len(program.portfolio)
