"""harness worker ADDRESS: offer the devices of this machine, and serve a scheduler."""

from __future__ import annotations

from harness.commands.options import WorkerOptions
from harness.commands.run import main_of
from harness.fleet import agent
from harness.fleet.scheduler import check_can_serve, serve

main = main_of("worker")


def run(options: WorkerOptions) -> int:
    """Serve until the scheduler ends; return the exit code."""
    check_can_serve(options.address, options.insecure)
    offer = agent.offer(options.device, options.builders)
    if not options.quiet:
        for device in offer.devices:
            what = "device" if device.backend else "programs and Python callables on"
            print(f"{what} {device.model} ({device.uuid})")
        for reason in offer.unavailable:
            print(f"note: {reason}")
        print(f"serving {options.address}", flush=True)
    was_stopped = serve(options.address)
    if not (options.quiet or was_stopped):
        print("the scheduler has ended, or the network to it was cut: start the worker again then")
    return 0
