"""What the sensors of a device say while one configuration is measured."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from harness.core.errors import HostTooSlow
from harness.measure.sensors.choose import Sensors
from harness.measure.sensors.energy import measure_energy
from harness.measure.sensors.nvml import of_both


class SensorLog:
    """The `observed` state and energy of one configuration; nothing without sensors."""

    def __init__(self, sensors: Sensors | None) -> None:
        self.observed: dict[str, float] = {}
        self._sensors = sensors

    def read(self) -> None:
        """Read the state, before the samples and after them."""
        if self._sensors is not None:
            self.observed = of_both(self.observed, self._sensors.state())

    def measure_energy(
        self,
        run: Callable[[], float],
        restore: Callable[[], float],
        verify: Callable[[], None],
        seconds: float,
    ) -> None:
        """Measure the energy of a run, as `harness.measure.sensors.energy` says.

        A host that is too slow meanwhile does not undo the samples: the energy stays unknown.
        """
        counter = None if self._sensors is None else self._sensors.counter
        if counter is not None:
            with contextlib.suppress(HostTooSlow):
                self.observed |= measure_energy(run, restore, verify, counter, seconds)
