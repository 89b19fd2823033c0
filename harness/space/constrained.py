"""A spec -> its legal configurations for one input on one device, with their programs and launches.

Constraints are solved (harness.constraints.solutions) instead of tried, so a space of 10^9 points
opens at once, is counted exactly, and returns any legal configuration by index. Where constraints
connect too many parameters for that, the widest constraints are left to rejection: configurations
that satisfy the others are drawn until one satisfies these too, and the count is an estimate.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from harness.constraints.expression import Expression
from harness.constraints.solutions import Solutions
from harness.core.errors import ExpressionError, UsageError
from harness.core.kernel_name import is_plain, reference_lines, words_of
from harness.core.program import ANY_CARVEOUT, PYTHON, Launch, Program
from harness.core.records import LIMIT_NAMES, Config, DeviceLimits, Input, Value, shown
from harness.source.kernel_source import macro_lines
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
        if (reason := self.why_no_point(config)) is not None:
            return reason
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
        canonical = points.copy() if self._conditions else points
        for condition in self._conditions:  # ordered: what a condition names is final before
            matters = condition.solutions.contains(canonical[:, condition.axes])
            parameter = condition.parameter
            default = parameter.position(parameter.default)
            assert default is not None
            canonical[~matters, self.axis[parameter.name]] = default
        return canonical

    def launch(self, config: Config, function: str, arguments: Sequence[str]) -> Launch:
        """Return the launch of a configuration; raises ExpressionError where a size is no int."""
        plan, values = self._launch, {**self._given, **config}
        if plan is None:
            raise UsageError("this space has no launch sizes")
        least = ANY_CARVEOUT
        return Launch(
            function,
            tuple(_whole(size, values) for size in plan.group),
            tuple(_whole(size, values) for size in plan.grid),
            tuple(arguments),
            _whole(plan.shared, values, least=0) if plan.shared else 0,
            cooperative=plan.cooperative,
            carveout=_whole(plan.carveout, values, least) if plan.carveout else least,
        )


# ---------------------------------------------------------------- what a device and a build get


def launch_constraints(
    plan: LaunchPlan | None, limits: DeviceLimits | None
) -> dict[Expression, str]:
    """Return the constraints that a device puts on every launch, each with the limit in words."""
    if plan is None or limits is None:
        return {}
    sizes = [_factor(expression) for expression in plan.group]
    grid = [_factor(expression) for expression in plan.grid]
    made = {
        f"{' * '.join(sizes)} <= {limits.max_group_size}": "launch.group has at most "
        f"{limits.max_group_size:,} work-items in all (max_group_size of the device)"
    }
    for key, factors, most in (
        ("group", sizes, limits.max_group_dims),
        ("grid", grid, limits.max_grid_dims),
    ):
        extents = " x ".join(f"{extent:,}" for extent in most[: len(factors)])
        limit = f"launch.{key} is at most {extents} on the device"
        made |= {f"{s} <= {m}": limit for s, m in zip(factors, most, strict=False)}
        made |= {f"{size} >= 1": f"launch.{key} begins at 1" for size in factors}
    if plan.shared is not None:
        shared, most_bytes = _factor(plan.shared), limits.max_shared_bytes
        made[f"{shared} <= {most_bytes}"] = (
            f"launch.shared is at most {most_bytes:,} bytes (max_shared_bytes of the device)"
        )
        made[f"{shared} >= 0"] = "launch.shared begins at 0"
    if plan.carveout is not None:
        percent = _factor(plan.carveout)
        limit = f"launch.carveout is a percentage, or {ANY_CARVEOUT}"
        made |= {f"{percent} >= {ANY_CARVEOUT}": limit, f"{percent} <= 100": limit}
    return {Expression(text): limit for text, limit in made.items()}


def _factor(expression: Expression) -> str:
    """Return an expression's text, in brackets unless it is a name or a whole number."""
    text = expression.text
    return text if text.isidentifier() or text.isdigit() else f"({text})"


def _whole(expression: Expression, values: Mapping[str, Value], least: int = 1) -> int:
    size = expression(values)
    if not isinstance(size, (int, float)) or size != size // 1 or size < least:
        raise ExpressionError(
            f"the launch size `{expression.text}` must be a whole number from {least}, "
            f"but is {size}"
        )
    return int(size)


def _text(spec: Spec, language: str, macros: Mapping[str, Value]) -> str:
    """Return the source with its macros, and behind it what a CUDA source needs so that its kernels
    can be found.

    A macro with the name of a template parameter would change the template's head: it is defined
    only behind the source, for the template's arguments.
    """
    source = spec.sources[language]
    named = [name for name in spec.functions if language == "cuda" and not is_plain(name)]
    if not named:
        return source.with_macros(macros)
    words = frozenset().union(*map(words_of, named)) & source.template_names
    late = {name: value for name, value in macros.items() if name in words}
    early = {name: value for name, value in macros.items() if name not in words}
    lines = [*macro_lines(late), *reference_lines(named), ""]
    return "\n".join([source.with_macros(early), *lines])


def make_program(
    spec: Spec, space: Space, config: Config, language: str, problem: Input | None = None
) -> Program:
    """Return the program of a configuration in one of the spec's languages.

    The text of a Python callable begins with a line of JSON that has all that builds it, the
    `problem` as well; its source follows, so that another text has another key.
    """
    source = spec.sources[language]
    if language == PYTHON:
        parts = {"path": str(source.path), "config": {**config}, "features": {**(problem or {})}}
        return Program("\n".join([json.dumps(parts), source.text]), (), ())
    macros = {p.name: config[p.name] for p in space.parameters if p.role != "flag"}
    # Flags are sorted for the build cache; the words of one flag stay in order.
    flags = sorted(p.options(config[p.name]) for p in space.parameters if p.role == "flag")
    return Program(
        text=_text(spec, language, macros),
        options=(*spec.compilers.options(language), *(word for flag in flags for word in flag)),
        include_dirs=source.include_dirs,
        includes=tuple(source.includes.values()),
        timeout_s=spec.compilers.of(language).build_timeout_s,
        files=spec.files_of(config),
    )
