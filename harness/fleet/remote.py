"""Measure on a worker: the driver's end of an agent."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from harness.core.errors import BackendUnavailable, HarnessError
from harness.core.records import Config, Input, Measurement
from harness.fleet.agent import Agent, OpenedDevice
from harness.fleet.bundle import Bundle, PackedSpec
from harness.fleet.cluster import Cluster, WorkerLost
from harness.measure.trial.occasions import ONE_OCCASION, split_rounds
from harness.space import Space
from harness.space_file import Spec


class RemoteAgent:
    """The agent of a worker for this driver; `is_lost` once a call of it has failed."""

    def __init__(
        self, cluster: Cluster, address: str, driver: str, bundle: Bundle, space: PackedSpec
    ) -> None:
        """Start the agent; raises WorkerLost."""
        self._cluster = cluster
        self._address = address
        self._bundle = bundle
        self._actor = cluster.start(address, Agent, driver, space)
        self.is_lost = False

    def open(self, uuid: str) -> OpenedDevice:
        """Open a device, and send the user's files where the worker lacks them.

        Raises BackendUnavailable, DeviceBusy where another campaign measures on it.
        """
        facts = self.call("open", uuid)
        if facts is None:
            self.call("store", self._bundle)
            facts = self.call("open", uuid)
        if not isinstance(facts, OpenedDevice):
            raise WorkerLost(f"the worker {self._address} answered with a {type(facts).__name__}")
        return facts

    def call(self, method: str, *args: object) -> Any:
        """Call a method of the agent. Raises what it raises, and WorkerLost."""
        try:
            return self._cluster.call(self._address, self._actor, method, *args)
        except WorkerLost:
            self.is_lost = True
            raise


class RemoteMeasurer:
    """The measurer of a worker's device; a `harness.measure.measurer.Measurer`."""

    is_replay = False

    def __init__(self, agent: RemoteAgent, uuid: str) -> None:
        """Open the space on the device; raises BackendUnavailable."""
        self._agent = agent
        self._uuid = uuid
        facts = agent.open(uuid)
        self.environment = facts.environment
        self.limits = facts.limits
        self.compiler = facts.compiler
        self.notices = facts.notices
        self._fitted = facts.fitted
        # Sent with the next call, since a message costs the driver a millisecond.
        self._recalled: list[tuple[Input, tuple[Measurement, ...]]] = []
        self._expected: list[Config] = []

    def fitted(self, spec: Spec) -> Spec:
        narrowed = {name: getattr(self._fitted, name) for name in ("parameters", "baselines")}
        return dataclasses.replace(spec, notices=self._fitted.notices, **narrowed)

    def expect(self, space: Space, configs: Iterable[Config]) -> None:
        self._expected += configs

    def recall(self, problem: Input, measured: Iterable[Measurement]) -> None:
        self._recalled.append((problem, tuple(measured)))

    def measure(
        self, space: Space, problem: Input, config: Config, best_s: float | None
    ) -> Measurement:
        """Measure a configuration on the worker; raises BackendUnavailable where it is lost."""
        found = self._asked("measure", problem, config, best_s)
        _require_asked([found], problem, [config])
        measurement: Measurement = found
        return measurement

    def measure_interleaved(
        self,
        space: Space,
        problem: Input,
        configs: Sequence[Config],
        rounds: int,
        seeds: Sequence[int] = ONE_OCCASION,
    ) -> list[Measurement]:
        """Measure several on the worker, interleaved."""
        found = self._asked("measure_interleaved", problem, tuple(configs), rounds, tuple(seeds))
        samples = sum(block.rounds for block in split_rounds(rounds, seeds))
        _require_asked(found, problem, configs, samples)
        return list(found)

    def close(self) -> None:
        """Leave the device to others; a worker that is lost has left it."""
        with contextlib.suppress(HarnessError):
            self._agent.call("close", self._uuid)

    def _asked(self, method: str, problem: Input, *args: object) -> Any:
        announced = self._recalled, self._expected
        self._recalled, self._expected = [], []
        answer = self._agent.call("measure", self._uuid, announced, method, problem, *args)
        try:
            found, self.notices = answer
        except (TypeError, ValueError):
            raise BackendUnavailable(f"the worker answered with {answer!r:.100}") from None
        return found


def _require_asked(
    found: object, problem: Input, configs: Sequence[Config], samples: int | None = None
) -> None:
    """Raise BackendUnavailable unless these are the measurements of an input and configurations,
    with so many samples of each that works."""
    if not isinstance(found, list) or len(found) != len(configs):
        raise BackendUnavailable(f"the worker did not answer with {len(configs)} measurements")
    for measured, config in zip(found, configs, strict=True):
        if not isinstance(measured, Measurement):
            raise BackendUnavailable(f"the worker answered with a {type(measured).__name__}")
        if (measured.config, measured.input) != (config, problem):
            raise BackendUnavailable("the worker answered for another configuration or input")
        if samples is not None and measured.timing and measured.timing.count != samples:
            raise BackendUnavailable(
                f"the worker answered with {measured.timing.count} samples, not {samples}"
            )
