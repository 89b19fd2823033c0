"""A spec -> its legal configurations for one input on one device.

Constraints are solved (harness.constraints.solver) instead of tried, so a space of 10^9 points
opens at once, is counted exactly, and returns any legal configuration by index. Where constraints
connect too many parameters for that, the widest constraints are left to rejection: configurations
that satisfy the others are drawn until one satisfies these too, and the count is an estimate.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property, partial
from operator import itemgetter

import numpy as np
import numpy.typing as npt

from harness.constraints.expression import Expression
from harness.constraints.solver import Solutions
from harness.core.errors import ExpressionError, UsageError
from harness.core.program import Launch
from harness.core.records import LIMIT_NAMES, Config, DeviceLimits, Input, Value
from harness.space.draws import Draws
from harness.space.judge import Judge
from harness.space.launches import launch_constraints, launch_of
from harness.space.points import PointArray, Points, near_indices, step_size
from harness.space.protocol import Space
from harness.space.relevance import Move, Relevance
from harness.space_file import LaunchPlan, Parameter, Spec

_REPAIR_CANDIDATES = 64


class ConstrainedSpace(Space):
    """The configurations that satisfy a spec's constraints on one input and, if known, a device.

    Without device limits, constraints that name them are left out.
    """

    def __init__(
        self,
        parameters: Sequence[Parameter],
        constraints: Sequence[Expression] = (),
        given: Mapping[str, Value] | None = None,
        limits: DeviceLimits | None = None,
        launch: LaunchPlan | None = None,
    ) -> None:
        self.parameters = tuple(parameters)
        self.points = Points(parameters)
        self._given: dict[str, Value] = dict(given or {})
        self._launch = launch
        if limits is not None:
            self._given |= limits.names()
        # Without a device, what speaks of one cannot be judged.
        unjudged = set() if limits else set(LIMIT_NAMES)
        judged = [c for c in constraints if not c.names & unjudged]
        self._relevance = Relevance(self.points, self._given, unjudged)
        implied = launch_constraints(launch, limits)
        written = {c.text for c in judged}
        self._limits = {c.text: limit for c, limit in implied.items() if c.text not in written}
        all_constraints = [*self._relevance.implied, *judged, *implied]
        self.judge = Judge(self.points, all_constraints, self._given)

    @classmethod
    def of(
        cls, spec: Spec, problem: Input, limits: DeviceLimits | None, compiler: str | None = None
    ) -> ConstrainedSpace:
        """Make the space of a spec on an input; flags of other compilers stay absent."""
        tuned = spec.tuned_for(compiler)
        absent = {p.name: p.default for p in spec.parameters if p not in tuned}
        constraints = [c.expression for c in spec.constraints]
        return cls(tuned, constraints, absent | dict(problem), limits, spec.launch)

    @property
    def constraints(self) -> list[Expression]:
        """The constraints that decide whether a point is legal, without those that always hold."""
        return self.judge.constraints

    # ---------------------------------------------------------------- judging

    def why_illegal(self, config: Mapping[str, Value]) -> str | None:
        """Return what is wrong with a configuration, with its values; None if it is legal."""
        return self.points.why_no_point(config) or self._why_constrained(config)

    def are_legal(self, points: PointArray) -> npt.NDArray[np.bool_]:
        """Say of many points whether they are legal, shape (points,)."""
        return self.judge.all_held(self.constraints, points)

    def is_point(self, config: Mapping[str, Value]) -> bool:
        """Whether the configuration has a value of each parameter, legal or not."""
        return self.points.why_no_point(config) is None

    def _why_constrained(self, config: Mapping[str, Value]) -> str | None:
        values = self.judge.values(config)
        for constraint in self.constraints:
            try:
                reason = constraint.why_false(values)
            except ExpressionError as error:
                return str(error)
            if reason is not None:
                irrelevant = self._relevance.why_false(constraint, values)
                if irrelevant is not None:
                    return irrelevant
                return reason + self._limit(constraint)
        return None

    def _limit(self, constraint: Expression) -> str:
        """Return the limit of a launch that a constraint stands for, and what to change; empty for
        a constraint of the space."""
        limit = self._limits.get(constraint.text)
        if limit is None:
            return ""
        tuned = [name for name in constraint.names_in_order if name in self.points.axis]
        return f"; {limit}: change {', '.join([*tuned, 'or ' * bool(tuned) + 'the expression'])}"

    def canonical(self, config: Config) -> Config:
        """Set every parameter that does not matter to its default, as it is counted and measured.

        A configuration that is no point of this space is returned unchanged.
        """
        if not self._relevance or not self.is_point(config):
            return config
        return Config(self._relevance.canonical(config))

    # ---------------------------------------------------------------- drawing

    @cached_property
    def draws(self) -> Draws:
        """The solutions of the constraints, or of all but the widest, which then judge them."""
        domains = {p.name: p.values for p in self.parameters}
        solutions = Solutions(domains, self.constraints, self._given)
        left_out = solutions.left_out
        judge = partial(self.judge.all_held, left_out) if left_out else None
        return Draws(self.points, solutions, self.decode, judge)

    # ------------------------------------------------------------- neighbours

    def neighbours(self, config: Config, reach: int | None = 1) -> Iterator[Config]:
        """Yield the legal configurations that differ in one parameter; see Space.neighbours.

        Parameters that no longer matter then differ too.
        """
        start = self.canonical(config)
        positions = self.encode(start)
        broken = set(self.judge.broken(self.constraints, start))
        for parameter, here in zip(self.parameters, positions, strict=True):
            for index in near_indices(parameter, here, reach):
                changed, concerned = self._relevance.move(self.judge, start, parameter, index)
                if broken.issubset(concerned) and self.judge.satisfies(concerned, changed):
                    yield Config(changed)

    def neighbour_points(self, point: PointArray) -> PointArray:
        """Return the legal points that differ in one parameter; see Space.neighbour_points.

        Parameters that no longer matter then differ too. All values are tried where there are at
        most 64, else the 32 nearest on each side and 32 spread evenly over all.
        """
        here = self._relevance.canonical_points(self.judge, point[None, :])
        changed, which = self.points.changes(here[0])
        if self._relevance:
            changed = self._relevance.canonical_points(self.judge, changed)
            changed = changed[changed[np.arange(len(which)), which] != here[0, which]]
        return changed[self.judge.legal_changes(here[0], changed)]

    def nearest_legal(self, config: Config, rng: random.Random) -> Config:
        """Repair an illegal configuration.

        Where `repaired` finds none, return the nearest of a uniform sample of legal configurations.
        Raises UsageError where there is none either.
        """
        found = repaired(self.judge, self._relevance, self.canonical(config))
        return self._nearest_sampled(config, rng) if found is None else found

    def _nearest_sampled(self, config: Config, rng: random.Random) -> Config:
        candidates = self.sample(rng, _REPAIR_CANDIDATES) or [self.default]
        if not self.is_legal(candidates[0]):
            raise UsageError("no legal configuration was found; check the constraints")
        return min(candidates, key=lambda other: self.distance(config, other))

    # --------------------------------------------------------------- encoding

    def decode(self, positions: Sequence[int]) -> Config:
        """Return the configuration with these indices; the inverse of `encode`."""
        return Config(self.points.decode(positions))

    @cached_property
    def default(self) -> Config:
        """Every parameter at its default."""
        return Config({p.name: p.default for p in self.parameters})

    def launch(self, config: Config, function: str, arguments: Sequence[str]) -> Launch:
        """Return the launch of a configuration; raises ExpressionError where a size is no int."""
        return launch_of(self._launch, self.judge.values(config), function, arguments)


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
