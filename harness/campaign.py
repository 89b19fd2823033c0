"""A whole tuning command: search every input, try winners everywhere, re-measure finalists."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from harness.analysis import InputReport, choose_finalists, fastest, report_input
from harness.errors import UsageError
from harness.records import Config, Input, Measurement, Outcome, Value
from harness.results import RunPlan, Store, Stored
from harness.search import Progress, SearchOptions, search_input
from harness.space import Space
from harness.spec import Spec
from harness.workers import Measurer

MAX_SEEDS = 4


class Display(Protocol):
    """Where progress is told; the terminal, plain lines, or nothing."""

    def begin_stage(self, title: str, steps: int) -> None:
        """A stage with this many steps begins."""

    def step(self, text: str) -> None:
        """One step of a stage has ended."""

    def test(self, progress: Progress) -> None:
        """A test of a search has ended."""


class Campaign:
    """The inputs of one spec, tuned in turn with one measurer into one store."""

    def __init__(
        self,
        spec: Spec,
        measurer: Measurer,
        store: Store,
        options: SearchOptions,
        compiler: str | None,
        display: Display,
        fresh: bool = False,
    ) -> None:
        """`fresh` begins a new campaign: nothing that was measured before is used again."""
        self.spec = spec
        self._measurer = measurer
        self._store = store
        self._options = options
        self._compiler = compiler
        self._display = display
        self._stored: dict[Input, dict[Config, Stored]] = {}
        self._runs: dict[Input, int] = {}
        latest = store.latest_campaign(spec, measurer.environment)
        self.number = latest + 1 if fresh else max(1, latest)

    def space(self, given: Input) -> Space:
        """The legal configurations of an input on the measurer's device."""
        return Space.of(self.spec, given, self._measurer.limits, self._compiler)

    def plan(self, given: Input) -> RunPlan:
        """The run of an input."""
        options = self._options
        return RunPlan(
            spec=self.spec,
            environment=self._measurer.environment,
            given=given,
            technique=",".join(options.techniques),
            seed=options.seed,
            test_limit=options.test_limit,
            label=options.label,
            campaign=self.number,
        )

    def check_seeds(self) -> None:
        """Raise UsageError for a person's seed that is legal on no input."""
        for seed in self._options.seeds:
            reasons = [self.space(given).why_illegal(seed) for given in self.spec.inputs]
            if None not in reasons:
                raise UsageError(f"the seed configuration ({seed}) is illegal: {reasons[0]}")

    def run(self) -> list[InputReport]:
        """Search, cross-measure, re-measure; every finished measurement is kept at once."""
        searched: list[Input] = []
        for number, given in enumerate(self.spec.inputs, start=1):
            self._search(number, given, searched)
            searched.append(given)
        self._cross_measure()
        return self._finals()

    # ----------------------------------------------------------------- search

    def _search(self, number: int, given: Input, searched: Sequence[Input]) -> None:
        space = self.space(given)
        winners = self._winners_of(nearest_first(given, searched))
        seeds = [space.default, *self._options.seeds, *winners]
        legal = [config for config in dict.fromkeys(seeds) if space.is_legal(config)]
        self._display.begin_stage(
            f"[{number}/{len(self.spec.inputs)}] {given}", self._budget(space)
        )
        options = self._options
        if options.results_log is not None and len(self.spec.inputs) > 1:
            log = options.results_log
            numbered = log.with_name(f"{log.stem}-{number:02d}{log.suffix}")
            options = dataclasses.replace(options, results_log=numbered)
        self._runs[given] = search_input(
            self._store,
            self._measurer,
            space,
            self.plan(given),
            options,
            legal,
            self._known(given),
            self._display.test,
        )

    def _budget(self, space: Space) -> int:
        return min(self._options.test_limit, space.count or self._options.test_limit)

    def _winners_of(self, inputs: Iterable[Input]) -> list[Config]:
        """The best configurations of these inputs, each once, the first few."""
        winners = (self._best(given) for given in inputs)
        distinct = dict.fromkeys(best.config for best in winners if best is not None)
        return list(distinct)[:MAX_SEEDS]

    def _known(self, given: Input) -> dict[Config, Stored]:
        """What is measured of an input, read once and kept up to date by the search.

        Measurements outlive a change of the space's ranges; what it left out is not of it.
        """
        if given not in self._stored:
            known, space = self._store.known(self.plan(given)), self.space(given)
            legal = {c: stored for c, stored in known.items() if space.is_legal(c)}
            self._stored[given] = legal
        return self._stored[given]

    def _measured(self, given: Input) -> dict[Config, Measurement]:
        return {config: stored.measurement for config, stored in self._known(given).items()}

    def _best(self, given: Input) -> Measurement | None:
        return fastest(self._measured(given).values())

    # ------------------------------------------------------------------ cross

    def _cross_measure(self) -> None:
        """Measure every input's winner on every other input, where it is legal and missing."""
        winners = dict.fromkeys(
            best.config for given in self.spec.inputs if (best := self._best(given)) is not None
        )
        missing = [
            (given, config)
            for given in self.spec.inputs
            for config in winners
            if config not in self._known(given) and self.space(given).is_legal(config)
        ]
        self._display.begin_stage("winners on the other inputs", len(missing))
        for given, config in missing:
            plan = self.plan(given)
            found = self._measurer.measure(self.space(given), given, config, None)
            row = self._store.add_measurement(self._runs[given], plan, "cross", found)
            self._store.commit()
            self._known(given)[config] = Stored(row, found)
            self._display.step(f"{given}: {found.outcome}")

    # ----------------------------------------------------------------- finals

    def _finals(self) -> list[InputReport]:
        self._display.begin_stage("finalists beside the baseline", len(self.spec.inputs))
        reports = []
        for given in self.spec.inputs:
            reports.append(self._final(given))
            self._display.step(str(given))
        return reports

    def _final(self, given: Input) -> InputReport:
        measured, space = self._measured(given), self.space(given)
        finalists = choose_finalists(measured.values())
        wanted = list(dict.fromkeys([*finalists, space.default]))
        working = [c for c in wanted if c in measured and measured[c].outcome is Outcome.OK]
        finals = self._interleaved(given, space, working) if working else []
        confidence = self.spec.measure.confidence
        return report_input(given, measured, finals, space.default, space.count, confidence)

    def _interleaved(
        self, given: Input, space: Space, configs: Sequence[Config]
    ) -> list[Measurement]:
        """Re-measure in turn, unless these very configurations were the last time."""
        plan = self.plan(given)
        earlier = self._store.finals(plan)
        if {measurement.config for measurement in earlier} == set(configs):
            return earlier
        rounds = max(2, self.spec.measure.repeats)
        found = self._measurer.measure_interleaved(space, given, configs, rounds)
        self._store.add_finals(self._runs[given], plan, found)
        self._store.commit()
        return found

    def times(self) -> dict[Input, dict[Config, float]]:
        """Of every input, the median seconds of each configuration; infinity where it failed."""
        return {
            given: {config: m.time_s for config, m in self._measured(given).items()}
            for given in self.spec.inputs
        }


def nearest_first(given: Input, others: Sequence[Input]) -> Iterator[Input]:
    """Other inputs, the most alike first: by the distance of their features' logarithms."""
    return iter(sorted(others, key=lambda other: feature_distance(given, other)))


def feature_distance(one: Mapping[str, Value], other: Mapping[str, Value]) -> float:
    """The Euclidean distance of the features, those above zero by their logarithms."""
    return math.dist([_scaled(v) for v in one.values()], [_scaled(v) for v in other.values()])


def _scaled(value: Value) -> float:
    number = float(value) if isinstance(value, (int, float)) else 0.0
    return math.log2(number) if number > 0 else number
