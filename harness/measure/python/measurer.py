"""Measure Python callables, which are built in the process that owns the device."""

from __future__ import annotations

from collections.abc import Iterable

from harness.core.errors import BuildFailed
from harness.core.program import PYTHON, Binary
from harness.core.records import Config, Input
from harness.measure.kernels.measurer import KernelMeasurer
from harness.measure.process.child import ChildLost
from harness.space import Space
from harness.space.constrained import make_program


class CallableMeasurer(KernelMeasurer):
    """Measure the callable of a space; all but its build is as for other kernels."""

    def expect(self, space: Space, configs: Iterable[Config]) -> None:
        """Start nothing: a build would disturb what the process that owns the device measures."""

    def _binary(self, space: Space, config: Config, problem: Input) -> Binary:
        """Return a build that ends with a first call, which may take as long as a run."""
        self._device.argument_names(problem)  # a fault of arguments() is none of the configuration
        program = make_program(self._spec, space, config, PYTHON, problem)
        timeout_s = self._spec.measure.timeout_s
        try:
            with self._alone():
                return self._device.compile(program, timeout_s)
        except ChildLost as lost:
            why = f"ended its process, which {lost}"
            if lost.hung:
                why = f"did not end within {timeout_s:g} s and was killed (measure.timeout_s)"
            raise BuildFailed(f"build(), or the first call, {why}") from None
