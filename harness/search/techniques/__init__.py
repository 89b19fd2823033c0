"""The techniques that are offered: the project's own, and OpenTuner's.

Published procedures alone have a run to themselves: G-ADAPT's hill climbing (Liu, Zhang, Shen, "A
Cross-Input Adaptive Framework for GPU Program Optimizations", IPDPS 2009) and Starchart's sampling
(Jia, Shaw, Martonosi, "Starchart: Hardware and Software Optimization Using Recursive Partitioning
Regression Trees", PACT 2013).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from opentuner.search import technique
from opentuner.search.technique import SearchTechnique, SequentialSearchTechnique

from harness.core.errors import UsageError
from harness.core.records import Config, Outcome
from harness.core.text import suggestion
from harness.search.techniques.gaussian_process import GaussianProcess
from harness.space import Space

REFUSALS = frozenset({Outcome.ILLEGAL, Outcome.BUILD_FAILED, Outcome.LAUNCH_FAILED})
"""Outcomes with which compiler or device refuse a configuration: it never ran, so there is nothing
to learn. A wrong result, a crash and a timeout are failures of a run, and count."""

_REACH = 10_000  # values that are searched for a legal one


class SelfContained(SearchTechnique):  # type: ignore[misc]
    """A published procedure, which must choose by itself what it tests, and how much.

    Alone it starts without the default and without winners of other inputs, only its proposals
    are tested, and the run ends when `desired_result` is None. Among other techniques it
    alternates with them.
    """

    free_outcomes: frozenset[Outcome] = frozenset()
    """Outcomes that do not count against the test limit when it runs alone."""


class UniformRandom(SelfContained):
    """Starchart's sampling: draws legal configurations uniformly, without replacement, to the end.

    `PureRandom` draws with replacement. Refusals (REFUSALS) are not counted: a test limit of N
    gives N samples of configurations that can run.
    """

    free_outcomes = REFUSALS

    def desired_configuration(self) -> Any:
        """Draw the next configuration; None when all are drawn."""
        return self.manipulator.draw_unmeasured(self.driver.taken)


class HillClimb(SelfContained, SequentialSearchTechnique):  # type: ignore[misc]
    """G-ADAPT's procedure: climbs from all parameters at their minimum to all at their maximum.

    Each round tries one step up in each parameter that is not at its maximum, and moves to the
    fastest of these, even if it is slower than the present configuration. The climb ends when no
    parameter can move. With one parameter it tries each of its values once.

    Values are in search order. A step leads to the parameter's next value that is legal with the
    present values of the others; a constraint such as `TILE % UNROLL == 0` would otherwise hold a
    parameter below its first illegal value. If all minima together are illegal, the climb starts
    at `Space.nearest_legal` of them. A failure is slower than everything that works. Among equals
    the first parameter moves.
    """

    def main_generator(self) -> Iterator[Any]:
        """Yield configurations to test; OpenTuner continues when they have results."""
        space: Space = self.manipulator.space
        lowest = space.decode([0] * len(space.parameters))
        here = self.driver.get_configuration(dict(lowest))
        yield here
        while True:
            uphill = steps_up(space, here.config)
            steps = [self.driver.get_configuration(dict(step)) for step in uphill]
            if not steps:
                return
            for step in steps:
                self.yield_nonblocking(step)
            yield None
            here = min(steps, key=self._time_s)

    def _time_s(self, configuration: Any) -> float:
        """Return the median time; infinity for a failure."""
        return float(self.driver.results_query(config=configuration).one().time)


def steps_up(space: Space, here: Config) -> Iterator[Config]:
    """Yield for each parameter the legal configuration one step up, if there is one within 10,000
    values."""
    for parameter in space.parameters:
        first = space.encode(here)[space.axis[parameter.name]] + 1
        for value in parameter.values[first : first + _REACH]:
            step = space.canonical(Config({**here, parameter.name: value}))
            if step != here and space.is_legal(step):
                yield step
                break


OURS: tuple[technique.SearchTechnique, ...] = (GaussianProcess(), HillClimb(), UniformRandom())
"""OpenTuner copies each at the start of a run."""

DEFAULT_TECHNIQUE = "GaussianProcess"
"""The technique that `auto` means: the best of those compared on recorded spaces, and the one that
learns from other inputs and devices."""

for _technique in OURS:
    technique.register(_technique)


def techniques() -> tuple[str, ...]:
    """Return the names that --technique takes."""
    registered, _ = technique.all_techniques()
    return tuple(sorted(offered.name for offered in registered))


def resolve_techniques(names: Sequence[str]) -> tuple[str, ...]:
    """Check the names of techniques, and replace `auto` by the default. Raises UsageError."""
    offered = [*techniques(), "auto"]
    for name in names:
        if name not in offered:
            hint = suggestion(name, offered, "--list-techniques lists them")
            raise UsageError(f"there is no technique {name}; {hint}")
    resolved = {"auto": DEFAULT_TECHNIQUE}
    return tuple(resolved.get(name, name) for name in names)


def sole_technique(names: Sequence[str]) -> SelfContained | None:
    """Return the self-contained technique that has a run to itself, if there is one."""
    for technique_alone in OURS:
        if isinstance(technique_alone, SelfContained) and set(names) == {technique_alone.name}:
            return technique_alone
    return None
