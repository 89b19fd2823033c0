"""Programs in place of kernels: any compiler, any program, run as processes of their own."""

from harness.backends.command.building import CommandBackend
from harness.backends.command.measurer import CommandMeasurer

__all__ = ["CommandBackend", "CommandMeasurer"]
