"""The smallest verbs that a device must have; each backend implements them in its own file.

A `Compiler` turns source text into something a `Device` can load; both live in worker
processes, so that neither a hang nor a crash reaches the process of the person.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy.typing as npt

from harness.core.program import Argument, Binary, Launch, Program
from harness.core.records import DeviceLimits, Environment


class Compiler(Protocol):
    """Compiles programs; used in builder processes, several at once."""

    @property
    def identity(self) -> str:
        """Compiler, version and target: two that differ never share a build."""

    @property
    def arch(self) -> str | None:
        """The NVIDIA architecture that is compiled for, such as `sm_90`; None for others."""

    def compile(self, program: Program) -> Binary:
        """Compile, or raise BuildFailed with the compiler's log."""


class Device(Protocol):
    """Runs binaries; used in one process at a time.

    Every method raises LaunchFailed when the driver refuses, and nothing else for
    reasons that lie in the configuration.
    """

    @property
    def environment(self) -> Environment:
        """What the device's numbers may be compared with."""

    @property
    def limits(self) -> DeviceLimits:
        """What a launch may be at most."""

    @property
    def shares_cpu(self) -> bool:
        """Whether kernels run on the cores that also compile: then nothing may overlap."""

    @property
    def healthy(self) -> bool:
        """False once a failed launch has spoilt this process for further launches."""

    def bind(self, arguments: Mapping[str, Argument]) -> None:
        """Replace the arguments on the device by copies of these."""

    def write(self, name: str, array: npt.NDArray[Any]) -> None:
        """Overwrite one array argument; same shape and dtype as it was bound with."""

    def read(self, name: str) -> npt.NDArray[Any]:
        """A copy of one array argument as it now is on the device."""

    def load(self, binary: Binary) -> object:
        """Make a binary ready to launch; the result is only good for `launch`."""

    def launch(self, module: object, launches: Sequence[Launch]) -> float:
        """Run the launches in order, wait, and return the sum of their device times in seconds."""

    def close(self) -> None:
        """Give the device back."""
