"""A spec -> its legal configurations for one input on one device.

Constraints are solved (harness.constraints.solutions) instead of tried, so a space of 10^9 points
opens at once, is counted exactly, and returns any legal configuration by index. Where constraints
connect too many parameters for that, the widest constraints are left to rejection: configurations
that satisfy the others are drawn until one satisfies these too, and the count is an estimate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from harness.constraints.expression import Expression
from harness.constraints.solutions import Solutions
from harness.core.errors import ExpressionError
from harness.core.program import Launch
from harness.core.records import LIMIT_NAMES, Config, DeviceLimits, Input, Value, shown
from harness.space.launches import launch_constraints, launch_of
from harness.space.space import PointArray, Space
from harness.space_file import LaunchPlan, Parameter, Spec, conditional


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
        super().__init__(parameters)
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
            [self.axis[name] for name in named],
            Solutions(named, [when], self._given),
        )

    @cached_property
    def solutions(self) -> Solutions:
        """The solutions of the constraints, or of all but the widest, which then judge them."""
        return Solutions({p.name: p.values for p in self.parameters}, self.constraints, self._given)

    # ---------------------------------------------------------------- judging

    def why_illegal(self, config: Mapping[str, Value]) -> str | None:
        """Return what is wrong with a configuration, with its values; None if it is legal."""
        return self.why_no_point(config) or self._why_constrained(config)

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
        tuned = [name for name in constraint.names_in_order if name in self.axis]
        return f"; {limit}: change {', '.join([*tuned, 'or ' * bool(tuned) + 'the expression'])}"

    def canonical(self, config: Config) -> Config:
        """Set every parameter that does not matter to its default, as it is counted and measured.

        A configuration that is no point of this space is returned unchanged.
        """
        if not self._conditions or not self.is_point(config):
            return config
        return self.decode(self._canonical(self.encode_all([config]))[0].tolist())

    def _canonical(self, points: PointArray) -> PointArray:
        found = points.copy() if self._conditions else points
        for condition in self._conditions:  # ordered: what a condition names is final before
            matters = condition.solutions.contains(found[:, condition.axes])
            parameter = condition.parameter
            default = parameter.position(parameter.default)
            assert default is not None
            found[~matters, self.axis[parameter.name]] = default
        return found

    @cached_property
    def default(self) -> Config:
        """Every parameter at its default."""
        return Config({p.name: p.default for p in self.parameters})

    def launch(self, config: Config, function: str, arguments: Sequence[str]) -> Launch:
        """Return the launch of a configuration; raises ExpressionError where a size is no int."""
        return launch_of(self._launch, {**self._given, **config}, function, arguments)
