"""What a space holds, and what a compiler makes of its configurations; no kernel is run.

A `Target` is what is compiled for: an architecture of nvcc, which needs no GPU, or a device
that is here. Its limits bound the configurations that are counted and drawn.
"""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.analysis.failures import headline
from harness.constraints.expression import Expression
from harness.core.errors import BackendUnavailable, BuildFailed, ExpressionError, UsageError
from harness.core.program import Program
from harness.core.records import Build, Config, DeviceLimits, Input, Value
from harness.measure.backends.choose import Backend, choose
from harness.measure.backends.launch_checks import why_unloadable
from harness.measure.backends.nvcc import Nvcc
from harness.measure.build_queue import BuildQueue
from harness.measure.flags.fit import fitted_to_backend
from harness.measure.occupancy import Occupancy, multiprocessor, occupancy
from harness.space import Space
from harness.space.program import make_program
from harness.space_file import LaunchPlan, Spec

ARCHITECTURE_LIMITS = DeviceLimits(
    max_group_size=1024,
    max_group_dims=(1024, 1024, 64),
    max_grid_dims=(2**31 - 1, 65535, 65535),
    max_local_bytes=48 * 1024,
    compute_units=0,
    warp_size=32,
)
"""What every NVIDIA architecture in use allows; how many multiprocessors (compute units) there
are only a device tells, so that 0 stands for unknown and nothing may be judged by it. Source:
CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"."""

ONLY_A_DEVICE_TELLS = "compute_units"
"""The device limit that no architecture tells."""


# ------------------------------------------------------------------- what is compiled for


@dataclass(frozen=True)
class Target:
    """What is compiled for: a device that is here, or an architecture without one."""

    name: str
    backend: Backend
    identity: str
    limits: DeviceLimits
    nvcc: Nvcc | None = None  # None for OpenCL
    has_device: bool = False

    @property
    def language(self) -> str:
        """The language of the source that is compiled."""
        return self.backend.language

    @property
    def why_no_occupancy(self) -> str | None:
        """None where the occupancy of a kernel can be computed."""
        if self.nvcc is None:
            return "OpenCL does not tell how many registers a kernel uses or spills"
        try:
            multiprocessor(self.nvcc.arch)
        except ValueError as error:
            return str(error)
        return None


def architecture_target(arch: str) -> Target:
    """An architecture such as `sm_90`, compiled for without a GPU.

    Raises UsageError for what is no architecture, BackendUnavailable without nvcc.
    """
    nvcc = Nvcc(arch)
    backend = Backend("cuda", "nvcc", "its architecture was named", arch=arch)
    return Target(arch, backend, nvcc.identity, ARCHITECTURE_LIMITS, nvcc)


def device_target(requested: str) -> Target:
    """The device that `requested` (auto, cuda, opencl) gives; raises BackendUnavailable."""
    try:
        backend = choose(requested)
    except BackendUnavailable as error:
        if requested == "cuda":
            hint = "Without a GPU, name the architecture to compile for: --arch sm_90"
            raise BackendUnavailable(f"{error}\n{hint}") from None
        raise
    compiler, device = backend.open_compiler(), backend.open_device()
    try:
        limits, name = device.limits, f"{backend.language} on {device.environment.device}"
    finally:
        device.close()
    nvcc = compiler if isinstance(compiler, Nvcc) else None
    return Target(name, backend, compiler.identity, limits, nvcc, has_device=True)


def unjudged(spec: Spec, target: Target) -> list[str]:
    """What of a space needs a device and is left out, a sentence each."""
    if target.has_device:
        return []
    named = [
        f"{spec.path}:{c.line}: the constraint `{c.expression.written}`"
        for c in spec.constraints
        if _needs_device(c.expression)
    ]
    grid = spec.launch.grid if spec.launch else ()
    named += [f"the grid size `{size.text}`" for size in grid if _needs_device(size)]
    return [
        f"{what} needs a device, since only that tells {ONLY_A_DEVICE_TELLS}: it is not judged "
        f"for {target.name}, so that configurations may be counted and compiled that it forbids"
        for what in named
    ]


def fitted_spec(spec: Spec, target: Target, builds: BuildQueue[Program]) -> Spec:
    """The space without the flags that the target's compiler does not know."""
    arch = None if target.nvcc is None else target.nvcc.arch
    compiler = target.backend.compiler
    return fitted_to_backend(spec, compiler, arch, target.identity, builds.finish)


def target_space(spec: Spec, target: Target, given: Input) -> Space:
    """The space under a target's limits, without what `unjudged` tells.

    Raises UsageError where the size of the group depends on what only a device tells.
    """
    if not target.has_device:
        kept = tuple(c for c in spec.constraints if not _needs_device(c.expression))
        launch = spec.launch and _without_device(spec.launch, spec.path)
        spec = dataclasses.replace(spec, constraints=kept, launch=launch)
    return Space.of(spec, given, target.limits, target.backend.compiler)


def _without_device(launch: LaunchPlan, path: Path) -> LaunchPlan:
    for size in launch.group:
        if _needs_device(size):
            raise UsageError(
                f"{path}: the group size `{size.text}` needs a device, since only that "
                f"tells {ONLY_A_DEVICE_TELLS}; leave --arch out where one is"
            )
    grid = tuple(Expression("1") if _needs_device(s) else s for s in launch.grid)
    return dataclasses.replace(launch, grid=grid)


def _needs_device(expression: Expression) -> bool:
    return ONLY_A_DEVICE_TELLS in expression.names


# ---------------------------------------------------------------------------- how large


@dataclass(frozen=True)
class Estimate:
    """A number of legal configurations with its standard error, on one input."""

    given: Input
    count: float
    error: float


@dataclass(frozen=True)
class Size:
    """How many points and legal configurations a space has.

    `legal` counts exactly, by input; where that is not affordable on some input, it is empty,
    and `estimate` tells of the first such input.
    """

    points: int
    legal: Mapping[Input, int]
    estimate: Estimate | None = None


def size_of(spec: Spec, spaces: Sequence[Space]) -> Size:
    """The size of a space, given its spaces for all inputs in their order."""
    points = spaces[0].raw_count
    names = {name for space in spaces for c in space.constraints for name in c.names}
    # Inputs that agree in what constraints name have the same legal configurations.
    features = [name for name in spec.features if name in names]
    counts: dict[tuple[Value, ...], int] = {}
    legal: dict[Input, int] = {}
    for given, space in zip(spec.inputs, spaces, strict=True):
        key = tuple(given[name] for name in features)
        if key not in counts:
            count = space.count
            if count is None:
                return Size(points, {}, Estimate(given, *space.estimate_count(random.Random(0))))
            counts[key] = count
        legal[given] = counts[key]
    return Size(points, legal)


# ------------------------------------------------------------------------- what comes out


@dataclass(frozen=True)
class Trial:
    """What came of compiling one configuration: a failure, or a build and what it means.

    `group_size` and `occupancy` are those of the first input.
    """

    config: Config
    build: Build | None = None
    group_size: int | None = None
    occupancy: Occupancy | None = None
    failure: str = ""

    @property
    def headline(self) -> str:
        """The line that tells most of the failure, or else of the compiler's warnings."""
        log = self.failure or (self.build.log if self.build else "")
        return headline(log, ("error", "fatal", "warning"))


class Inspection:
    """The default of a space and a uniform sample of its other legal configurations on the
    first input, under compilation for a target from the start.

    `builds` are those of the target; `missing` is how many fewer others there are than were
    asked for. `spec` is the space without the flags that the target's compiler does not know.
    """

    def __init__(
        self,
        spec: Spec,
        target: Target,
        builds: BuildQueue[Program],
        sample: int = 0,
        seed: int = 0,
    ) -> None:
        spec = fitted_spec(spec, target, builds)
        self.spec = spec
        self.target = target
        self._builds = builds
        self._spaces = [target_space(spec, target, given) for given in spec.inputs]
        self._space = self._spaces[0]
        default = self._space.default
        legal = {default} if self._space.is_legal(default) else set()
        others = self._space.sample(random.Random(seed), sample, legal) if sample else []
        self.missing = sample - len(others)
        self._configs = (default, *others)
        for config in self._configs:
            builds.start(self._program(config))

    def _program(self, config: Config) -> Program:
        return make_program(self.spec, self._space, config, self.target.language)

    @property
    def count(self) -> int:
        """How many configurations are compiled, the default among them."""
        return len(self._configs)

    @property
    def size(self) -> Size:
        """The size of the space within the target's limits."""
        return size_of(self.spec, self._spaces)

    def trials(self) -> Iterator[Trial]:
        """What came of each configuration, the default first; waits for the compiler."""
        return map(self._trial, self._configs)

    def why_default_illegal(self) -> str | None:
        """None where the target allows the default on every input."""
        default = self._space.default
        for given, space in zip(self.spec.inputs, self._spaces, strict=True):
            reason = space.why_illegal(default)
            if reason is not None:
                return f"{self.target.name} does not allow it on the input ({given}): {reason}"
        return None

    def _trial(self, config: Config) -> Trial:
        failure = self.why_default_illegal() if config == self._space.default else None
        try:
            build = self._builds.finish(self._program(config)).build
            group_size = self._group_size(config)
        except (BuildFailed, ExpressionError) as error:
            return Trial(config, failure=str(error))
        resident = self._occupancy(build, group_size)
        failure = failure or why_unloadable(build, self.target.limits)
        if not failure and resident is not None and resident.active_groups == 0:
            failure = f"no multiprocessor can hold a block of it: {resident.limiter}"
        return Trial(config, build, group_size, resident, failure or "")

    def _group_size(self, config: Config) -> int | None:
        """None where the host module tells the launches: it needs the input's data for that."""
        if self.spec.launch is None:
            return None
        return math.prod(self._space.launch(config, self.spec.functions[0], ()).group)

    def _occupancy(self, build: Build, group_size: int | None) -> Occupancy | None:
        if self.target.nvcc is None or build.registers is None or self.target.why_no_occupancy:
            return None
        if group_size is None:
            return None
        shared_bytes = build.shared_bytes or 0
        return occupancy(self.target.nvcc.arch, group_size, build.registers, shared_bytes)
