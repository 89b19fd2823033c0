"""harness worker ADDRESS: measure on this machine for a run elsewhere."""

from __future__ import annotations

from harness.fleet import agent
from harness.fleet.cluster import check_can_serve, serve
from harness.options.others import WorkerOptions


def run(options: WorkerOptions) -> int:
    """Offer the devices of this machine, and serve a scheduler until it ends; return the exit
    code."""
    check_can_serve(options.address, options.insecure)
    offer = agent.offer(options.device)
    if not options.quiet:
        for device in offer.devices:
            what = "device" if device.backend else "programs and Python callables on"
            print(f"{what} {device.model} ({device.uuid})")
        for reason in offer.unavailable:
            print(f"note: {reason}")
        print(f"serving {options.address}", flush=True)
    was_stopped = serve(options.address)
    if not (options.quiet or was_stopped):
        end = "the scheduler has ended, or the network to it was cut"
        print(f"{end}: start the worker again then")
    return 0
