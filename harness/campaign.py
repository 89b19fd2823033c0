"""A whole tuning command: search every input, try winners everywhere, re-measure finalists."""

from __future__ import annotations

import dataclasses
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property

from harness.analysis import (
    InputReport,
    choose_finalists,
    fastest,
    one_of_each_code,
    report_input,
)
from harness.errors import HostModuleError, UsageError
from harness.inputs import nearest_first
from harness.prediction import PairColumns
from harness.prior import Taught
from harness.progress import Display
from harness.recordings.recorded import Recorded
from harness.records import Config, Input, Measurement, Outcome, StopReason
from harness.results import RunPlan, Store, Stored
from harness.search import (
    MAX_FREE_IN_A_ROW,
    Ended,
    Progress,
    Searched,
    SearchOptions,
    search_input,
)
from harness.space import Space
from harness.spec import Spec
from harness.transfer import first_legal, taught, told_technique
from harness.validation import Goal, Part, Validation, describe_validation, validate
from harness.workers import Measurer


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
        target: float | None = None,
        taught_by: Sequence[Recorded] = (),
    ) -> None:
        """`fresh` begins a new campaign: nothing that was measured before is used again.
        Recordings that a search is `taught_by` are of the same kernel on other devices.

        With a `target` the inputs are not searched but sampled, until a tree predicts times
        with this median relative error (harness.validation).
        """
        self.spec = spec
        self._measurer = measurer
        self._store = store
        self._options = options
        self._display = display
        self._stored: dict[Input, dict[Config, Stored]] = {}
        self._target = target
        self._taught_by = tuple(taught_by)
        self._runs: dict[Input, int] = {}
        self._drawn: dict[tuple[Part, Input], int] = {}
        self.searched: dict[Input, Searched] = {}
        self.validation: Validation | None = None
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
            technique=told_technique(options.techniques, self._taught_by),
            seed=options.seed,
            test_limit=options.test_limit,
            parallelism=options.parallelism,
            label=options.label,
            campaign=self.number,
        )

    def check_seeds(self) -> None:
        """Raise UsageError for a person's seed that is legal on no input, or of no use."""
        if self._options.seeds and self._options.is_self_contained:
            raise UsageError(
                f"--seed-configuration does not go with {self._options.techniques[0]} alone, "
                "which tests nothing but its own proposals; add another --technique"
            )
        for seed in self._options.seeds:
            reasons = [s.why_illegal(s.canonical(seed)) for s in map(self.space, self.spec.inputs)]
            if None not in reasons:
                raise UsageError(
                    f"the seed configuration ({seed}) is illegal on every input; "
                    f"on ({self.spec.inputs[0]}): {reasons[0]}"
                )

    def run(self) -> list[InputReport]:
        """Search, cross-measure, re-measure; every finished measurement is kept at once."""
        if self._target is None:
            self._search_all()
        else:
            self._validate(self._target)
        if not self.is_time_up():
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

    def is_time_up(self) -> bool:
        """Whether nothing more may be searched."""
        stop_at = self._options.stop_at
        return stop_at is not None and time.monotonic() >= stop_at

    # ----------------------------------------------------------------- search

    def _search_all(self) -> None:
        searched: list[Input] = []
        for number, given in enumerate(self.spec.inputs, start=1):
            with self._told(given):
                self._search(number, given, searched)
                searched.append(given)

    def _search(self, number: int, given: Input, searched: Sequence[Input]) -> None:
        space = self.space(given)
        seeds = self._seeds(given, space, searched)
        title = f"[{number}/{len(self.spec.inputs)}] {given}"
        self._display.begin_stage(title, space.budget(self._options.test_limit))
        if self._is_empty(given, space):
            return
        found = search_input(
            self._store,
            self._measurer,
            space,
            self.plan(given),
            self._options.numbered(number, len(self.spec.inputs)),
            seeds,
            self._known(given),
            self._count,
            self._taught(given, space, searched),
        )
        self._runs[given], self.searched[given] = found.run_id, found
        if found.ended is Ended.REFUSED:
            self._display.warn(
                f"({given}) has {found.tests} of {self._options.test_limit} samples: after them "
                f"{MAX_FREE_IN_A_ROW} configurations in a row were refused"
            )

    def _seeds(self, given: Input, space: Space, searched: Sequence[Input]) -> list[Config]:
        """Where a search starts: the default, a person's own, and the winner of the input most
        like this one. Others are tried after the search, and have taught it (harness.prior).

        A technique that has the run to itself starts where it says."""
        if self._options.is_self_contained:
            return []
        winner = first_legal(space, map(self._best, nearest_first(given, searched)))
        seeds = [*map(space.canonical, [space.default, *self._options.seeds]), *winner]
        return [config for config in dict.fromkeys(seeds) if space.is_legal(config)]

    def _is_empty(self, given: Input, space: Space) -> bool:
        """Whether nothing is legal; why is then noted."""
        if space.count == 0:
            reason = space.why_illegal(space.default)
            self.left_out[given] = (
                f"no configuration is legal on this device; the default: {reason}"
            )
        return space.count == 0

    def _count(self, progress: Progress) -> None:
        self.replayed += progress.replayed
        self._display.test(progress)

    def _taught(self, given: Input, space: Space, searched: Sequence[Input]) -> Taught | None:
        """What recordings, and the inputs before this one as its run found them, teach of it."""
        last = self._store.last_before(self.plan(given))
        known = {other: self._known(other).values() for other in searched}
        measured = {o: [s.measurement for s in found if s.id <= last] for o, found in known.items()}
        return taught(space, given, self._taught_by, measured)

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
            self._measurer.recall(given, self._measured(given).values())
        return self._stored[given]

    def _had_less_time(self, m: Measurement) -> bool:
        """Whether it ran into a deadline that has been put off since."""
        return m.outcome is Outcome.TIMEOUT and m.wall_s < self.spec.measure.timeout_s

    def _measured(self, given: Input) -> dict[Config, Measurement]:
        return {config: stored.measurement for config, stored in self._known(given).items()}

    def _best(self, given: Input) -> Measurement | None:
        return fastest(self._measured(given).values())

    # -------------------------------------------------------------- validation

    @cached_property
    def columns(self) -> PairColumns:
        """What a tree over configurations and inputs sees."""
        return PairColumns(self.space(self.spec.inputs[0]).parameters, self.spec.inputs)

    def _validate(self, target: float) -> None:
        counts = {}
        for given in self.spec.inputs:
            space = self.space(given)
            if not self._is_empty(given, space):
                estimated, _ = space.estimate_count(random.Random(self._options.seed))
                counts[given] = estimated if space.count is None else float(space.count)
        limit = self._options.test_limit * len(self.spec.inputs)
        self.validation = validate(self, counts, Goal(target, limit, self._options.seed))

    def begin_samples(self, title: str, samples: int) -> None:
        """A part of a validation begins."""
        self._display.begin_stage(title, samples)

    def draw_samples(
        self, part: Part, given: Input, draws: int, held_out: frozenset[Config]
    ) -> list[Measurement]:
        """The first `draws` configurations that UniformRandom asks for on an input, in order.

        Each part is a run of its own, which each call continues.
        """
        found: list[Measurement] = []
        earlier = self._drawn.get((part, given), 0)

        def note(progress: Progress) -> None:
            found.append(progress.measurement)
            if len(found) > earlier:
                self.replayed += progress.replayed
                self._display.step(str(given))

        options = dataclasses.replace(
            self._options,
            test_limit=draws,
            counts_all=True,
            salt=f":{part.value}",
            held_out=held_out,
        )
        plan = dataclasses.replace(
            self.plan(given),
            technique=f"{self.plan(given).technique} ({part.value})",
            test_limit=draws,
        )
        with self._told(given):
            self._runs[given] = search_input(
                self._store,
                self._measurer,
                self.space(given),
                plan,
                options,
                (),
                self._known(given),
                note,
            ).run_id
        self._drawn[part, given] = len(found)
        return found

    # ------------------------------------------------------------------ cross

    def _cross_measure(self) -> None:
        """Measure every input's winner on every other input, where it is legal and missing; and
        the default, where the technique did not start from it."""
        best = map(self._best, self.spec.inputs)
        default = self.space(self.spec.inputs[0]).default
        winners = dict.fromkeys([default, *(m.config for m in best if m is not None)])
        missing = [
            (given, config)
            for given in self.spec.inputs
            for config in dict.fromkeys(map(self.space(given).canonical, winners))
            if given in self._runs
            and config not in self._known(given)
            and self.space(given).is_legal(config)
        ]
        self._display.begin_stage("default and winners on the other inputs", len(missing))
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
            why = "the time was up" if self.is_time_up() else "no sample fell on it"
            return self.left_out.get(report.given, f"not measured: {why}")
        return self.left_out.get(report.given, report.note)

    def _final(self, given: Input) -> InputReport:
        measured, space = self._measured(given), self.space(given)
        finalists = choose_finalists(one_of_each_code(measured.values(), space.default))
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

    # ---------------------------------------------------------------- telling

    @property
    def has_ended(self) -> bool:
        """Whether a larger budget would change nothing, since the technique has ended."""
        if self.validation is not None:
            return not self.validation.may_go_on
        ends = [found.ended for found in self.searched.values()]
        return self._options.is_self_contained and not {Ended.LIMIT, Ended.TIME} & set(ends)

    def describe_tests(self) -> Iterator[str]:
        """What a technique that has the run to itself came to, in lines; nothing of others."""
        if self.validation is not None:
            yield from describe_validation(self.validation)
        elif self._options.is_self_contained and self.searched:
            tests = sum(found.tests for found in self.searched.values())
            yield (
                f"{self._options.techniques[0]} tested {tests / len(self.searched):.1f} "
                f"configurations an input, {tests} in all; the default and the winners of other "
                "inputs are measured beside them and not counted."
            )

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
