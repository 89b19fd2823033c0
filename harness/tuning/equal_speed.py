"""Find a device whose speed differs from its equals': too hot, throttled, or used by others.

Every device times two small kernels of harness's own (harness.measure.backends.reference_kernel).
One that is off by more than THRESHOLD is looked at LOOKS times more, PAUSE_S apart, and counts as
different only if it is off at each of them, so a slow moment does not count. A device that is as
fast as its equals, but is disturbed beyond the threshold at half of all independent moments, is
called different once in 2^LOOKS = 1,024 suspicions.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from harness.core.text import counted
from harness.measure.backends.reference_kernel import KERNELS, ReferenceTimes

THRESHOLD = 1.10
LOOKS = 10
PAUSE_S = 1.0
PERIOD_S = 60.0
"""A device is looked at again when it is between two inputs and so long has passed."""


@runtime_checkable
class Referenced(Protocol):
    """A measurer whose device can run the reference kernels."""

    @property
    def cpu(self) -> str | None:
        """The machine of a device that is a CPU, or a part of it; None for others."""

    def time_reference(self) -> ReferenceTimes:
        """Time the reference kernels; raises LaunchFailed and BackendUnavailable."""


@dataclass(frozen=True)
class SpeedDifference:
    """How far one device is off its equals, by one of the kernels."""

    kernel: str
    time_s: float
    equals_s: float
    equals: int

    @property
    def ratio(self) -> float:
        """Its time over that of its equals."""
        return self.time_s / self.equals_s

    @property
    def is_large(self) -> bool:
        """Whether it is more than noise between equal devices."""
        return not 1 / THRESHOLD <= self.ratio <= THRESHOLD

    def __str__(self) -> str:
        return (
            f"harness's reference kernel ({self.kernel}) takes {self.ratio:.2f} times as long on "
            f"it as on {counted(self.equals, 'equal device')}, {self.time_s * 1e3:.3g} ms against "
            f"{self.equals_s * 1e3:.3g} ms, {LOOKS + 1} times in a row"
        )


@dataclass
class EqualSpeed:
    """The last times of each device; `pause` waits so many seconds."""

    pause: Callable[[float], object] = time.sleep
    _latest: dict[Hashable, ReferenceTimes] = field(default_factory=dict)
    _looked_s: dict[Hashable, float] = field(default_factory=dict)

    def is_due(self, device: Hashable) -> bool:
        """Whether a device is to be looked at."""
        looked_s = self._looked_s.get(device)
        return looked_s is None or time.monotonic() - looked_s >= PERIOD_S

    def look(self, device: Hashable, measurer: Referenced) -> None:
        """Time the reference kernels on a device."""
        self._looked_s[device] = time.monotonic()
        self._latest[device] = measurer.time_reference()

    def difference(self, device: Hashable, measurer: Referenced) -> SpeedDifference | None:
        """Return how a device differs from its equals, by its last times and by new ones; None
        where it does not always."""
        found = self._present(device)
        for _ in range(LOOKS):
            if found is None:
                return None
            self.pause(PAUSE_S)
            self.look(device, measurer)
            found = self._present(device)
        return found

    def forget(self, device: Hashable) -> None:
        """Compare others with a device no more."""
        self._latest.pop(device, None)

    def _present(self, device: Hashable) -> SpeedDifference | None:
        """Return the larger difference by the last times. The equals' time is the median of all
        devices, and of an even number the lower middle one: of two, the slower one is off."""
        latest = dict(self._latest)
        if device not in latest or len(latest) < 2:
            return None
        found = []
        for kernel in KERNELS:
            times_s = sorted(getattr(times, kernel) for times in latest.values())
            middle_s = times_s[(len(times_s) - 1) // 2]
            own_s = getattr(latest[device], kernel)
            found.append(SpeedDifference(kernel, own_s, middle_s, len(latest) - 1))
        largest = max(found, key=lambda each: max(each.ratio, 1 / each.ratio))
        return largest if largest.is_large else None
