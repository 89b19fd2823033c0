"""Measure a program on a worker, for the driver."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Sequence
from typing import Any

from harness.core.errors import HarnessError
from harness.core.records import Config, DeviceLimits, Environment, Input, Measurement
from harness.fleet import wire
from harness.fleet.bundle import Packed, pack_program
from harness.fleet.cluster import FleetDevice
from harness.fleet.messages import (
    PROGRAM_RESULTS,
    DescribePrograms,
    ExpectPrograms,
    MeasureProgram,
    MeasurePrograms,
    ProgramCall,
    ProgramRequest,
    ProgramSession,
    ProgramsHere,
    RecallPrograms,
    ReleasePrograms,
)
from harness.fleet.remote_device import Channel, ask, require_asked
from harness.measure.flags import with_values_left
from harness.measure.occasions import ONE_OCCASION, split_rounds
from harness.space import Space
from harness.space_file import Spec


class RemotePrograms:
    """The measurer of a program on a worker's machine; a `harness.measure.measurer.Measurer`."""

    is_replay = False

    def __init__(
        self, spec: Spec, channel: Channel, session: ProgramSession, packed: Packed
    ) -> None:
        """Open the space on the worker; raises BackendUnavailable."""
        self._channel = channel
        self._session = session
        self._packed = packed
        self._here: ProgramsHere = self._asked(DescribePrograms())
        self.compiler = spec.program_compiler

    @property
    def environment(self) -> Environment:
        """The worker's machine and compiler."""
        return self._here.environment

    @property
    def limits(self) -> DeviceLimits:
        """The machine's limits."""
        return self._here.limits

    @property
    def notices(self) -> Sequence[str]:
        """What the space asks for and cannot have there."""
        return self._here.notices

    def fitted(self, spec: Spec) -> Spec:
        """Return the space without the flags that the worker's compiler does not know."""
        return with_values_left(spec, self.compiler, self._here.left, self._here.flag_notices)

    def expect(self, space: Space, configs: Iterable[Config]) -> None:
        """Announce what will be built next."""
        self._asked(ExpectPrograms(tuple(configs)))

    def recall(self, problem: Input, measured: Iterable[Measurement]) -> None:
        """Announce earlier measurements of an input."""
        self._asked(RecallPrograms(problem, tuple(measured)))

    def measure(
        self, space: Space, problem: Input, config: Config, best_s: float | None
    ) -> Measurement:
        """Build, run and verify on the worker; raises BackendUnavailable where it is lost."""
        found: Measurement = self._asked(MeasureProgram(problem, config, best_s))
        require_asked([found], problem, [config])
        return found

    def measure_interleaved(
        self,
        space: Space,
        problem: Input,
        configs: Sequence[Config],
        rounds: int,
        seeds: Sequence[int] = ONE_OCCASION,
    ) -> list[Measurement]:
        """Measure several on the worker, interleaved."""
        call = MeasurePrograms(problem, tuple(configs), rounds, tuple(seeds))
        found: Sequence[Measurement] = self._asked(call)
        samples = sum(block.rounds for block in split_rounds(rounds, seeds))
        require_asked(found, problem, configs, samples)
        return list(found)

    def close(self) -> None:
        """Leave the machine to others; a worker that is lost has left it."""
        with contextlib.suppress(HarnessError):
            self._asked(ReleasePrograms())

    def _asked(self, call: ProgramCall) -> Any:
        request = wire.encode(ProgramRequest, ProgramRequest(self._session, call))
        kind = PROGRAM_RESULTS[type(call)]
        return ask(self._channel, self._channel.program, kind, request, self._packed.bundle)


class ProgramOpener:
    """Opens measurers of a program on the workers of a fleet."""

    def __init__(self, spec: Spec, driver: str) -> None:
        self._spec = spec
        self._packed = pack_program(spec)
        self._session = ProgramSession(
            driver=driver,
            run=os.urandom(8).hex(),
            bundle=self._packed.bundle.digest,
            space=self._packed.host,
            sha256=spec.program_sha256,
            options=json.dumps(spec.measure.model_dump(mode="json", exclude_unset=True)),
        )

    def open(self, device: FleetDevice) -> RemotePrograms:
        """Open the measurer of a machine; raises BackendUnavailable where it cannot be opened."""
        return RemotePrograms(self._spec, device.channel, self._session, self._packed)
