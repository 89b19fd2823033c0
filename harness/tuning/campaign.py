"""A campaign: its stages one after another, and their results."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

from harness.analysis.coverage import NOT_MEASURED
from harness.analysis.failures import headline, suspects
from harness.core.errors import UsageError
from harness.core.records import Input, Measurement, Outcome
from harness.core.text import command_line, counted
from harness.display.progress import Display
from harness.measure.measurer import Measurer
from harness.results import Store
from harness.results.campaigns import campaigns
from harness.results.notes import Notes, limit_notes, space_notes
from harness.results.provenance import KernelVersion, kernel_versions
from harness.search import EndReason, Progress, Searched
from harness.tuning.ablation_stage import ablate_winners
from harness.tuning.devices import DevicePool
from harness.tuning.finals import choose_same, cross_measure, measure_candidates, measure_finals
from harness.tuning.searching import Searching
from harness.tuning.state import CampaignPlan, State
from harness.tuning.validation import UniformSampling, Validation, describe_validation

_FIRST_TESTS = 4
"""Tests from which the time of a campaign is estimated: the first one also starts processes."""

_LATER_TESTS = 2.5
"""The measurements of a search that take as long as the later stages of one input: measured on
four inputs of spaces/mvmul.yaml with PoCL."""

_OVERHEAD_S = 0.03
"""What a test takes besides its samples, where it is built: data, verification, messages. Of
spaces/mvmul.yaml on PoCL 0.055 s in all, where the samples take 0.028 s."""


class Campaign(State):
    """The inputs of one spec, tuned one after another: stages, and what is known so far."""

    def __init__(
        self, plan: CampaignPlan, measurer: Measurer | DevicePool, store: Store, display: Display
    ) -> None:
        super().__init__(plan, measurer, store, display)
        is_crossed = plan.cross and len(plan.spec.inputs) > 1
        self.searching = Searching(self, self.note, is_crossed=is_crossed)
        self.searched: Mapping[Input, Searched] = self.searching.searched  # none if only sampled
        self.validation: Validation | None = None
        self.last: dict[Input, Progress] = {}
        self._failed_defaults: dict[Input, Outcome] = {}
        self._first_tests: list[tuple[float, float]] = []  # when each ended, seconds of samples
        self._decides = False  # what is measured; in a session its caller does
        self._warned: set[str] = {*self.pool.notices}

    def note(self, progress: Progress) -> None:
        """Count and show a test that has ended."""
        if not progress.replayed:
            self._check_default(progress.measurement)
            self._show_notices()
            self._estimate(progress)
        self.last[progress.plan.problem] = progress
        test = progress.measurement.input, progress.measurement.config
        self.replayed += 0 if test in self.crossed else progress.replayed
        self.display.test(progress)

    def _estimate(self, progress: Progress) -> None:
        """Say after the first tests how long the campaign takes; several devices show their pace.

        The first input builds what the others use again.
        """
        is_known = len(self._first_tests) == _FIRST_TESTS
        if is_known or self.pool.is_shared or not self._decides:
            return
        timing = progress.measurement.timing
        own_s = sum(timing.samples_s) if timing else 0.0
        self._first_tests.append((time.monotonic(), own_s))
        if len(self._first_tests) < _FIRST_TESTS or self.measurer.is_replay:
            return
        ends_s, own = zip(*self._first_tests, strict=True)
        test_s = (ends_s[-1] - ends_s[0]) / (_FIRST_TESTS - 1)
        run_s = min(test_s, 2 * sum(own) / _FIRST_TESTS + _OVERHEAD_S)
        inputs, tests = len(self.spec.inputs), progress.total
        later = inputs * _LATER_TESTS + (inputs - 1) * tests
        # At least this long; at most, as on a busy machine, every test takes as long as the first.
        bounds_s = [tests * test_s + later * each_s for each_s in (run_s, test_s)]
        if self.options.stop_at is not None:
            limit_s = max(0.0, self.options.stop_at - ends_s[-1])
            bounds_s = [min(bound_s, limit_s) for bound_s in bounds_s]
        lasts = " to ".join(dict.fromkeys(map(_duration, bounds_s)))
        on_each = f" on each of {counted(inputs, 'input')}" if inputs > 1 else ""
        self.display.note(f"about {lasts} with {counted(tests, 'test')}{on_each}")

    def _check_default(self, measurement: Measurement) -> None:
        """Warn where the default fails, and where it is wrong on every input."""
        problem, outcome = measurement.input, measurement.outcome
        if outcome is Outcome.OK or problem in self._failed_defaults:
            return
        space = self.space(problem)
        if measurement.config != space.canonical(space.default):
            return
        self._failed_defaults[problem] = outcome
        warn = self.display.warn
        reason = f"{outcome}: {headline(measurement.message)}"
        if reason not in self._warned:
            self._warned.add(reason)
            warn(f"({problem}): the default failed, {reason}")
        failed = self._failed_defaults
        if len(failed) == len(self.spec.inputs) and {*failed.values()} == {Outcome.WRONG_RESULT}:
            check_again = "harness.tune(space, test_limit=1)"
            if not self.spec.is_in_python:
                check_again = command_line("check", str(self.spec.path), "--run")
            warn(
                "even the default is wrong on every input: "
                f"{suspects(self.spec.program is not None)}. "
                f"To run the default alone: {check_again}"
            )

    def _show_notices(self) -> None:
        """Warn of what the measurer has noticed since."""
        for text in self.pool.notices:
            if text not in self._warned:
                self._warned.add(text)
                self.display.warn(text)

    def set_aside(self) -> Sequence[KernelVersion]:
        """Return the other versions of an edited kernel, whose measurements are not used; none
        once this version has measurements."""
        key = self.run_plan(self.spec.inputs[0]).key
        name, store = self.spec.name, self.store

        def stored_versions() -> list[KernelVersion]:
            stored = campaigns(store.connection)
            return kernel_versions(
                store.connection, stored, name, key.fingerprint, self.spec.program_parts
            )

        same = store.read(stored_versions)
        is_new = key.program_sha256 not in {version.program_sha256 for version in same}
        return same if is_new else ()

    def check_seeds(self) -> None:
        """Raise UsageError for a seed of the user that is illegal on every input."""
        spec = self.spec
        for seed in self.options.seeds:
            reasons = [s.why_illegal(s.canonical(seed)) for s in map(self.space, spec.inputs)]
            if None not in reasons:
                raise UsageError(
                    f"the seed configuration ({seed}) is illegal on every input; "
                    f"on ({spec.inputs[0]}): {reasons[0]}"
                )

    def describe_warm_start(self) -> Iterator[str]:
        """Describe each recording of the warm start in a line.

        Raises UsageError for one of which nothing can be used, before anything is measured.
        """
        problem = self.spec.inputs[0]
        return self.transfer_sources.describe(self.space(problem), problem)

    def devices_learnt_from(self) -> list[str]:
        """Return the other devices from whose results in the database the searches start."""
        # Of very many inputs, the first shows whether a campaign goes on with such results.
        inputs = self.spec.inputs if self.plan.other_devices else self.spec.inputs[:1]
        plans = map(self.run_plan, inputs)
        sources = (source for plan in plans for source in self.stored_sources.of(plan))
        return list(dict.fromkeys(source.device for source in sources))

    def run(self) -> None:
        """Run all stages; each measurement is stored when it ends."""
        command = self.begin()
        self._decides = True
        if self.plan.target is None:
            self.searching.run()
        else:
            self.validation = UniformSampling(self).run(self.plan.target)
        self.end(command)

    def begin(self) -> int:
        """Store that a command has begun; return its id."""
        environment, arguments = self.measurer.environment, self.plan.arguments
        return self.store.begin_command(self.spec, environment, self.number, arguments)

    def end(self, command: int) -> None:
        """Run the stages after the search."""
        plan = self.plan
        choose_same(self)
        self._note_space()
        cross_measure(self, winners=plan.cross)
        if plan.cross:
            measure_candidates(self)
        measure_finals(self, plan.finalists)
        self._show_notices()
        if plan.ablate:
            ablate_winners(self)
        self.store.end_command(command, self._unmeasured() | self.left_out, self.stages)

    def _note_space(self) -> None:
        """Store with the runs what reports and generated code need of the space as it is now: also
        a search that had ended before has a run."""
        limits, store = self.measurer.limits, self.store
        notes = space_notes(self.spec)
        notes["same"] = tuple(expression.text for expression in self.same)
        if limits is not None:
            notes.update(limit_notes(self.spec, limits))

        def note() -> None:
            for problem, run_id in self.runs.items():
                legal = self.space(problem).count
                counted_too: Notes = {} if legal is None else {"legal": legal}
                store.note_run(run_id, {**notes, **counted_too})

        store.transact(note)

    def _unmeasured(self) -> dict[Input, str]:
        """Return the inputs that have no measurement, with the reason."""
        why = "no sample fell on it"
        if self.is_time_up():
            why = "the time was up"
        return {
            problem: f"{NOT_MEASURED}{why}"
            for problem in self.spec.inputs
            if not self.ledger.searched(problem)
        }

    # ------------------------------------------------------------ results

    @property
    def has_ended(self) -> bool:
        """Whether the technique has ended, so that a larger budget would change nothing."""
        if self.validation is not None:
            return not self.validation.may_go_on
        ends = {searched.ended for searched in self.searched.values()}
        ran_out = ends & {EndReason.LIMIT, EndReason.TIME}
        return self.plan.options.is_self_contained and not ran_out

    def describe_tests(self) -> Iterator[str]:
        """Describe in lines what a self-contained technique tested; nothing for others."""
        options = self.plan.options
        if self.validation is not None:
            yield from describe_validation(self.validation)
        elif options.is_self_contained and self.searched:
            tests = sum(searched.tests for searched in self.searched.values())
            yield (
                f"{options.techniques[0]} tested {tests / len(self.searched):,.1f} configurations "
                f"an input, {tests:,} in all. The default and the winners of other inputs are not "
                "counted."
            )


def _duration(time_s: float) -> str:
    """Format a duration of which little is known: 40 s, 4 min, 1.5 h."""
    if time_s < 90:
        return f"{time_s:.0f} s"
    minutes = time_s / 60
    return f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.1f} h"
