"""harness devices: list this machine's devices, as `--device` names them."""

from __future__ import annotations

from harness.commands.options import DevicesOptions
from harness.commands.run import main_of
from harness.core.text import escaped
from harness.measure.devices import inventory

main = main_of("devices")


def run(options: DevicesOptions) -> int:
    """Print the devices; return the exit code."""
    for line in inventory():
        print(escaped(line, "\n"))
    return 0
