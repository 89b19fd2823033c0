"""Programs in place of kernels: any compiler, any program, run as processes of their own."""

from harness.measure.programs.building import CommandBackend
from harness.measure.programs.measurer import ProgramMeasurer

__all__ = ["CommandBackend", "ProgramMeasurer"]
