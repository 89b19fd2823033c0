"""Measure on a worker, whose agent has a measurer for each of its devices."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable, Sequence

from harness.core.errors import BackendUnavailable, HarnessError
from harness.core.records import Config, Input, Measurement
from harness.fleet.agent import OpenedDevice
from harness.fleet.cluster import Actor
from harness.measure.trial.occasions import ONE_OCCASION
from harness.space import Space
from harness.space_file import Spec


class RemoteMeasurer:
    """The measurer of a worker's device; a `harness.measure.measurer.Measurer`."""

    is_replay = False

    def __init__(self, agent: Actor, uuid: str) -> None:
        """Open the device; raises BackendUnavailable, DeviceBusy where another campaign measures on
        it."""
        self._agent = agent
        self._uuid = uuid
        opened = agent.call("run", "open", uuid)
        if not isinstance(opened, OpenedDevice):
            raise BackendUnavailable(f"the worker answered with a {type(opened).__name__}")
        self.environment = opened.environment
        self.limits = opened.limits
        self.compiler = opened.compiler
        self.notices = opened.notices
        self._fitted = opened.fitted
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
        return self._asked(problem, [config], "measure", config, best_s)[0]

    def measure_interleaved(
        self,
        space: Space,
        problem: Input,
        configs: Sequence[Config],
        rounds: int,
        seeds: Sequence[int] = ONE_OCCASION,
    ) -> list[Measurement]:
        """Measure several on the worker, interleaved."""
        asked = "measure_interleaved", tuple(configs), rounds, tuple(seeds)
        return self._asked(problem, configs, *asked)

    def close(self) -> None:
        """Leave the device to others; a worker that is lost has left it."""
        with contextlib.suppress(HarnessError):
            self._agent.call("run", "close", self._uuid)

    def _asked(
        self, problem: Input, configs: Sequence[Config], method: str, *args: object
    ) -> list[Measurement]:
        """Return the measurements of configurations; raises BackendUnavailable for others."""
        announced = self._recalled, self._expected
        self._recalled, self._expected = [], []
        asked = self._uuid, announced, method, problem, *args
        answer = self._agent.call("run", "measure", *asked)
        try:
            found, self.notices = answer
            measured = [found] if isinstance(found, Measurement) else list(found)
            given = [(each.config, each.input) for each in measured]
        except (AttributeError, TypeError, ValueError):
            raise BackendUnavailable(f"the worker answered with {answer!r:.100}") from None
        if given != [(config, problem) for config in configs]:
            raise BackendUnavailable("the worker answered for other configurations or inputs")
        return measured
