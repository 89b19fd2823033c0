"""The results of other devices in the database of a campaign, as sources of transfer learning."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from harness.core.records import Input
from harness.models.transfer_prior import SourceTask
from harness.results import WARM_START, MeasurementRows, RunPlan, Store
from harness.results.other_devices import (
    DeviceResults,
    as_note,
    from_note,
    other_devices,
    read_device,
)
from harness.results.selecting import refusing_damage
from harness.search.transfer.recording import most_alike
from harness.search.transfer.sources import task_of
from harness.space import Space


class StoredSources:
    """What other devices measured of the program that a campaign tunes.

    A run notes which results it starts from, and how far they went. So it goes on with the same
    ones, however many are added meanwhile.
    """

    def __init__(self, store: Store, wanted: bool, warn: Callable[[str], None]) -> None:
        """`wanted` says whether new runs start from them."""
        self._store = store
        self._wanted = wanted
        self._warn = warn
        self._now: tuple[DeviceResults, ...] | None = None
        self._of_run: dict[Input, tuple[DeviceResults, ...]] = {}
        self._rows: dict[DeviceResults, Mapping[Input, MeasurementRows]] = {}
        self._tasks: dict[tuple[DeviceResults, Input], SourceTask | None] = {}

    def of(self, plan: RunPlan) -> tuple[DeviceResults, ...]:
        """Return the results that a run began with, or will begin with."""
        if plan.problem not in self._of_run:
            self._of_run[plan.problem] = self._found(plan)
        return self._of_run[plan.problem]

    def _found(self, plan: RunPlan) -> tuple[DeviceResults, ...]:
        store = self._store
        begun = store.notes_of_begun(plan)
        if begun is not None:
            with refusing_damage(store.connection):
                return from_note(begun.get(WARM_START, "[]"))
        if not self._wanted:
            return ()
        if self._now is None:  # once a command: its inputs start from the same results
            self._now = store.read(
                lambda: other_devices(store.connection, plan.spec, plan.environment)
            )
        return self._now

    def notes(self, plan: RunPlan) -> Mapping[str, str]:
        """Return the note of a run that begins; none where no other device has results."""
        sources = self.of(plan)
        return {WARM_START: as_note(sources)} if sources else {}

    def tasks(self, plan: RunPlan, space: Space) -> list[SourceTask]:
        """Return what these results teach about a run's input: of each device, the inputs that
        are most like it."""
        found = []
        for source in self.of(plan):
            rows = self._read(plan, source)
            for other in most_alike(plan.problem, {p: len(own) for p, own in rows.items()}):
                if (source, other) not in self._tasks:
                    measured = rows[other].measurements()
                    self._tasks[source, other] = task_of(space, other, measured)
                task = self._tasks[source, other]
                found += [] if task is None else [task]
        return found

    def _read(self, plan: RunPlan, source: DeviceResults) -> Mapping[Input, MeasurementRows]:
        store = self._store
        if source not in self._rows:
            self._rows[source] = store.read(
                lambda: read_device(store.connection, plan.spec, source)
            )
            if not self._rows[source]:
                self._warn(
                    f"the results of {source.device}, from which the search began, are no longer "
                    "in the database; it goes on without them"
                )
        return self._rows[source]
