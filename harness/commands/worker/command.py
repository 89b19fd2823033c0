"""Offer the devices of this machine, and serve a scheduler."""

from __future__ import annotations

import argparse

from harness.fleet import agent
from harness.fleet.scheduler import check_can_serve, serve


def run(args: argparse.Namespace) -> int:
    """Serve until the scheduler ends; return the exit code."""
    check_can_serve(args.address, args.insecure)
    offer = agent.offer(args.device, args.builders)
    if not args.quiet:
        for device in offer.devices:
            what = "device" if device.backend else "programs on"
            print(f"{what} {device.model} ({device.uuid})")
        for reason in offer.unavailable:
            print(f"note: {reason}")
        print(f"serving {args.address}", flush=True)
    was_stopped = serve(args.address)
    if not (args.quiet or was_stopped):
        print("the scheduler has ended, or the network to it was cut: start the worker again then")
    return 0
