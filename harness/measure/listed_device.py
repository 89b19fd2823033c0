"""A device of this machine, as CUDA, OpenCL or Python lists it."""

from __future__ import annotations

from dataclasses import dataclass

from harness.core.text import counted

CUDA, OPENCL = "cuda", "opencl"

MIG = "MIG-"
"""How the UUID of an instance of a divided GPU begins."""


@dataclass(frozen=True)
class ListedDevice:
    """A device that an `interface` lists: CUDA, OPENCL or PYTHON.

    `number` counts the devices of the platform, `platform_number` OpenCL's platforms. CUDA's
    numbers change with CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER. `arch` is CUDA's, such as sm_90,
    and `units` are OpenCL's compute units. A text is empty where the interface does not have it,
    or the driver does not say it.
    """

    interface: str
    number: int
    name: str
    is_gpu: bool
    platform_number: int = 0
    platform: str = ""
    arch: str = ""
    units: int = 0
    memory_bytes: int = 0
    bus_id: str = ""
    uuid: str = ""

    @property
    def index(self) -> str:
        """The number by which `--device` names it, after the platform's with OpenCL."""
        if self.interface == OPENCL:
            return f"{self.platform_number}:{self.number}"
        return str(self.number)

    @property
    def instance(self) -> str:
        """The UUID of an instance of a divided GPU (MIG); empty for a whole device."""
        return self.uuid if self.uuid.startswith(MIG) else ""

    @property
    def identity(self) -> str:
        """What distinguishes it from all devices of this machine, whichever interface lists it."""
        platform = self.platform if self.is_gpu else "CPU"
        return self.instance or self.bus_id.upper() or f"{platform} {self.number}"

    @property
    def group(self) -> tuple[object, ...]:
        """What the devices that `all` names have in common."""
        return self.interface, self.platform_number, self.is_gpu

    @property
    def kind(self) -> tuple[object, ...]:
        """What equal devices have in common."""
        memory_gib = round(self.memory_bytes / 2**30) if self.is_gpu else 0  # PoCL's changes
        return self.interface, self.platform_number, self.name, self.arch, self.units, memory_gib

    def __str__(self) -> str:
        facts = [self.name, self.arch]
        if self.units:
            facts.append(counted(self.units, "compute unit"))
        if self.memory_bytes:
            facts.append(f"{self.memory_bytes / 2**30:.1f} GiB")
        facts += [self.bus_id, self.uuid, self.platform]
        return ", ".join(filter(None, facts))
