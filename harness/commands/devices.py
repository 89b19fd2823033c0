"""harness devices: list the devices of this machine."""

from __future__ import annotations

from harness.core.text import escaped
from harness.measure.devices import inventory
from harness.options.others import DevicesOptions


def run(options: DevicesOptions) -> int:
    """Print the devices; return the exit code."""
    for line in inventory():
        print(escaped(line, "\n"))
    return 0
