"""Spec -> the legal configurations for one input on one device.

Lazy throughout: constraints become counting tables over the few parameters that they tie
together (harness.elimination), so that a space of 10^9 points opens at once, is counted
exactly, and gives any of its legal configurations by index. Where constraints tie too much
together for tables, configurations are drawn by rejection, and the count is an estimate.
"""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from operator import itemgetter

from harness.backends.base import Launch
from harness.elimination import Solutions, TooLarge
from harness.errors import ExpressionError, UsageError
from harness.expression import Expression
from harness.records import LIMIT_NAMES, Config, DeviceLimits, Input, Value, shown
from harness.spec import LaunchPlan, Parameter, Spec

_MAX_DRAWS = 200_000
_ESTIMATE_DRAWS = 20_000
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
        self.constraints = self._deciding([*judged, *self._launch_constraints()])

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
        sizes = [expression.text for expression in self._launch.group]
        product = " * ".join(f"({size})" for size in sizes)
        made = [f"{product} <= {self._limits.max_group_size}"]
        made += [f"({s}) <= {m}" for s, m in zip(sizes, self._limits.max_group_dims, strict=False)]
        grid = [expression.text for expression in self._launch.grid]
        made += [f"({s}) <= {m}" for s, m in zip(grid, self._limits.max_grid_dims, strict=False)]
        made += [f"({size}) >= 1" for size in (*sizes, *grid)]
        return [Expression(text) for text in made]

    def _deciding(self, constraints: Iterable[Expression]) -> list[Expression]:
        """Each constraint once, without those that hold whatever the parameters are."""
        distinct = {constraint.text: constraint for constraint in constraints}.values()
        return [c for c in distinct if c.names & set(self._by_name) or not c(self._given)]

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
                return reason
        return None

    # --------------------------------------------------------------- counting

    @cached_property
    def raw_count(self) -> int:
        """How many points there are, legal or not."""
        return math.prod(len(p.values) for p in self.parameters)

    @cached_property
    def _solutions(self) -> Solutions | None:
        """The legal configurations by index; None where the tables would be too large."""
        domains = {p.name: p.values for p in self.parameters}
        try:
            return Solutions(domains, self.constraints, self._given)
        except TooLarge:
            return None

    @property
    def count(self) -> int | None:
        """The exact number of legal configurations; None where it is not affordable."""
        return self._solutions.count if self._solutions is not None else None

    def estimate_count(self, rng: random.Random) -> tuple[float, float]:
        """Legal configurations and their standard error, by the legal share of random points."""
        legal = sum(self._why_constrained(self._any(rng)) is None for _ in range(_ESTIMATE_DRAWS))
        share = legal / _ESTIMATE_DRAWS
        error = math.sqrt(share * (1 - share) / _ESTIMATE_DRAWS)
        return self.raw_count * share, self.raw_count * error

    # ---------------------------------------------------------------- drawing

    def __getitem__(self, index: int) -> Config:
        """The legal configuration with this index; needs an exact count."""
        if self._solutions is None:
            raise UsageError("this space is too large to index its legal configurations")
        return Config(self._solutions[index])

    def __iter__(self) -> Iterator[Config]:
        """Every legal configuration, one at a time."""
        if self._solutions is not None:
            yield from (self[index] for index in range(self._solutions.count))
            return
        for index in range(self.raw_count):
            config = self._point(index)
            if self._why_constrained(config) is None:
                yield config

    def sample(
        self, rng: random.Random, count: int = 1, exclude: Collection[Config] = ()
    ) -> list[Config]:
        """Distinct legal configurations, uniformly among those not excluded (a set of legal ones).

        Fewer than `count` come back when there are no more, and, where the space can only be
        drawn from by rejection, when 200,000 draws in a row find none.
        """
        if self._solutions is None:
            return self._sample_by_rejection(rng, count, exclude)
        total = self._solutions.count
        if 2 * (len(exclude) + count) >= total:
            rest = [config for config in self._listed if config not in exclude]
            return rng.sample(rest, min(count, len(rest)))
        found: dict[Config, None] = {}
        while len(found) < count:
            config = self[rng.randrange(total)]
            if config not in exclude:
                found[config] = None
        return list(found)

    @cached_property
    def _listed(self) -> list[Config]:
        """All legal configurations; only where half of them are wanted at once."""
        return list(self)

    def _sample_by_rejection(
        self, rng: random.Random, count: int, exclude: Collection[Config]
    ) -> list[Config]:
        found: dict[Config, None] = {}
        draws = 0
        while len(found) < count and draws < _MAX_DRAWS:
            config = self._any(rng)
            draws += 1
            if config not in exclude and config not in found and not self._why_constrained(config):
                found[config] = None
                draws = 0
        return list(found)

    def _any(self, rng: random.Random) -> Config:
        return Config({p.name: p.values[rng.randrange(len(p.values))] for p in self.parameters})

    def _point(self, index: int) -> Config:
        values: dict[str, Value] = {}
        for parameter in reversed(self.parameters):
            index, position = divmod(index, len(parameter.values))
            values[parameter.name] = parameter.values[position]
        return Config({p.name: values[p.name] for p in self.parameters})

    # ------------------------------------------------------------- neighbours

    def neighbours(self, config: Config, reach: int | None = 1) -> Iterator[Config]:
        """Legal configurations that differ in one parameter.

        On scales the new value is within `reach` places of the old one (None: any place); a
        boolean or an enumeration takes each other value.
        """
        for parameter in self.parameters:
            for value in self._near_values(parameter, config[parameter.name], reach):
                changed = Config({**config, parameter.name: value})
                if self._why_constrained(changed) is None:
                    yield changed

    def _near_values(
        self, parameter: Parameter, value: Value, reach: int | None
    ) -> Iterator[Value]:
        here = position_of(parameter, value)
        if here is None:
            raise UsageError(f"{parameter.name}={shown(value)} is not one of its values")
        first, last = 0, len(parameter.values)
        if reach is not None and parameter.kind not in ("boolean", "enum"):
            first, last = max(0, here - reach), min(last, here + reach + 1)
        yield from (parameter.values[place] for place in range(first, last) if place != here)

    def nearest_legal(self, config: Config, rng: random.Random) -> Config:
        """A legal configuration near an illegal one, for searches that propose elsewhere.

        The nearest of those that differ in one parameter, by the relative step on scales; where
        none of them is legal, the nearest of a uniform sample of legal configurations.
        """
        if self._why_constrained(config) is None:
            return config
        for _, name, value in sorted(self._steps(config), key=itemgetter(0)):
            changed = {**config, name: value}
            if self._why_constrained(changed) is None:
                return Config(changed)
        candidates = self.sample(rng, _REPAIR_CANDIDATES)
        if not candidates:
            raise UsageError("no legal configuration was found; check the constraints")
        return min(candidates, key=lambda other: self.distance(config, other))

    def _steps(self, config: Config) -> Iterator[tuple[float, str, Value]]:
        """Every small change of one parameter: its distance, the parameter and its new value."""
        for parameter in self.parameters:
            old = config[parameter.name]
            for value in self._near_values(parameter, old, _REPAIR_REACH):
                yield self._step(parameter, old, value), parameter.name, value

    def distance(self, one: Config, other: Config) -> float:
        """The sum over the parameters of the relative step on scales, and 1 for any change else."""
        return sum(self._step(p, one[p.name], other[p.name]) for p in self.parameters)

    def _step(self, parameter: Parameter, one: Value, other: Value) -> float:
        here, there = position_of(parameter, one), position_of(parameter, other)
        if here == there:
            return 0.0
        if here is None or there is None or parameter.kind in ("boolean", "enum"):
            return 1.0
        return abs(here - there) / (len(parameter.values) - 1)

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
