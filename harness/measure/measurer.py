"""The interface that a search measures through, and what measuring kernels and programs on this
machine has in common.

Worker processes build several configurations at once; one more process runs one configuration at
a time. A configuration that hangs, crashes or exhausts memory takes down its process, never the
run: the process is replaced, and the failure is the outcome of that configuration.
"""

from __future__ import annotations

import contextlib
import itertools
from abc import ABC, abstractmethod
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Generic, Protocol, TypeVar

from harness.core.errors import ExpressionError
from harness.core.records import Config, DeviceLimits, Environment, Input, Measurement
from harness.measure.builds.queue import B, BuildQueue
from harness.measure.equal_code import EqualCode
from harness.measure.occasions import ONE_OCCASION, Block, over_occasions, split_rounds
from harness.measure.trial.trial import Job
from harness.space import Space
from harness.space_file import Spec
from harness.stats.timing import Sampling


class Measurer(Protocol):
    """Measure configurations, on this machine or from a recording."""

    @property
    def environment(self) -> Environment:
        """The device and its software: times of one environment can be compared."""

    @property
    def limits(self) -> DeviceLimits | None:
        """The device's limits on legal configurations; None where they are not known."""

    @property
    def compiler(self) -> str | None:
        """The compiler whose flags are tuned; None where none is."""

    @property
    def is_replay(self) -> bool:
        """Whether measurements are read from a file, and can be read again."""

    @property
    def notices(self) -> Sequence[str]:
        """What the user should know: what cannot be had on this machine, and why."""

    def expect(self, space: Space, configs: Iterable[Config]) -> None:
        """Announce what will be measured next, so that it can be compiled meanwhile."""

    def recall(self, problem: Input, measured: Iterable[Measurement]) -> None:
        """Announce earlier measurements of an input, which configurations of equal code share."""

    def measure(
        self, space: Space, problem: Input, config: Config, best_s: float | None
    ) -> Measurement:
        """Measure one legal configuration on one input, unless an equal one was measured."""

    def measure_interleaved(
        self,
        space: Space,
        problem: Input,
        configs: Sequence[Config],
        rounds: int,
        seeds: Sequence[int] = ONE_OCCASION,
    ) -> list[Measurement]:
        """Measure several, one sample of each per round; each of them is launched.

        The rounds are split into one occasion for each of the `seeds`, which are those of the
        input's data: two sets of data for each seed but that of the search, 0. Every occasion
        begins with new loads of the code and new allocations, unless the only seed is 0. See
        harness.measure.occasions.
        """

    def data_sha256(self, problem: Input, stored: Collection[str]) -> str | None:
        """Return the digest of an input's data as they are now, which its measurements have; None
        where there are none, or where they differ each time that they are made.

        It is cheapest where it is among the `stored` digests. Raises HostModuleError.
        """

    def weak_tests(self, problem: Input) -> Sequence[str]:
        """Return what verification would let pass on an input on which a configuration works; what
        other inputs have shown is left out."""

    def close(self) -> None:
        """End the worker processes; a call that waits for them in another thread raises."""


J = TypeVar("J", bound=Job)


class LocalMeasurer(ABC, Generic[B, J]):
    """Build, deduplicate and measure; subclasses know what is built, and how it runs."""

    is_replay = False
    notices: tuple[str, ...] = ()

    def __init__(
        self,
        spec: Spec,
        builds: BuildQueue[B],
        *,
        environment: Environment,
        limits: DeviceLimits,
        compiler: str | None,
        builds_disturb: bool,
        defaults: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        """`compiler`: the one whose flags are tuned; `builds_disturb`: builds slow runs down;
        `defaults`: of the sampling, for what the space does not say."""
        self.environment = environment
        self.limits = limits
        self.compiler = compiler
        self._spec = spec
        self._builds = builds
        self._builds_disturb = builds_disturb
        self._defaults = defaults
        self._has_measured = False
        self._recalled: dict[Input, list[Measurement]] = {}
        self._equal = EqualCode()

    def recall(self, problem: Input, measured: Iterable[Measurement]) -> None:
        """Keep earlier measurements for the first build of the input, which may equal one."""
        self._recalled.setdefault(problem, []).extend(measured)

    def data_sha256(self, problem: Input, stored: Collection[str]) -> str | None:
        """Return None; kernels have data."""
        return None

    def weak_tests(self, problem: Input) -> list[str]:
        """Return nothing: only kernels are looked at."""
        return []

    def measure(
        self, space: Space, problem: Input, config: Config, best_s: float | None
    ) -> Measurement:
        """Build, run, verify and time a configuration, unless an equal one was measured.

        Every failure of the configuration is an outcome. Raises HostModuleError where nothing
        can be measured on this input.
        """
        job = self._job(space, problem, config, best_s)
        self._has_measured = True
        if isinstance(job, Measurement):
            return self._completed(job)
        self._use_recalled(space, problem)
        launched = self._launched(space, problem, config)
        measured = self._equal.find(problem, config, job.binary.build, launched)
        if measured is None:
            measured = self._measured(space, job)
            self._equal.add(measured, launched)
        return self._completed(measured)

    def measure_interleaved(
        self,
        space: Space,
        problem: Input,
        configs: Sequence[Config],
        rounds: int,
        seeds: Sequence[int] = ONE_OCCASION,
    ) -> list[Measurement]:
        """Measure several configurations, one sample of each per round; each of them is run. Where
        the default is among them, the gain of each must show beside it.
        """
        prepared = [self._job(space, problem, config, None) for config in configs]
        jobs = [job for job in prepared if not isinstance(job, Measurement)]
        measure = partial(self._measured_interleaved, space)
        measured = iter(over_occasions(jobs, split_rounds(rounds, seeds), measure))
        ended = [job if isinstance(job, Measurement) else next(measured) for job in prepared]
        default = space.canonical(space.default)
        beside = next((m for m in ended if m.config == default), None)
        if beside is not None:
            ended = [self._shown(measured, beside, seeds) for measured in ended]
        return list(map(self._completed, ended))

    def close(self) -> None:
        """End all worker processes at once."""
        self._builds.close()

    # ------------------------------------------------------------------ what subclasses know

    @abstractmethod
    def _program(self, space: Space, config: Config, problem: Input) -> B:
        """Return what is built for a configuration."""

    @abstractmethod
    def _job(
        self, space: Space, problem: Input, config: Config, best_s: float | None
    ) -> J | Measurement:
        """Return everything that a measurement needs, or the measurement of an early failure."""

    @abstractmethod
    def _launched(self, space: Space, problem: Input, config: Config) -> tuple[Hashable, ...]:
        """Return how a configuration's machine code is launched; raises ExpressionError."""

    @abstractmethod
    def _measured(self, space: Space, job: J) -> Measurement:
        """Run one job."""

    @abstractmethod
    def _measured_interleaved(
        self, space: Space, jobs: Sequence[J], block: Block
    ) -> list[Measurement]:
        """Run several jobs interleaved on one occasion."""

    @abstractmethod
    def _shown(
        self, measured: Measurement, default: Measurement, seeds: Sequence[int]
    ) -> Measurement:
        """Return a measurement of the rounds of the default, unless its gain does not show."""

    def _completed(self, measured: Measurement) -> Measurement:
        """Return a measurement with what is known of it besides."""
        return measured

    # ---------------------------------------------------------------------- what is the same

    @property
    def _sampling(self) -> Sampling:
        return self._spec.measure.sampling(self._defaults)

    def _due(self, configs: Iterable[Config]) -> Iterable[Config]:
        """Return what to build now: where times wait for all builds, the first configuration of a
        command is built alone, so that its time is soon known."""
        waits = self._builds_disturb and not self._has_measured
        return itertools.islice(configs, 1) if waits else configs

    def _use_recalled(self, space: Space, problem: Input) -> None:
        """Let configurations of equal code share the measurements that were recalled."""
        for measured in self._recalled.pop(problem, []):
            with contextlib.suppress(ExpressionError):  # then it was not launched either
                self._equal.add(measured, self._launched(space, problem, measured.config))
