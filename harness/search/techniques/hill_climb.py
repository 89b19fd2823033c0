"""G-ADAPT's hill climbing: Liu, Zhang, Shen, "A Cross-Input Adaptive Framework for GPU Program
Optimizations", IPDPS 2009."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from opentuner.search.technique import SequentialSearchTechnique

from harness.core.records import Config
from harness.search.techniques.self_contained import SelfContained
from harness.space import Space

_REACH = 10_000  # values that are looked through for a legal one


class HillClimb(SelfContained, SequentialSearchTechnique):  # type: ignore[misc]
    """From all parameters at their minimum to all at their maximum, the best step at a time.

    In each round it tries one step up in each parameter that is not at its maximum, moves to
    the fastest of those tried, even if that is slower than where it stands, and ends when no
    parameter can move. With one parameter it so tries each of its values once.

    Values are in search order. A step leads to the parameter's next value that is legal with
    the others as they stand: were a parameter held where its very next value is illegal, a
    constraint such as `TILE % UNROLL == 0` would hold it below the hole for good. Where all
    minima together are illegal, it starts at `Space.nearest_legal` of them. What fails is
    slower than all else; among equals the first parameter is moved.
    """

    def main_generator(self) -> Iterator[Any]:
        """Configurations to test; OpenTuner goes on when those yielded so far have results."""
        space: Space = self.manipulator.space
        lowest = space.decode([0] * len(space.parameters))
        here = self.driver.get_configuration(dict(lowest))
        yield here
        while steps := self._tried(space, here):
            for step in steps:
                self.yield_nonblocking(step)
            yield None
            here = min(steps, key=self._time_s)

    def _tried(self, space: Space, here: Any) -> list[Any]:
        found = steps_up(space, Config(here.data))
        return [self.driver.get_configuration(dict(step)) for step in found]

    def _time_s(self, configuration: Any) -> float:
        """The median time; infinity for a failure."""
        time_s: float = self.driver.results_query(config=configuration).one().time
        return time_s


def steps_up(space: Space, here: Config) -> Iterator[Config]:
    """For each parameter in turn, the legal configuration one step up; none where there is none
    within 10,000 values."""
    positions = space.encode(here)
    for place, parameter in enumerate(space.parameters):
        above = range(positions[place] + 1, len(parameter.values))
        higher = (
            space.canonical(space.decode((*positions[:place], up, *positions[place + 1 :])))
            for up in islice(above, _REACH)
        )
        yield from islice((step for step in higher if step != here and space.is_legal(step)), 1)
