"""The interface that a search measures through.

Worker processes build several configurations at once; one more process runs one configuration at
a time. A configuration that hangs, crashes or exhausts memory takes down its process, never the
run: the process is replaced, and the failure is the outcome of that configuration.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Protocol

from harness.core.records import Config, DeviceLimits, Environment, Input, Measurement
from harness.measure.occasions import ONE_OCCASION
from harness.space import Space


class Measurer(Protocol):
    """Measure configurations, on this machine or from a recording."""

    @property
    def environment(self) -> Environment:
        """The device and its software: times of one environment can be compared."""

    @property
    def limits(self) -> DeviceLimits | None:
        """The device's limits on legal configurations; None where they are not known."""

    @property
    def compiler(self) -> str | None:
        """The compiler whose flags are tuned; None where none is."""

    @property
    def is_replay(self) -> bool:
        """Whether measurements are read from a file, and can be read again."""

    @property
    def notices(self) -> Sequence[str]:
        """What the user should know: what cannot be had on this machine, and why."""

    def expect(self, space: Space, configs: Iterable[Config]) -> None:
        """Announce what will be measured next, so that it can be compiled meanwhile."""

    def recall(self, problem: Input, measured: Iterable[Measurement]) -> None:
        """Announce earlier measurements of an input, which configurations of equal code share."""

    def measure(
        self, space: Space, problem: Input, config: Config, best_s: float | None
    ) -> Measurement:
        """Measure one legal configuration on one input, unless an equal one was measured."""

    def measure_interleaved(
        self,
        space: Space,
        problem: Input,
        configs: Sequence[Config],
        rounds: int,
        seeds: Sequence[int] = ONE_OCCASION,
    ) -> list[Measurement]:
        """Measure several, one sample of each per round; each of them is launched.

        The rounds are split into one occasion for each of the `seeds`, which are those of the
        input's data: two sets of data for each seed but that of the search, 0. Every occasion
        begins with new loads of the code and new allocations, unless the only seed is 0. See
        harness.measure.occasions.
        """

    def data_sha256(self, problem: Input, stored: Collection[str]) -> str | None:
        """Return the digest of an input's data as they are now, which its measurements have; None
        where there are none, or where they differ each time that they are made.

        It is cheapest where it is among the `stored` digests. Raises HostModuleError.
        """

    def weak_tests(self, problem: Input) -> Sequence[str]:
        """Return what verification would let pass on an input on which a configuration works; what
        other inputs have shown is left out."""

    def close(self) -> None:
        """End the worker processes; a call that waits for them in another thread raises."""
