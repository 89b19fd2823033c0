"""Count the configurations of a space, and build some of them for a target; none is run."""

from __future__ import annotations

import contextlib
import math
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.analysis.failures import headline
from harness.checking.targets import CompileTarget, checked_spaces
from harness.core.errors import BuildFailed, ExpressionError
from harness.core.machine import usable_cores
from harness.core.program import Binary, Launch, Program
from harness.core.records import Build, Config, Input
from harness.display.progress import ProgressDisplay
from harness.measure.builds.queue import BuildQueue
from harness.measure.cuda.cubin import kernel_symbol, packed_arguments, parameter_places
from harness.measure.cuda.occupancy import Occupancy, occupancy
from harness.measure.device.launch_checks import why_unloadable
from harness.measure.flags import fitted_to_backend, fitted_to_program
from harness.measure.kernels.data import KernelData
from harness.measure.programs.building import backend_of, command_build
from harness.space import ConstrainedSpace
from harness.space.constrained import make_program
from harness.space_file import Spec


@dataclass(frozen=True)
class _CountEstimate:
    """An estimated number of legal configurations on one input, with its standard error."""

    problem: Input
    count: float
    error: float


@dataclass(frozen=True)
class SpaceSize:
    """The number of points of a space, of its inputs and of its legal configurations.

    `legal` has the exact count of each checked input. Where an input is too large to count, `legal`
    is empty and `estimate` is of the first such input.
    """

    points: int
    inputs: int
    legal: Mapping[Input, int]
    estimate: _CountEstimate | None = None

    @classmethod
    def of(cls, spec: Spec, spaces: Mapping[Input, ConstrainedSpace]) -> SpaceSize:
        """Count points and legal configurations."""
        points, inputs = spaces[spec.inputs[0]].raw_count, len(spec.inputs)
        counts: dict[Input, int] = {}
        for problem, space in spaces.items():
            count = space.count
            if count is None:
                estimate = _CountEstimate(problem, *space.estimate_count(random.Random(0)))
                return cls(points, inputs, {}, estimate)
            counts[problem] = count
        return cls(points, inputs, counts)


@dataclass(frozen=True)
class Compiled:
    """The result of compiling one configuration: a build, a failure, or a build that the target
    cannot launch. `occupancy` and `dynamic_bytes`, of CUDA's shared memory, are of the first
    input."""

    config: Config
    build: Build | None = None
    occupancy: Occupancy | None = None
    failure: str = ""
    dynamic_bytes: int = 0

    @property
    def shared_bytes(self) -> int | None:
        """The static and the dynamic shared memory of a group; None where it is unknown."""
        static_bytes = self.build.shared_bytes if self.build else None
        return None if static_bytes is None else static_bytes + self.dynamic_bytes

    @property
    def ended(self) -> str:
        """How far a failed one came."""
        return "compiled, but cannot be launched" if self.build else "not compiled"

    @property
    def headline(self) -> str:
        """The most informative line of the failure, or else of the compiler's warnings."""
        log = self.failure or (self.build.log if self.build else "")
        return headline(log, ("error", "fatal", "warning"))


class Inspection(ABC):
    """The builds of a space's default and of a uniform sample of its other configurations, for the
    first input.

    That of the default starts at once; `finish` starts the others and waits for the `results`, the
    default first, for `wall_s` seconds. `name` is what they are built for or with, `spec` the space
    without the flags that the compiler does not know, `size` that within the limits of the target,
    and `missing` how many configurations the sample lacks.
    """

    def __init__(
        self,
        spec: Spec,
        name: str,
        builds: BuildQueue[Any],
        spaces: Mapping[Input, ConstrainedSpace],
        sample: int,
        seed: int,
    ) -> None:
        self.spec = spec
        self.name = name
        self._builds = builds
        self._spaces = spaces
        self.space = spaces[spec.inputs[0]]
        default = self.space.default
        legal = {default} if self.space.is_legal(default) else set()
        others = self.space.sample(random.Random(seed), sample, legal) if sample else []
        self.missing = sample - len(others)
        self.configs = (default, *others)
        self.results: list[Compiled] = []
        self.wall_s = 0.0
        builds.start(self.program(default))

    @property
    def size(self) -> SpaceSize:
        """The size of the space within the target's limits."""
        return SpaceSize.of(self.spec, self._spaces)

    @abstractmethod
    def program(self, config: Config) -> Any:
        """Return what is built of a configuration."""

    def finish(self, display: ProgressDisplay) -> None:
        """Wait for the builds."""
        started = time.perf_counter()
        for config in self.configs:
            self._builds.start(self.program(config))
        display.begin_stage(f"{self.spec.name} for {self.name}", len(self.configs))
        for config in self.configs:
            result = self._compiled(config)
            self.results.append(result)
            display.step(result.headline if result.failure else "compiled")
        self.wall_s = time.perf_counter() - started

    @property
    def builds(self) -> Sequence[Build]:
        """The builds that the compiler made."""
        return [result.build for result in self.results if result.build is not None]

    @property
    def codes(self) -> set[str]:
        """The digests of the different machine codes."""
        return {sha256 for build in self.builds if (sha256 := build.binary_sha256) is not None}

    @property
    def failed(self) -> int:
        """The number of configurations that failed."""
        return sum(bool(result.failure) for result in self.results)

    def passes(self, is_strict: bool) -> bool:
        """Whether the default, or every configuration, compiles."""
        return not any(r.failure for r in (self.results if is_strict else self.results[:1]))

    def _compiled(self, config: Config) -> Compiled:
        try:
            return self.judged(config, self._builds.finish(self.program(config)))
        except (BuildFailed, ExpressionError) as error:
            return Compiled(config, failure=str(error))

    def judged(self, config: Config, binary: Binary) -> Compiled:
        """Describe a build."""
        return Compiled(config, binary.build)


class KernelInspection(Inspection):
    """The builds of a kernel for a target, by its `builds`."""

    def __init__(
        self,
        spec: Spec,
        target: CompileTarget,
        builds: BuildQueue[Program],
        sample: int = 0,
        seed: int = 0,
    ) -> None:
        self.target = target
        compiler = target.backend.compiler
        spec = fitted_to_backend(spec, compiler, target.arch, target.identity, builds.finish)
        spaces = checked_spaces(spec, target.limits, compiler)
        super().__init__(spec, target.name, builds, spaces, sample, seed)

    def program(self, config: Config) -> Program:
        """Return the source with its options."""
        return make_program(self.spec, self.space, config, self.target.language)

    def _why_default_illegal(self) -> str | None:
        """Return why the target refuses the default on some input; None where it allows it."""
        for problem, space in self._spaces.items():
            reason = space.why_illegal(self.space.default)
            if reason is not None:
                return f"{self.name} does not allow it on the input ({problem}): {reason}"
        return None

    def judged(self, config: Config, binary: Binary) -> Compiled:
        """Describe a build, and say whether the target can launch it."""
        build, launch = binary.build, None
        if self.spec.launch is not None:  # else the host module makes the launches, from data
            launch = self.space.launch(config, self.spec.functions[0], ())
        failure = self._why_default_illegal() if config == self.space.default else None
        resident = self._occupancy(build, launch)
        failure = failure or self._why_missing(binary)
        failure = failure or why_unloadable(build, self.target.limits)
        if not failure and resident is not None and resident.active_groups == 0:
            failure = f"no multiprocessor can hold a block of it: {resident.limiter}"
        return Compiled(
            config,
            build,
            resident,
            failure or "",
            # An OpenCL kernel may ignore the launch's: only CUDA's is known to count.
            launch.shared_bytes if launch and self.target.arch else 0,
        )

    def _why_missing(self, binary: Binary) -> str | None:
        """Return why a kernel of the space cannot be launched by its name; None where all can.

        An OpenCL kernel always has its name.
        """
        if self.target.arch is None:
            return None
        try:
            for name in self.spec.functions:
                kernel_symbol(binary.data, name)
        except LookupError as error:
            return str(error)
        return None

    def check_arguments(self, data: KernelData) -> None:
        """Check the arguments of the launch against the default's cubin; raises LaunchFailed.

        Does nothing where the default is not built, where the host module makes the launches, and
        for OpenCL, whose driver knows the parameters only when a kernel runs.
        """
        if self.target.arch is None or self.spec.launch is None:
            return
        try:
            cubin = self._builds.finish(self.program(self.space.default)).data
            places = parameter_places(cubin, kernel_symbol(cubin, self.spec.functions[0]))
        except (BuildFailed, LookupError):
            return  # reported with the default's build
        passed = {k: v for k, v in data.arguments.items() if k not in data.constants}
        are_arrays = [isinstance(value, np.ndarray) for value in passed.values()]
        values = [np.uintp(0) if isinstance(v, np.ndarray) else v for v in passed.values()]
        launch = Launch(self.spec.functions[0], (1,), (1,), tuple(passed))
        packed_arguments(launch, values, are_arrays, places)

    def _occupancy(self, build: Build, launch: Launch | None) -> Occupancy | None:
        arch = self.target.arch
        if arch is None or build.registers is None or launch is None:
            return None
        shared_bytes = (build.shared_bytes or 0) + launch.shared_bytes
        with contextlib.suppress(ValueError):  # an architecture of unknown limits
            return occupancy(arch, math.prod(launch.group), build.registers, shared_bytes)
        return None


class ProgramInspection(Inspection):
    """The builds of a program by its own command; this needs its compiler, but no device."""

    def __init__(self, spec: Spec, sample: int = 0, seed: int = 0) -> None:
        """Ask the compiler for its identity; raises BackendUnavailable where it is missing."""
        backend = backend_of(spec)
        self.identity = backend.identity
        builds = BuildQueue(backend, self.identity, at_once=usable_cores())
        spec, name = fitted_to_program(spec), backend.compiler or "program.build"
        spaces = checked_spaces(spec, backend.limits, backend.compiler)
        super().__init__(spec, name, builds, spaces, sample, seed)

    def program(self, config: Config) -> Any:
        """Return the command with its files."""
        return command_build(self.spec, self.space, config, self.spec.inputs[0])

    def close(self) -> None:
        """End the builders."""
        self._builds.close()
