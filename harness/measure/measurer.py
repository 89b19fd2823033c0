"""What a search needs of a machine, or of what stands in for one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from harness.core.records import Config, DeviceLimits, Environment, Input, Measurement
from harness.space import Space


class Measurer(Protocol):
    """What the search needs of a machine; a replay of recorded measurements is one too."""

    @property
    def environment(self) -> Environment:
        """What the measurements may be compared with."""

    @property
    def limits(self) -> DeviceLimits | None:
        """What bounds legal configurations; None where that is not known."""

    @property
    def compiler(self) -> str | None:
        """The compiler whose flags are tuned; None where none is."""

    @property
    def is_replay(self) -> bool:
        """Whether measurements are read from a file, and can be again."""

    def expect(self, space: Space, configs: Iterable[Config]) -> None:
        """Tell what will be measured next, so that it can be compiled meanwhile."""

    def recall(self, given: Input, measured: Iterable[Measurement]) -> None:
        """Tell what was measured of an input's legal configurations before, so that equal code
        can share it."""

    def measure(
        self, space: Space, given: Input, config: Config, best_s: float | None
    ) -> Measurement:
        """Measure one legal configuration on one input, unless another one's measurement holds
        for it."""

    def measure_interleaved(
        self, space: Space, given: Input, configs: Sequence[Config], rounds: int
    ) -> list[Measurement]:
        """Measure several in turn, one sample of each a round; each of them is launched."""

    def close(self) -> None:
        """End the worker processes."""
