"""Measure programs on a worker: it builds, runs and verifies them as on one machine."""

from __future__ import annotations

import json

from harness.core.errors import BackendUnavailable, SpecError
from harness.core.records import Input
from harness.fleet.bundle import bundle_folder
from harness.fleet.held import Held
from harness.fleet.messages import (
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
from harness.measure.flags import fitted_to_program
from harness.measure.programs.measurer import ProgramMeasurer
from harness.space import ConstrainedSpace
from harness.space_file import Spec, load_spec


class Programs:
    """The machine of a worker, which runs the programs of one driver at a time."""

    def __init__(self) -> None:
        self._held: Held[ProgramSession, _OpenedSpace] = Held("the machine")

    def carry_out(self, request: ProgramRequest) -> object:
        """Carry out a call; raises errors of the interface."""
        session = request.session
        if isinstance(request.call, ReleasePrograms):
            return self._held.release(session)
        with self._held.used_by(session, lambda: _OpenedSpace(session)) as opened:
            return opened.called(request.call)

    def close(self) -> None:
        """End all child processes."""
        self._held.close()


class _OpenedSpace:
    """A space, as a worker reads it, and its measurer."""

    def __init__(self, session: ProgramSession) -> None:
        self._whole = _read(session)
        self._spec = fitted_to_program(self._whole)
        self._measurer = ProgramMeasurer(self._whole)
        self._spaces: dict[Input, ConstrainedSpace] = {}

    def called(self, call: ProgramCall) -> object:
        """Carry out a call."""
        measurer = self._measurer
        if isinstance(call, DescribePrograms):
            return self._described()
        assert not isinstance(call, ReleasePrograms)
        if isinstance(call, ExpectPrograms):
            # What is built differs by input only where nothing is built in advance.
            measurer.expect(self._space(self._spec.inputs[0]), call.configs)
            return True
        space = self._space(call.problem)
        if isinstance(call, RecallPrograms):
            measurer.recall(call.problem, call.measured)
        elif isinstance(call, MeasureProgram):
            return measurer.measure(space, call.problem, call.config, call.best_s)
        elif isinstance(call, MeasurePrograms):
            rounds, seeds = call.rounds, call.seeds
            many = measurer.measure_interleaved(space, call.problem, call.configs, rounds, seeds)
            return tuple(many)
        return True

    def _described(self) -> ProgramsHere:
        whole = {p.name: p.values for p in self._whole.parameters}
        return ProgramsHere(
            environment=self._measurer.environment,
            limits=self._measurer.limits,
            notices=self._measurer.notices,
            left={
                p.name: tuple(p.values) for p in self._spec.parameters if p.values != whole[p.name]
            },
            flag_notices=self._spec.notices,
        )

    def _space(self, problem: Input) -> ConstrainedSpace:
        if problem not in self._spaces:
            limits, compiler = self._measurer.limits, self._measurer.compiler
            self._spaces[problem] = ConstrainedSpace.of(self._spec, problem, limits, compiler)
        return self._spaces[problem]

    def close(self) -> None:
        """End the processes."""
        self._measurer.close()


def _read(session: ProgramSession) -> Spec:
    """Read the space of a session; raises BackendUnavailable where it is not the driver's."""
    folder = bundle_folder(session.bundle)
    try:
        spec = load_spec(folder / session.space).with_measure(json.loads(session.options))
    except SpecError as error:
        raise BackendUnavailable(f"the worker cannot read the space: {error}") from None
    if spec.program_sha256 != session.sha256:
        raise BackendUnavailable(
            f"the worker finds other files than this machine for {session.space}; are those that "
            "it names by absolute paths equal?"
        )
    return spec
