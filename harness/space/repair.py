"""Repair an illegal configuration to a legal one near it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from operator import itemgetter

from harness.constraints.expression import Expression
from harness.core.records import Config
from harness.space.judge import Judge
from harness.space.points import near_indices, step_size
from harness.space.relevance import Move, Relevance
from harness.space_file import Parameter

_REACH = 8


def repaired(judge: Judge, relevance: Relevance, config: Config) -> Config | None:
    """Return the nearest legal configuration that differs in one parameter.

    Nearness is the relative step on scales. Where none is legal, continue from the nearest that
    breaks fewer constraints. Returns None where that leads nowhere.
    """
    here: Config | None = config
    broken = judge.broken(judge.constraints, config)
    while here is not None and broken:
        here = _stepped(judge, relevance, here, broken)
        broken = judge.broken(judge.constraints, here) if here is not None else []
    return here


def _stepped(
    judge: Judge, relevance: Relevance, config: Config, broken: Sequence[Expression]
) -> Config | None:
    """Return the nearest change of one parameter that repairs everything, or else a part."""
    shared = frozenset.intersection(*(constraint.names for constraint in broken))
    for changed, naming in _steps(judge, relevance, config, shared):
        if judge.satisfies(naming, changed):
            return Config(changed)
    named = frozenset.union(*(constraint.names for constraint in broken))
    for changed, naming in _steps(judge, relevance, config, named) if len(broken) > 1 else ():
        before = sum(constraint in naming for constraint in broken)
        if len(judge.broken(naming, changed)) < before:
            return Config(changed)
    return None


def _steps(
    judge: Judge, relevance: Relevance, config: Config, names: Collection[str]
) -> Iterator[Move]:
    """Yield small changes of one of these parameters, the nearest first, with their constraints."""
    steps: list[tuple[float, Parameter, int]] = []
    for parameter, here in zip(judge.points.parameters, judge.points.encode(config), strict=True):
        if parameter.name in names:
            near = near_indices(parameter, here, _REACH)
            steps += ((step_size(parameter, here, there), parameter, there) for there in near)
    for _, parameter, there in sorted(steps, key=itemgetter(0)):
        yield relevance.move(judge, config, parameter, there)
