"""Run campaigns on different models of devices at the same time, into one database.

Each campaign has a thread, and each of its devices another one. As with the devices of one
campaign, one thread at a time runs, and hands the baton on while it waits for its devices.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from harness.analysis.inputs import InputReport
from harness.core.errors import BackendUnavailable
from harness.tuning.baton import Baton
from harness.tuning.campaign import Campaign
from harness.tuning.devices import EqualDevices

_LOOK_S = 0.5


@dataclass(frozen=True)
class SideCampaign:
    """A campaign of several, and its devices, which hold the baton of all."""

    campaign: Campaign
    devices: EqualDevices


Ended = Sequence[InputReport] | BackendUnavailable
"""The reports of a campaign, or the error of its last device."""


class SideBySide:
    """Campaigns that run at the same time. One whose last device fails ends alone."""

    def __init__(self, members: Sequence[SideCampaign], baton: Baton) -> None:
        self._members = members
        self._baton = baton
        self._ended: dict[int, Ended | BaseException] = {}
        # A queue in C: Ctrl-C in the middle of a wait leaves it whole.
        self._ends: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._run_one, args=(number,), daemon=True)
            for number in range(len(members))
        ]

    def run(self) -> list[Ended]:
        """Run all campaigns; return how each ended.

        At another error of one, or at Ctrl-C here, all end; what was measured by then is stored.
        """
        try:
            for thread in self._threads:
                thread.start()
            while self._is_running():
                self._wait_for_end()
                self._raise_error()
            self._raise_error()  # of the last one, which may have ended before a look
            return [self._ended[number] for number in range(len(self._members))]  # type: ignore[misc]
        except BaseException:
            self._stop()
            raise

    def _run_one(self, number: int) -> None:
        ended: Ended | BaseException
        try:
            with self._baton.held():
                ended = self._members[number].campaign.run()
        except BaseException as error:
            ended = error
        self._ended[number] = ended
        self._ends.put(None)

    def _is_running(self) -> bool:
        return any(
            thread.ident is not None and number not in self._ended
            for number, thread in enumerate(self._threads)
        )

    def _wait_for_end(self) -> None:
        with suppress(queue.Empty):
            self._ends.get(timeout=_LOOK_S)

    def _raise_error(self) -> None:
        for ended in [*self._ended.values()]:
            if isinstance(ended, BaseException) and not isinstance(ended, BackendUnavailable):
                raise ended

    def _stop(self) -> None:
        """End all campaigns; they store what is measured already."""
        try:
            for member in self._members:
                member.devices.close()
            while self._is_running():
                self._wait_for_end()
        except BaseException:  # Ctrl-C again: leave without those that hang
            self._baton.keep()
            raise
