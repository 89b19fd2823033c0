"""A spec -> its legal configurations for one input on one device.

Constraints are solved (harness.constraints.solutions) instead of tried, so a space of 10^9 points
opens at once, is counted exactly, and returns any legal configuration by index. Where constraints
connect too many parameters for that, the widest constraints are left to rejection: configurations
that satisfy the others are drawn until one satisfies these too, and the count is an estimate.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from harness.constraints.expression import Expression
from harness.constraints.solutions import Solutions
from harness.core.errors import ExpressionError, UsageError
from harness.core.program import Launch
from harness.core.records import LIMIT_NAMES, Config, DeviceLimits, Input, Value, shown
from harness.space.draws import Draws
from harness.space.launches import launch_constraints, launch_of
from harness.space.points import PointArray, Points, position_of, step_size
from harness.space.space import Space
from harness.space_file import LaunchPlan, Parameter, Spec, conditional

_REPAIR_CANDIDATES = 64


@dataclass(frozen=True)
class _Condition:
    """The condition `when` a parameter matters, and the points for which it does, over the
    parameters that it names. `implied` is the constraint on canonical configurations: a parameter
    that does not matter is at its default."""

    parameter: Parameter
    when: Expression
    implied: Expression
    axes: Sequence[int]
    solutions: Solutions

    def why_false(self, values: Mapping[str, Value]) -> str:
        """Return why a configuration is not canonical."""
        where = self.when.describe_values(values)
        return (
            f"{self.parameter.name} does not matter{f' where {where}' if where else ''}, "
            f"so it stays at its default {shown(self.parameter.default)}"
        )


class ConstrainedSpace(Space):
    """The configurations that satisfy a spec's constraints on one input and, if known, a device.

    Without device limits, constraints that name them are left out. Configurations that differ only
    in parameters that do not matter are one; its canonical form has these at their defaults.
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
        self._given: dict[str, Value] = dict(given or {}) | (limits.names() if limits else {})
        self._launch = launch
        # Without a device, what speaks of one cannot be judged.
        unjudged = set() if limits else set(LIMIT_NAMES)
        self._conditions = [
            self._condition(parameter, when)
            for parameter, when in conditional(self.parameters)
            if not when.names & unjudged
        ]
        judged = [c for c in constraints if not c.names & unjudged]
        implied = launch_constraints(launch, limits)
        written = {c.text for c in judged}
        self._limits = {c.text: limit for c, limit in implied.items() if c.text not in written}
        decisive = [*(c.implied for c in self._conditions), *judged, *implied]
        self.constraints: Sequence[Expression] = list({c.text: c for c in decisive}.values())

    @classmethod
    def of(
        cls, spec: Spec, problem: Input, limits: DeviceLimits | None, compiler: str | None = None
    ) -> ConstrainedSpace:
        """Make the space of a spec on an input; flags of other compilers stay absent."""
        tuned = spec.tuned_for(compiler)
        absent = {p.name: p.default for p in spec.parameters if p not in tuned}
        constraints = [c.expression for c in spec.constraints]
        return cls(tuned, constraints, absent | dict(problem), limits, spec.launch)

    def _condition(self, parameter: Parameter, when: Expression) -> _Condition:
        named = {p.name: p.values for p in self.parameters if p.name in when.names}
        return _Condition(
            parameter,
            when,
            Expression.or_equal(when, parameter.name, parameter.default),
            [self.points.axis[name] for name in named],
            Solutions(named, [when], self._given),
        )

    @cached_property
    def _solutions(self) -> Solutions:
        return Solutions({p.name: p.values for p in self.parameters}, self.constraints, self._given)

    # ---------------------------------------------------------------- judging

    def why_illegal(self, config: Mapping[str, Value]) -> str | None:
        """Return what is wrong with a configuration, with its values; None if it is legal."""
        return self.points.why_no_point(config) or self._why_constrained(config)

    def are_legal(self, points: PointArray) -> npt.NDArray[np.bool_]:
        """Say of many points whether they are legal, shape (points,)."""
        return self._solutions.contains(points)

    def _why_constrained(self, config: Mapping[str, Value]) -> str | None:
        values = {**self._given, **config}
        for constraint in self.constraints:
            try:
                reason = constraint.why_false(values)
            except ExpressionError as error:
                return str(error)
            if reason is not None:
                irrelevant = (c for c in self._conditions if c.implied is constraint)
                told = (c.why_false(values) for c in irrelevant)
                return next(told, reason + self._limit(constraint))
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
        if not self._conditions or not self.is_point(config):
            return config
        return self.decode(self._canonical(self.encode_all([config]))[0].tolist())

    def _canonical(self, points: PointArray) -> PointArray:
        """Return the canonical form of many points, shape (points, parameters)."""
        found = points.copy() if self._conditions else points
        for condition in self._conditions:  # ordered: what a condition names is final before
            matters = condition.solutions.contains(found[:, condition.axes])
            parameter = condition.parameter
            default = position_of(parameter, parameter.default)
            assert default is not None
            found[~matters, self.points.axis[parameter.name]] = default
        return found

    # ---------------------------------------------------------------- drawing

    @cached_property
    def draws(self) -> Draws:
        """The solutions of the constraints, or of all but the widest, which then judge them."""
        judge = self._solutions.contains if self._solutions.left_out else None
        return Draws(self.points, self._solutions, self.decode, judge)

    # ------------------------------------------------------------- neighbours

    def neighbour_points(self, point: PointArray) -> PointArray:
        """Return the legal points that differ in one parameter; see Space.neighbour_points.

        Parameters that no longer matter then differ too. All values are tried where there are at
        most 64, else the 32 nearest on each side and 32 spread evenly over all.
        """
        here = self._canonical(point[None, :])
        changed, which = self.points.changes(here[0])
        if self._conditions:
            changed = self._canonical(changed)
            changed = changed[changed[np.arange(len(which)), which] != here[0, which]]
        return changed[self.are_legal(changed)]

    def nearest_legal(self, config: Config, rng: random.Random) -> Config:
        """Return the legal configuration at the least distance.

        Where constraints are left to rejection and that one breaks them, it is the nearest of those
        that differ in one parameter, a uniform sample, and the default. Raises UsageError where
        there is none either.
        """
        here = self._canonical(self.encode_all([config]))[0]
        if self.are_legal(here[None, :])[0]:
            return self.decode(here.tolist())

        def cost(name: str) -> npt.NDArray[np.float64]:
            axis = self.points.axis[name]
            indices = np.arange(self.points.extents[axis])
            return np.asarray(step_size(self.parameters[axis], int(here[axis]), indices), float)

        nearest = self._solutions.nearest(here.tolist(), cost)
        if nearest is not None and self.are_legal(np.array([nearest]))[0]:
            return self.decode(nearest)
        near = [*map(self.decode, self.neighbour_points(here).tolist())]
        candidates = [*near, *self.sample(rng, _REPAIR_CANDIDATES), self.default]
        legal = [other for other in candidates if self.is_legal(other)]
        if not legal:
            raise UsageError("no legal configuration was found; check the constraints")
        return min(legal, key=lambda other: self.distance(config, other))

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
        return launch_of(self._launch, {**self._given, **config}, function, arguments)
