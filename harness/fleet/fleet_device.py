"""The devices of a fleet, and the ways to them."""

from __future__ import annotations

from dataclasses import dataclass

from harness.fleet.cluster import AgentChannel, Cluster, Member
from harness.fleet.messages import OfferedDevice
from harness.fleet.remote_device import Channel


@dataclass(frozen=True)
class FleetDevice:
    """A device that a worker offers, the machine that it is in, and the way to it.

    `address` is the worker's.
    """

    offered: OfferedDevice
    host_name: str
    channel: Channel
    address: str = ""

    @property
    def name(self) -> str:
        """The name for messages."""
        backend = self.offered.backend
        if backend is None:
            return self.host_name
        return f"{self.host_name} device {backend.device.index if backend.device else 0}"


def devices_of(cluster: Cluster, member: Member) -> list[FleetDevice]:
    """Return the devices that a worker offers."""
    host_name, address = member.offer.host_name, member.address
    channel = AgentChannel(cluster, address)
    return [FleetDevice(each, host_name, channel, address) for each in member.offer.devices]
