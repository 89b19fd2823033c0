"""Measure programs in place of kernels: any compiler, any program, in its own process."""

from harness.measure.programs.building import CommandBackend
from harness.measure.programs.measurer import ProgramMeasurer

__all__ = ["CommandBackend", "ProgramMeasurer"]
