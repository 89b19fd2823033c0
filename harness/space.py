"""Spec -> the legal configurations for one input on one device.

Lazy throughout: constraints become counting tables over the few parameters that they tie
together (harness.elimination), so that a space of 10^9 points opens at once, is counted
exactly, and gives any of its legal configurations by index. Where constraints tie too much
together for tables, the widest of them are left to rejection: configurations that satisfy all
others are drawn until one satisfies these too, and the count is an estimate.
"""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from operator import itemgetter

from harness.backends.base import Launch
from harness.elimination import Solutions, TooLarge, constraint_factor
from harness.errors import ExpressionError, UsageError
from harness.expression import Expression
from harness.records import LIMIT_NAMES, Config, DeviceLimits, Input, Value, shown
from harness.spec import LaunchPlan, Parameter, Spec

_MAX_DRAWS = 200_000
_DRAW_COST = 32  # of a draw by index, in configurations that are looked up in a set
_ESTIMATE_DRAWS = 20_000
_MAX_WEIGHED = 4096
_REPAIR_CANDIDATES = 64
_REPAIR_REACH = 8


class Space:
    """The legal configurations of a spec's parameters for one input and, if given, a device.

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
        self._by_name = {p.name: p for p in self.parameters}
        self._given: dict[str, Value] = dict(given or {})
        self._limits = limits
        self._launch = launch
        if limits is not None:
            self._given |= limits.names()
        # Without a device, what speaks of one cannot be judged.
        unjudged = set() if limits else set(LIMIT_NAMES)
        judged = [c for c in constraints if not c.names & unjudged]
        implied = self._launch_constraints()
        self._implied = {c.text for c in implied} - {c.text for c in judged}
        self.constraints = self._deciding([*judged, *implied])

    @classmethod
    def of(
        cls, spec: Spec, given: Input, limits: DeviceLimits | None, compiler: str | None = None
    ) -> Space:
        """The space of a spec on an input; flags of other compilers stay absent."""
        tuned = spec.tuned_for(compiler)
        absent = {p.name: p.default for p in spec.parameters if p not in tuned}
        constraints = [c.expression for c in spec.constraints]
        return cls(tuned, constraints, absent | dict(given), limits, spec.launch)

    def _launch_constraints(self) -> list[Expression]:
        """What every launch must satisfy on the device, whether the space says so or not."""
        if self._launch is None or self._limits is None:
            return []
        sizes = [_factor(expression) for expression in self._launch.group]
        made = [f"{' * '.join(sizes)} <= {self._limits.max_group_size}"]
        made += [f"{s} <= {m}" for s, m in zip(sizes, self._limits.max_group_dims, strict=False)]
        grid = [_factor(expression) for expression in self._launch.grid]
        made += [f"{s} <= {m}" for s, m in zip(grid, self._limits.max_grid_dims, strict=False)]
        made += [f"{size} >= 1" for size in (*sizes, *grid)]
        return [Expression(text) for text in made]

    def _deciding(self, constraints: Iterable[Expression]) -> list[Expression]:
        """Each constraint once, without those that hold whatever the parameters are."""
        distinct = {constraint.text: constraint for constraint in constraints}.values()
        return [c for c in distinct if self._combinations(c) > _MAX_WEIGHED or self._decides(c)]

    def _combinations(self, constraint: Expression) -> int:
        """How many combinations of values a constraint ties together."""
        return math.prod(len(p.values) for p in self.parameters if p.name in constraint.names)

    def _decides(self, constraint: Expression) -> bool:
        """Whether it is false for some values; one that cannot be computed for some is kept."""
        try:
            return not constraint_factor(constraint, self._domains, self._given).table.all()
        except (ExpressionError, TooLarge):
            return True

    @property
    def _domains(self) -> dict[str, Sequence[Value]]:
        return {p.name: p.values for p in self.parameters}

    # ---------------------------------------------------------------- judging

    def why_illegal(self, config: Mapping[str, Value]) -> str | None:
        """None for a legal configuration; else what is wrong, with the values."""
        return self._why_not_a_point(config) or self._why_constrained(config)

    def is_legal(self, config: Mapping[str, Value]) -> bool:
        """Whether the configuration is legal."""
        return self.why_illegal(config) is None

    def _why_not_a_point(self, config: Mapping[str, Value]) -> str | None:
        for name in config:
            if name not in self._by_name:
                return f"`{name}` is not a parameter; there are {', '.join(self._by_name)}"
        for parameter in self.parameters:
            if parameter.name not in config:
                return f"it has no value for {parameter.name}"
            if position_of(parameter, config[parameter.name]) is None:
                value = shown(config[parameter.name])
                return f"{parameter.name}={value} is not one of its values"
        return None

    def _why_constrained(self, config: Mapping[str, Value]) -> str | None:
        values = {**self._given, **config}
        for constraint in self.constraints:
            try:
                reason = constraint.why_false(values)
            except ExpressionError as error:
                return str(error)
            if reason is not None:
                implied = constraint.text in self._implied
                return f"{reason}; the device launches nothing else" if implied else reason
        return None

    def _satisfies(self, constraints: Iterable[Expression], config: Mapping[str, Value]) -> bool:
        values = {**self._given, **config}
        return all(_holds(constraint, values) for constraint in constraints)

    def _broken(
        self, constraints: Iterable[Expression], config: Mapping[str, Value]
    ) -> list[Expression]:
        """Those of the constraints that a configuration does not satisfy."""
        values = {**self._given, **config}
        return [constraint for constraint in constraints if not _holds(constraint, values)]

    @cached_property
    def _naming(self) -> dict[str, list[Expression]]:
        """Of each parameter, the constraints that name it."""
        return {n: [c for c in self.constraints if n in c.names] for n in self._by_name}

    # --------------------------------------------------------------- counting

    @cached_property
    def raw_count(self) -> int:
        """How many points there are, legal or not."""
        return math.prod(len(p.values) for p in self.parameters)

    @cached_property
    def _solutions(self) -> tuple[Solutions, list[Expression]]:
        """All configurations, by index, that satisfy what fits into tables; and the constraints
        that do not fit, those that tie most combinations together."""
        waiting = sorted(self.constraints, key=self._combinations)
        rejecting: list[Expression] = []
        while True:
            tabled = [c for c in self.constraints if c not in rejecting]
            try:
                return Solutions(self._domains, tabled, self._given), rejecting
            except TooLarge:
                rejecting.append(waiting.pop())

    @property
    def count(self) -> int | None:
        """The exact number of legal configurations; None where it is not affordable."""
        solutions, rejecting = self._solutions
        return None if rejecting else solutions.count

    def budget(self, limit: int) -> int:
        """How many configurations can be measured within a limit."""
        return limit if self.count is None else min(limit, self.count)

    def estimate_count(self, rng: random.Random) -> tuple[float, float]:
        """Legal configurations and their standard error, from the legal share of random ones.

        The share has one success and one failure added (Agresti and Coull, 1998), so that the
        error is not 0 where all draws end alike.
        """
        solutions, rejecting = self._solutions
        if solutions.count == 0 or not rejecting:
            return float(solutions.count), 0.0
        drawn = (solutions[rng.randrange(solutions.count)] for _ in range(_ESTIMATE_DRAWS))
        legal = sum(self._satisfies(rejecting, config) for config in drawn)
        share = (legal + 1) / (_ESTIMATE_DRAWS + 2)
        error = math.sqrt(share * (1 - share) / _ESTIMATE_DRAWS)
        return solutions.count * share, solutions.count * error

    # ---------------------------------------------------------------- drawing

    def __getitem__(self, index: int) -> Config:
        """The legal configuration with this index; needs an exact count."""
        solutions, rejecting = self._solutions
        if rejecting:
            raise UsageError("this space is too large to index its legal configurations")
        return Config(solutions[index])

    def __iter__(self) -> Iterator[Config]:
        """Every legal configuration, one at a time."""
        solutions, rejecting = self._solutions
        for index in range(solutions.count):
            config = solutions[index]
            if self._satisfies(rejecting, config):
                yield Config(config)

    def sample(
        self, rng: random.Random, count: int = 1, exclude: Collection[Config] = ()
    ) -> list[Config]:
        """Distinct legal configurations, uniformly among those not excluded (a set).

        Fewer than `count` come back when there are no more, and, in a space that is too large
        to list or to count, when 200,000 draws in a row find none.
        """
        solutions, rejecting = self._solutions
        total, listable = solutions.count, not rejecting or solutions.count <= _MAX_DRAWS
        # Draw for as long as listing everything once would cost, then list.
        patience = total // _DRAW_COST if listable else _MAX_DRAWS
        found: dict[Config, None] = {}
        missed = patience if listable and 4 * count > total else 0
        while len(found) < count and missed < patience:
            config = Config(solutions[rng.randrange(total)])
            new = config not in exclude and config not in found
            missed = 0 if new and self._satisfies(rejecting, config) else missed + 1
            if missed == 0:
                found[config] = None
        if len(found) < count and listable:
            rest = [c for c in self._listed if c not in exclude and c not in found]
            found |= dict.fromkeys(rng.sample(rest, min(count - len(found), len(rest))))
        return list(found)

    @cached_property
    def _listed(self) -> list[Config]:
        """All legal configurations; only where few are left to find, or many are wanted."""
        return list(self)

    # ------------------------------------------------------------- neighbours

    def neighbours(self, config: Config, reach: int | None = 1) -> Iterator[Config]:
        """Legal configurations that differ in one parameter.

        On scales the new value is within `reach` places of the old one (None: any place); a
        boolean or an enumeration takes each other value.
        """
        positions = self.encode(config)
        broken = set(self._broken(self.constraints, config))
        for parameter, here in zip(self.parameters, positions, strict=True):
            naming = self._naming[parameter.name]
            if broken <= set(naming):
                for place in _near(parameter, here, reach):
                    changed = Config({**config, parameter.name: parameter.values[place]})
                    if self._satisfies(naming, changed):
                        yield changed

    def nearest_legal(self, config: Config, rng: random.Random) -> Config:
        """A legal configuration near an illegal one, for searches that propose elsewhere.

        The nearest of those that differ in one parameter, by the relative step on scales; where
        none of them is legal, the nearest that satisfies more constraints, and on from there;
        where there is none either, the nearest of a uniform sample of legal configurations.
        Raises UsageError where none is found.
        """
        here, broken = config, self._broken(self.constraints, config)
        while broken:
            mended = self._mended(here, broken)
            if mended is None:
                return self._nearest_sampled(config, rng)
            here, broken = mended, self._broken(self.constraints, mended)
        return here

    def _mended(self, config: Config, broken: Sequence[Expression]) -> Config | None:
        """The nearest change of one parameter that mends everything, or else a part."""
        shared = frozenset.intersection(*(constraint.names for constraint in broken))
        for changed, naming in self._steps(config, shared):
            if self._satisfies(naming, changed):
                return Config(changed)
        named = frozenset.union(*(constraint.names for constraint in broken))
        for changed, naming in self._steps(config, named) if len(broken) > 1 else ():
            before = sum(constraint in naming for constraint in broken)
            if len(self._broken(naming, changed)) < before:
                return Config(changed)
        return None

    def _steps(
        self, config: Config, names: Collection[str]
    ) -> Iterator[tuple[dict[str, Value], list[Expression]]]:
        """Small changes of one of these parameters, the nearest first, and what they concern."""
        steps: list[tuple[float, Parameter, int]] = []
        for parameter, here in zip(self.parameters, self.encode(config), strict=True):
            if parameter.name in names:
                near = _near(parameter, here, _REPAIR_REACH)
                steps += ((_step(parameter, here, there), parameter, there) for there in near)
        for _, parameter, there in sorted(steps, key=itemgetter(0)):
            changed = {**config, parameter.name: parameter.values[there]}
            yield changed, self._naming[parameter.name]

    def _nearest_sampled(self, config: Config, rng: random.Random) -> Config:
        candidates = self.sample(rng, _REPAIR_CANDIDATES) or [self.default]
        if not self.is_legal(candidates[0]):
            raise UsageError("no legal configuration was found; check the constraints")
        return min(candidates, key=lambda other: self.distance(config, other))

    def distance(self, one: Config, other: Config) -> float:
        """The sum over the parameters of the relative step on scales, and 1 for any change else."""
        places = zip(self.parameters, self.encode(one), self.encode(other), strict=True)
        return sum(_step(parameter, here, there) for parameter, here, there in places)

    # --------------------------------------------------------------- encoding

    def encode(self, config: Mapping[str, Value]) -> tuple[int, ...]:
        """The position of each parameter's value, in the parameters' order."""
        positions = []
        for parameter in self.parameters:
            position = position_of(parameter, config[parameter.name])
            if position is None:
                value = shown(config[parameter.name])
                raise UsageError(f"{parameter.name}={value} is not one of its values")
            positions.append(position)
        return tuple(positions)

    def decode(self, positions: Sequence[int]) -> Config:
        """The configuration at these positions; the inverse of encode."""
        pairs = zip(self.parameters, positions, strict=True)
        return Config({parameter.name: parameter.values[place] for parameter, place in pairs})

    @cached_property
    def default(self) -> Config:
        """The baseline: every parameter at its default."""
        return Config({p.name: p.default for p in self.parameters})

    def launch(self, config: Config, function: str, arguments: Sequence[str]) -> Launch:
        """The launch of a configuration; raises ExpressionError where a size is not whole."""
        if self._launch is None:
            raise UsageError("this space has no launch sizes")
        values = {**self._given, **config}
        group = tuple(_whole(expression, values) for expression in self._launch.group)
        grid = tuple(_whole(expression, values) for expression in self._launch.grid)
        return Launch(function, group, grid, tuple(arguments))


def _factor(expression: Expression) -> str:
    """Its text, in brackets unless it is a name or a whole number."""
    text = expression.text
    return text if text.isidentifier() or text.isdigit() else f"({text})"


def _holds(constraint: Expression, values: Mapping[str, Value]) -> bool:
    """Whether it is true; what cannot be computed is not."""
    try:
        return bool(constraint.holds(values))
    except ExpressionError:
        return False


def _is_scale(parameter: Parameter) -> bool:
    return parameter.kind not in ("boolean", "enum")


def _near(parameter: Parameter, here: int, reach: int | None) -> Iterator[int]:
    """Other places: on scales those within reach (None: all), else all."""
    first, last = 0, len(parameter.values)
    if reach is not None and _is_scale(parameter):
        first, last = max(0, here - reach), min(last, here + reach + 1)
    return (place for place in range(first, last) if place != here)


def _step(parameter: Parameter, here: int, there: int) -> float:
    if here == there:
        return 0.0
    return abs(here - there) / (len(parameter.values) - 1) if _is_scale(parameter) else 1.0


def _whole(expression: Expression, values: Mapping[str, Value]) -> int:
    size = expression(values)
    if not isinstance(size, (int, float)) or size != size // 1 or size < 1:
        raise ExpressionError(
            f"the launch size `{expression.text}` must be a whole number from 1, but is {size}"
        )
    return int(size)


def position_of(parameter: Parameter, value: Value) -> int | None:
    """Where a value stands among its parameter's values; None if it is none of them."""
    values = parameter.values
    if isinstance(values, range):
        return values.index(value) if type(value) is int and value in values else None
    for position, candidate in enumerate(values):
        if type(candidate) is type(value) and candidate == value:
            return position
    return None
