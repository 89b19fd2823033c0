"""What all runners of benchmarks have in common whose times are made up."""

from __future__ import annotations


class SimulatedRunner:
    """The part of a `harness.measure.trial.Runner` that needs a device or outputs: without them.

    Subclasses have `prepare`, `run` and the properties.
    """

    def is_warm(self) -> bool:
        """Say yes: nothing is warmed up."""
        return True

    def keeps_sample(self) -> bool:
        """Say yes: no device has a low clock."""
        return True

    def verify(self) -> None:
        """Do nothing: all outputs are right."""

    def finish(self) -> None:
        """Do nothing: nothing is gathered."""

    def check_writes(self) -> None:
        """Do nothing: nothing is written."""

    def observed(self) -> dict[str, float]:
        """Observe nothing."""
        return {}
