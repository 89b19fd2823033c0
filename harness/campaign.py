"""A whole tuning command: search every input, try winners everywhere, re-measure finalists."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol

from harness.analysis import InputReport, choose_finalists, fastest, report_input
from harness.errors import HostModuleError, UsageError
from harness.records import Config, Input, Measurement, Outcome, StopReason, Value
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

    def warn(self, text: str) -> None:
        """Something went wrong that does not end the run."""


class Campaign:
    """The inputs of one spec, tuned in turn with one measurer into one store."""

    def __init__(
        self,
        spec: Spec,
        measurer: Measurer,
        store: Store,
        options: SearchOptions,
        display: Display,
        fresh: bool = False,
    ) -> None:
        """`fresh` begins a new campaign: nothing that was measured before is used again."""
        self.spec = spec
        self._measurer = measurer
        self._store = store
        self._options = options
        self._display = display
        self._stored: dict[Input, dict[Config, Stored]] = {}
        self._runs: dict[Input, int] = {}
        self.left_out: dict[Input, str] = {}  # inputs that could not be measured, and why
        self.replayed = 0  # tests that the database answered
        self.number = store.choose_campaign(spec, measurer.environment, fresh)

    def space(self, given: Input) -> Space:
        """The legal configurations of an input on the measurer's device."""
        return Space.of(self.spec, given, self._measurer.limits, self._measurer.compiler)

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
            parallelism=options.parallelism,
            label=options.label,
            campaign=self.number,
        )

    def check_seeds(self) -> None:
        """Raise UsageError for a person's seed that is legal on no input."""
        for seed in self._options.seeds:
            reasons = [self.space(given).why_illegal(seed) for given in self.spec.inputs]
            if None not in reasons:
                raise UsageError(
                    f"the seed configuration ({seed}) is illegal on every input; "
                    f"on ({self.spec.inputs[0]}): {reasons[0]}"
                )

    def run(self) -> list[InputReport]:
        """Search, cross-measure, re-measure; every finished measurement is kept at once."""
        searched: list[Input] = []
        for number, given in enumerate(self.spec.inputs, start=1):
            with self._told(given):
                self._search(number, given, searched)
                searched.append(given)
        if not self._is_time_up():
            self._cross_measure()
        return self._finals()

    @contextmanager
    def _told(self, given: Input) -> Iterator[None]:
        """An input whose data cannot be made is left out and told; the others go on."""
        try:
            yield
        except HostModuleError as error:
            self._store.session.rollback()
            self.left_out[given] = f"left out: {error}"
            self._display.warn(f"({given}) is left out: {error}")

    def _is_time_up(self) -> bool:
        stop_at = self._options.stop_at
        return stop_at is not None and time.monotonic() >= stop_at

    # ----------------------------------------------------------------- search

    def _search(self, number: int, given: Input, searched: Sequence[Input]) -> None:
        space = self.space(given)
        winners = self._winners_of(nearest_first(given, searched))
        seeds = [space.default, *self._options.seeds, *winners]
        legal = [config for config in dict.fromkeys(seeds) if space.is_legal(config)]
        title = f"[{number}/{len(self.spec.inputs)}] {given}"
        self._display.begin_stage(title, space.budget(self._options.test_limit))
        if space.count == 0:
            reason = space.why_illegal(space.default)
            self.left_out[given] = (
                f"no configuration is legal on this device; the default: {reason}"
            )
            return
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
            self._count,
        )

    def _count(self, progress: Progress) -> None:
        self.replayed += progress.replayed
        self._display.test(progress)

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
            self._stored[given] = {
                config: stored
                for config, stored in known.items()
                if space.is_legal(config) and not self._had_less_time(stored.measurement)
            }
        return self._stored[given]

    def _had_less_time(self, measurement: Measurement) -> bool:
        """Whether it ran into a deadline that has been put off since."""
        timeout_s = self.spec.measure.timeout_s
        return measurement.outcome is Outcome.TIMEOUT and measurement.wall_s < timeout_s

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
            if given in self._runs
            and config not in self._known(given)
            and self.space(given).is_legal(config)
        ]
        self._display.begin_stage("winners on the other inputs", len(missing))
        for given, config in missing:
            with self._told(given):
                self._measure_cross(given, config)
            self._display.step(str(given))

    def _measure_cross(self, given: Input, config: Config) -> None:
        found = self._measurer.measure(self.space(given), given, config, None)
        plan = self.plan(given)
        row = self._store.add_measurement(self._runs[given], plan, "cross", found)
        self._store.commit()
        self._known(given)[config] = Stored(row, found)

    # ----------------------------------------------------------------- finals

    def _finals(self) -> list[InputReport]:
        self._display.begin_stage("finalists beside the baseline", len(self.spec.inputs))
        reports = []
        for given in self.spec.inputs:
            reports.append(self._final(given))
            self._display.step(str(given))
        return reports

    def _note(self, report: InputReport) -> str:
        """What kept an input from being measured, or measured again."""
        if not report.measured:
            return self.left_out.get(report.given, "not measured: the time was up")
        return self.left_out.get(report.given, report.note)

    def _final(self, given: Input) -> InputReport:
        measured, space = self._measured(given), self.space(given)
        finalists = choose_finalists(measured.values())
        wanted = list(dict.fromkeys([*finalists, space.default]))
        working = [c for c in wanted if c in measured and measured[c].outcome is Outcome.OK]
        finals: Sequence[Measurement] = []
        if working and given in self._runs:
            with self._told(given):
                finals = self._interleaved(given, space, working)
        confidence = self.spec.measure.confidence
        report = report_input(given, measured, finals, space.default, space.count, confidence)
        return dataclasses.replace(report, note=self._note(report))

    def _interleaved(
        self, given: Input, space: Space, configs: Sequence[Config]
    ) -> list[Measurement]:
        """Re-measure in turn, unless these very configurations were the last time."""
        plan = self.plan(given)
        rounds = max(2, self.spec.measure.repeats)
        earlier = self._store.finals(plan)
        same = {measurement.config for measurement in earlier} == set(configs)
        if same and all(_is_whole(measurement, rounds) for measurement in earlier):
            return earlier
        found = self._measurer.measure_interleaved(space, given, configs, rounds)
        self._store.add_finals(self._runs[given], plan, found)
        self._store.commit()
        return found

    def measured(self) -> dict[Input, dict[Config, Measurement]]:
        """Of every input, each configuration's measurement by the search."""
        return {given: self._measured(given) for given in self.spec.inputs}

    def times(self) -> dict[Input, dict[Config, float]]:
        """Of every input, the median seconds of each configuration; infinity where it failed."""
        return {
            given: {config: m.time_s for config, m in self._measured(given).items()}
            for given in self.spec.inputs
        }


def _is_whole(measurement: Measurement, rounds: int) -> bool:
    """Whether a final was measured to its end, and as often as is asked for now."""
    timing = measurement.timing
    return timing is not None and (timing.count == rounds or timing.stopped is StopReason.RECORDED)


def nearest_first(given: Input, others: Sequence[Input]) -> Iterator[Input]:
    """Other inputs, the most alike first: by the distance of their features' logarithms."""
    return iter(sorted(others, key=lambda other: feature_distance(given, other)))


def feature_distance(one: Mapping[str, Value], other: Mapping[str, Value]) -> float:
    """The Euclidean distance of the features, those above zero by their logarithms."""
    return math.dist([_scaled(v) for v in one.values()], [_scaled(v) for v in other.values()])


def _scaled(value: Value) -> float:
    number = float(value) if isinstance(value, (int, float)) else 0.0
    return math.log2(number) if number > 0 else number
