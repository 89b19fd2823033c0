"""The space of faults planted in a kernel (see data/faults), and waiting for processes."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from harness.core.records import Config, Input
from harness.measure.measurer import Measurer
from harness.space import ConstrainedSpace, Space
from harness.space_file import Spec

FAULTS = Path(__file__).parent / "data" / "faults"
GIVEN = Input({"n": 100})
SOON_S = 60.0


def fault(name: str, block: int = 8) -> Config:
    """The configuration with a fault."""
    return Config({"FAULT": name, "BLOCK": block})


def space_of(spec: Spec, measurer: Measurer, given: Input = GIVEN) -> Space:
    """The legal configurations of an input for a measurer with OpenCL."""
    return ConstrainedSpace.of(spec, given, measurer.limits, "opencl")


def until(condition: Callable[[], bool]) -> bool:
    """Whether a condition comes true soon."""
    end = time.monotonic() + SOON_S
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()
