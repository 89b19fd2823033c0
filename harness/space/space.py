"""Spec -> the legal configurations for one input on one device.

Lazy throughout: constraints are solved (harness.constraints.solver), not tried, so that a space of
10^9 points opens at once, is counted exactly, and gives any of its legal configurations by index.
Where constraints tie too much together even for that, the widest of them are left to rejection:
configurations that satisfy all others are drawn until one satisfies these too, and the count is an
estimate.
"""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from harness.constraints.expression import Expression
from harness.constraints.solver import Solutions
from harness.core.errors import ExpressionError, UsageError
from harness.core.program import Launch
from harness.core.records import LIMIT_NAMES, Config, DeviceLimits, Input, Value, shown
from harness.space.judge import Judge
from harness.space.launches import launch_constraints, launch_of
from harness.space.moves import Moves
from harness.space.points import Places, Points, near_places, step_size
from harness.space.relevance import Relevance
from harness.space.repair import mended
from harness.space_file import LaunchPlan, Parameter, Spec

_MAX_DRAWS = 200_000
_DRAW_COST = 32  # of a draw by index, in configurations that are looked up in a set
_ESTIMATE_DRAWS = 20_000
_BATCH = 1 << 14  # points that are drawn and judged together
_REPAIR_CANDIDATES = 64


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
        self._points = Points(parameters)
        self._given: dict[str, Value] = dict(given or {})
        self._launch = launch
        if limits is not None:
            self._given |= limits.names()
        # Without a device, what speaks of one cannot be judged.
        unjudged = set() if limits else set(LIMIT_NAMES)
        judged = [c for c in constraints if not c.names & unjudged]
        self._relevance = Relevance(self._points, self._given, unjudged)
        implied = launch_constraints(launch, limits)
        self._implied = {c.text for c in implied} - {c.text for c in judged}
        all_constraints = [*self._relevance.implied, *judged, *implied]
        self._judge = Judge(self._points, all_constraints, self._given)
        self._moves = Moves(self._points, self._judge, self._relevance)

    @classmethod
    def of(
        cls, spec: Spec, given: Input, limits: DeviceLimits | None, compiler: str | None = None
    ) -> Space:
        """The space of a spec on an input; flags of other compilers stay absent."""
        tuned = spec.tuned_for(compiler)
        absent = {p.name: p.default for p in spec.parameters if p not in tuned}
        constraints = [c.expression for c in spec.constraints]
        return cls(tuned, constraints, absent | dict(given), limits, spec.launch)

    @property
    def constraints(self) -> list[Expression]:
        """What decides whether a point is legal; what holds for all values is left out."""
        return self._judge.constraints

    # ---------------------------------------------------------------- judging

    def why_illegal(self, config: Mapping[str, Value]) -> str | None:
        """None for a legal configuration; else what is wrong, with the values."""
        return self._why_not_a_point(config) or self._why_constrained(config)

    def is_legal(self, config: Mapping[str, Value]) -> bool:
        """Whether the configuration is legal."""
        return self.why_illegal(config) is None

    def are_legal(self, places: Places) -> npt.NDArray[np.bool_]:
        """Whether each of many points is legal, shape (points,)."""
        return self._judge.all_held(self.constraints, places)

    def is_point(self, config: Mapping[str, Value]) -> bool:
        """Whether it has one of its values for each parameter, legal or not."""
        return self._why_not_a_point(config) is None

    def _why_not_a_point(self, config: Mapping[str, Value]) -> str | None:
        known = self._points.by_name
        for name in config:
            if name not in known:
                return f"`{name}` is not a parameter; there are {', '.join(known)}"
        for name in known:
            if name not in config:
                return f"it has no value for {name}"
            if self._points.place_of(name, config[name]) is None:
                return f"{name}={shown(config[name])} is not one of its values"
        return None

    def _why_constrained(self, config: Mapping[str, Value]) -> str | None:
        values = self._judge.values(config)
        for constraint in self.constraints:
            try:
                reason = constraint.why_false(values)
            except ExpressionError as error:
                return str(error)
            if reason is not None:
                irrelevant = self._relevance.why_false(constraint, values)
                if irrelevant is not None:
                    return irrelevant
                implied = constraint.text in self._implied
                return f"{reason}; the device launches nothing else" if implied else reason
        return None

    def canonical(self, config: Config) -> Config:
        """The configuration with every parameter that does not matter at its default, as it is
        counted and measured; what is no point of this space stays as it is."""
        if not self._relevance or self._why_not_a_point(config) is not None:
            return config
        return Config(self._relevance.canonical(config))

    # --------------------------------------------------------------- counting

    @cached_property
    def raw_count(self) -> int:
        """How many points there are, legal or not."""
        return math.prod(self._points.extents)

    @cached_property
    def _solutions(self) -> Solutions:
        """All points that satisfy the constraints, or all of these but the widest."""
        domains = {p.name: p.values for p in self.parameters}
        return Solutions(domains, self.constraints, self._given)

    @property
    def count(self) -> int | None:
        """The exact number of legal configurations; None where it is not affordable."""
        return None if self._solutions.left_out else self._solutions.count

    def budget(self, limit: int) -> int:
        """How many configurations can be measured within a limit."""
        return limit if self.count is None else min(limit, self.count)

    def estimate_count(self, rng: random.Random) -> tuple[float, float]:
        """Legal configurations and their standard error, from the legal share of random ones.

        The share has one success and one failure added (Agresti and Coull, 1998), so that the
        error is not 0 where all draws end alike.
        """
        solutions = self._solutions
        if solutions.count == 0 or not solutions.left_out:
            return float(solutions.count), 0.0
        indices = [rng.randrange(solutions.count) for _ in range(_ESTIMATE_DRAWS)]
        legal = np.count_nonzero(self._satisfying(solutions.places(indices)))
        share = (legal + 1) / (_ESTIMATE_DRAWS + 2)
        error = math.sqrt(share * (1 - share) / _ESTIMATE_DRAWS)
        return solutions.count * share, solutions.count * error

    # ---------------------------------------------------------------- drawing

    def __getitem__(self, index: int) -> Config:
        """The legal configuration with this index; needs an exact count."""
        if self._solutions.left_out:
            raise UsageError("this space is too large to index its legal configurations")
        if not 0 <= index < self._solutions.count:
            raise IndexError(f"configuration {index} of {self._solutions.count}")
        return self.decode(self._solutions.places([index])[0].tolist())

    def __iter__(self) -> Iterator[Config]:
        """Every legal configuration, one at a time."""
        total = self._solutions.count
        for begin in range(0, total, _BATCH):
            yield from self._configs(range(begin, min(begin + _BATCH, total)))

    def _configs(self, indices: Sequence[int]) -> Iterator[Config]:
        """Those of the solutions with these indices that are legal."""
        places = self._solutions.places(indices)
        for row in places[self._satisfying(places)].tolist():
            yield self.decode(row)

    def _satisfying(self, places: Places) -> npt.NDArray[np.bool_]:
        """Which solutions satisfy also what was left out of them."""
        return self._judge.all_held(self._solutions.left_out, places)

    def sample(
        self, rng: random.Random, count: int = 1, exclude: Collection[Config] = ()
    ) -> list[Config]:
        """Distinct legal configurations, uniformly among those not excluded (a set).

        Fewer than `count` come back when there are no more, and, in a space that is too large
        to list or to count, when 200,000 draws in a row find none.
        """
        total = self._solutions.count
        listable = not self._solutions.left_out or total <= _MAX_DRAWS
        # Draw for as long as listing everything once would cost, then list.
        patience = total // _DRAW_COST if listable else _MAX_DRAWS
        found: dict[Config, None] = {}
        missed, batch = patience if listable and 4 * count > total else 0, count
        while len(found) < count and missed < patience:
            drawn = self._configs([rng.randrange(total) for _ in range(batch)])
            distinct = dict.fromkeys(drawn)
            new = [config for config in distinct if config not in exclude and config not in found]
            found |= dict.fromkeys(new[: count - len(found)])
            missed = 0 if new else missed + batch
            batch = count - len(found) if new else min(_BATCH, 2 * batch)
        if len(found) < count and listable:
            rest = [c for c in self._listed if c not in exclude and c not in found]
            found |= dict.fromkeys(rng.sample(rest, min(count - len(found), len(rest))))
        return list(found)

    @cached_property
    def _listed(self) -> list[Config]:
        """All legal configurations; only where few are left to find, or many are wanted."""
        return list(self)

    def sample_places(self, rng: np.random.Generator, count: int) -> Places:
        """Legal points, uniform and independent, so that one may come twice; shape (points,
        parameters).

        Fewer than `count` come back where nothing is legal, or where in a space that is too
        large to count 200,000 draws do not find so many.
        """
        solutions = self._solutions
        found, drawn, wanted = [self._points.places_of([])], 0, count
        while wanted > 0 and solutions.count > 0 and drawn < max(count, _MAX_DRAWS):
            batch = min(_BATCH, wanted * 2 ** len(found) if solutions.left_out else wanted)
            places = solutions.draw(rng, batch).astype(self._points.dtype)
            found.append(places[self._satisfying(places)][:wanted])
            drawn, wanted = drawn + batch, wanted - len(found[-1])
        return np.concatenate(found)

    # ------------------------------------------------------------- neighbours

    def neighbours(self, config: Config, reach: int | None = 1) -> Iterator[Config]:
        """Legal configurations that differ in one parameter, beside those that matter no more.

        On scales the new value is within `reach` places of the old one (None: any place); a
        boolean or an enumeration takes each other value.
        """
        start = self.canonical(config)
        positions = self.encode(start)
        broken = set(self._judge.broken(self.constraints, start))
        for parameter, here in zip(self.parameters, positions, strict=True):
            for place in near_places(parameter, here, reach):
                changed, concerned = self._moves.to(start, parameter, place)
                if broken.issubset(concerned) and self._judge.satisfies(concerned, changed):
                    yield Config(changed)

    def neighbour_places(self, places: Places) -> Places:
        """Legal points that differ from one point, shape (parameters,), in one parameter, beside
        those that matter no more.

        All its values are tried where it has 64 at most; else the 32 nearest on each side, and
        32 that are spread evenly over all.
        """
        here = self._relevance.canonical_places(self._judge, places[None, :])
        changed, which = self._points.changes(here[0])
        if self._relevance:
            changed = self._relevance.canonical_places(self._judge, changed)
            changed = changed[changed[np.arange(len(which)), which] != here[0, which]]
        return changed[self._judge.legal_changes(here[0], changed)]

    def nearest_legal(self, config: Config, rng: random.Random) -> Config:
        """A legal configuration near an illegal one, for searches that propose elsewhere.

        What `mended` finds; where it finds none, the nearest of a uniform sample of legal
        configurations. Raises UsageError where there is none either.
        """
        found = mended(self._moves, self._judge, self.canonical(config))
        return self._nearest_sampled(config, rng) if found is None else found

    def _nearest_sampled(self, config: Config, rng: random.Random) -> Config:
        candidates = self.sample(rng, _REPAIR_CANDIDATES) or [self.default]
        if not self.is_legal(candidates[0]):
            raise UsageError("no legal configuration was found; check the constraints")
        return min(candidates, key=lambda other: self.distance(config, other))

    def distance(self, one: Config, other: Config) -> float:
        """The sum over the parameters of the relative step on scales, and 1 for any change else."""
        places = zip(self.parameters, self.encode(one), self.encode(other), strict=True)
        return sum(step_size(parameter, here, there) for parameter, here, there in places)

    # --------------------------------------------------------------- encoding

    def encode(self, config: Mapping[str, Value]) -> tuple[int, ...]:
        """The position of each parameter's value, in the parameters' order."""
        return self._points.encode(config)

    def places_of(self, configs: Sequence[Mapping[str, Value]]) -> Places:
        """`encode` of many, shape (configs, parameters); raises UsageError for what is no value."""
        return self._points.places_of(configs)

    def decode(self, positions: Sequence[int]) -> Config:
        """The configuration at these positions; the inverse of encode."""
        return Config(self._points.decode(positions))

    @cached_property
    def default(self) -> Config:
        """The baseline: every parameter at its default."""
        return Config({p.name: p.default for p in self.parameters})

    def launch(self, config: Config, function: str, arguments: Sequence[str]) -> Launch:
        """The launch of a configuration; raises ExpressionError where a size is not whole."""
        return launch_of(self._launch, self._judge.values(config), function, arguments)
