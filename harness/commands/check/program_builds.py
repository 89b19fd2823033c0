"""Build many configurations of a program, and run none: this needs the compiler, but no device."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing

from harness.commands.check.inspection import Compiled, SpaceSize, size_of
from harness.commands.check.targets import checked_spaces
from harness.core.errors import BackendUnavailable, BuildFailed
from harness.core.machine import usable_cores
from harness.core.records import Config
from harness.measure.builds.queue import BuildQueue
from harness.measure.flags import fitted_to_program
from harness.measure.process.child import Child, ChildLost
from harness.measure.programs.building import (
    CommandBackend,
    CommandBuild,
    backend_of,
    command_build,
)
from harness.measure.programs.worker import ProgramWorker
from harness.space_file import Parameter, Spec

_ASK_TIMEOUT_S = 300.0


class ProgramInspection:
    """The builds of a program's default and of a uniform sample of its other configurations, for
    the first input. They start at once.

    `spec` is the space without the flags that the compiler does not know. `missing` is how many
    configurations the sample lacks.
    """

    def __init__(self, spec: Spec, sample: int, seed: int) -> None:
        """Ask the compiler for its identity; raises BackendUnavailable where it is missing."""
        self._backend = backend = backend_of(spec)
        self.identity = _identity(backend)
        self._builds: BuildQueue[CommandBuild] = BuildQueue(
            backend, self.identity, at_once=usable_cores()
        )
        self.spec = fitted_to_program(spec)
        self._spaces = checked_spaces(self.spec, backend.limits, backend.compiler)
        self.space = self._spaces[spec.inputs[0]]
        default = self.space.canonical(self.space.default)
        others = self.space.sample(random.Random(seed), sample, {default}) if sample else []
        self.missing = sample - len(others)
        self._configs = (default, *others)
        self.start(self._configs)

    @property
    def name(self) -> str:
        """The compiler whose flags are tuned."""
        return self._backend.compiler or "program.build"

    @property
    def count(self) -> int:
        """The number of configurations that are built, with the default."""
        return len(self._configs)

    @property
    def size(self) -> SpaceSize:
        """The size of the space."""
        return size_of(self.spec, self._spaces)

    @property
    def built_with(self) -> Sequence[Parameter]:
        """The parameters that the build names; others may act in `run` or `environment` alone."""
        named = frozenset().union(*(template.names for template in self._backend.plan.build))
        return [p for p in self.space.parameters if p.role == "flag" or p.name in named]

    def start(self, configs: Iterable[Config]) -> None:
        """Start the builds of configurations."""
        for config in configs:
            self._builds.start(self._program(config))

    def code_of(self, config: Config) -> str | None:
        """Return the digest of a configuration's machine code; None where it is not built."""
        build = self._compiled(config).build
        return None if build is None else build.binary_sha256

    def compiled(self) -> Iterator[Compiled]:
        """Wait for each configuration, the default first."""
        return map(self._compiled, self._configs)

    def close(self) -> None:
        """End the builders."""
        self._builds.close()

    def _compiled(self, config: Config) -> Compiled:
        try:
            return Compiled(config, self._builds.finish(self._program(config)).build)
        except BuildFailed as error:
            return Compiled(config, failure=str(error))

    def _program(self, config: Config) -> CommandBuild:
        return command_build(self.spec, self.space, config, self.spec.inputs[0])


def _identity(backend: CommandBackend) -> str:
    """Ask for the compiler's identity in a process of its own, where its commands end with it."""
    with closing(Child(ProgramWorker)) as child:
        try:
            return child.call(ProgramWorker.identity, backend, timeout_s=_ASK_TIMEOUT_S)
        except ChildLost as lost:
            raise BackendUnavailable(f"the process that asks the compiler {lost}") from None
