"""This project's techniques and OpenTuner's, run as `harness replay` does.

`opentuner` is OpenTuner's default bandit, AUCBanditMetaTechniqueA, on the drivers of this project:
plain OpenTuner counts repeats as tests, and does not de-duplicate with SQLAlchemy 2.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from benchmarks.peers.landscape import BudgetSpent, Course, Landscape
from benchmarks.recordings import RecordingFile, recorded
from harness.core.errors import UsageError
from harness.core.records import Outcome
from harness.models.transfer_prior import TransferData
from harness.recordings.replay import ListedSpace, ReplayMeasurer, recording_spec
from harness.results import RunPlan, Store, writing
from harness.results.ledger import Ledger
from harness.search import (
    InputInterface,
    InputSearch,
    Progress,
    SearchOptions,
    resolve_techniques,
    search_input,
)
from harness.search.transfer import TransferSources

ALIASES = {"opentuner": "AUCBanditMetaTechniqueA"}
_MEMORY = "sqlite://"
_PARALLELISM = 1  # as in harness replay, since nothing is built in parallel


class Ours:
    """Techniques of harness.search on one landscape."""

    def __init__(
        self, landscape: Landscape, scratch: Path, warm_start: Sequence[RecordingFile]
    ) -> None:
        """Prepare a search; `warm_start` are recordings for `auto` to learn from first."""
        self._landscape = landscape
        self._spec = recording_spec(landscape.recorded)
        self._space = ListedSpace(landscape.recorded, landscape.problem)
        self._measurer = ReplayMeasurer.of(landscape.recorded)
        self._warm_start = warm_start

    @cached_property
    def _transfer(self) -> TransferData | None:
        if not self._warm_start:
            return None
        sources = transfer_sources(self._landscape, self._warm_start)
        return sources.data_for(self._space, self._landscape.problem, {})

    def names(self, technique: str) -> tuple[str, ...]:
        """Return OpenTuner's names of a technique."""
        return resolve_techniques([ALIASES.get(technique, technique)])

    def search(self, technique: str, seed: int, course: Course) -> None:
        """Run one search in its own database.

        It starts from nothing: a recording's default is only the first working configuration in
        the file. Failures count as tests for every technique.
        """
        names = self.names(technique)
        options = SearchOptions(
            names, course.budget, seed, "benchmark", _PARALLELISM, counts_all=True
        )
        transfer = self._transfer if technique == "auto" else None
        parameters = list(self._landscape.tunable())
        begun_s = time.process_time()

        def note(progress: Progress) -> None:
            measured = progress.measurement
            is_ok = measured.outcome is Outcome.OK
            own_s = time.process_time() - begun_s
            point = tuple(measured.config[name] for name in parameters)
            course.note(point, measured.time_s if is_ok else math.inf, own_s)

        with writing(_MEMORY) as engine:
            store = Store(engine)
            plan = self._plan(options)
            interface = InputInterface(self._spec, plan.problem, self._space, self._measurer)
            search = InputSearch(plan, options, interface, store, Ledger(), note, transfer=transfer)
            with contextlib.suppress(BudgetSpent):
                search_input(search)
            store.close()

    def _plan(self, options: SearchOptions) -> RunPlan:
        return RunPlan(
            spec=self._spec,
            environment=self._measurer.environment,
            problem=self._landscape.problem,
            technique=",".join(options.techniques),
            seed=options.seed,
            test_limit=options.test_limit,
            parallelism=options.parallelism,
            label=options.label,
            campaign=0,
        )


def transfer_sources(landscape: Landscape, warm_start: Sequence[RecordingFile]) -> TransferSources:
    """Choose the recordings of the same kernel on another device; raise UsageError if none is."""
    here = landscape.recorded
    names = {parameter.name for parameter in here.parameters}
    recordings = [
        found
        for found in map(recorded, warm_start)
        if found.device != here.device and {p.name for p in found.parameters} == names
    ]
    if not recordings:
        raise UsageError(f"--warm-start has no recording of {here.title} on another device")
    return TransferSources(recordings)


PEER = Ours
