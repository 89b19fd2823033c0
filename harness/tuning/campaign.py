"""A campaign: its stages one after another, and their results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.analysis.coverage import NOT_MEASURED
from harness.core.errors import UsageError
from harness.core.records import Input
from harness.results.campaigns import campaigns
from harness.results.notes import limit_notes, space_notes
from harness.results.provenance import KernelVersion, kernel_versions
from harness.search import EndReason
from harness.tuning.ablation_stage import ablate_winners
from harness.tuning.finals import choose_same, cross_measure, measure_candidates, measure_finals
from harness.tuning.searching import search_inputs
from harness.tuning.state import State
from harness.tuning.validation import UniformSampling, Validation, describe_validation


class Campaign(State):
    """The inputs of one spec, tuned one after another: the stages of its state."""

    validation: Validation | None = None

    def set_aside(self) -> Sequence[KernelVersion]:
        """Return the other versions of an edited kernel, whose measurements are not used; none
        once this version has measurements."""
        key = self.key
        spec = self.spec
        store = self.store

        def stored_versions() -> list[KernelVersion]:
            stored = campaigns(store.connection)
            return kernel_versions(
                store.connection, stored, spec.name, key.fingerprint, spec.program_parts
            )

        versions = store.transact(stored_versions)
        if any(version.program_sha256 == key.program_sha256 for version in versions):
            return ()
        return versions

    def check_seeds(self) -> None:
        """Raise UsageError for a seed of the user that is illegal on every input."""
        spec = self.spec
        for seed in self.options.seeds:
            reasons: list[str | None] = []
            for space in map(self.space, spec.inputs):
                reasons.append(space.why_illegal(space.canonical(seed)))
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
        return self.sources.describe(self.space(problem), problem)

    def devices_learnt_from(self) -> list[str]:
        """Return the other devices from whose results in the database the searches start."""
        # Of very many inputs, the first shows whether a campaign goes on with such results.
        inputs = self.spec.inputs if self.plan.other_devices else self.spec.inputs[:1]
        devices: dict[str, None] = {}
        for problem in inputs:
            for source in self.sources.devices(self.run_plan(problem)):
                devices[source.device] = None
        return list(devices)

    def run(self) -> None:
        """Run all stages; each measurement is stored when it ends."""
        command = self.begin()
        if self.plan.target is None:
            search_inputs(self)
        else:
            self.validation = UniformSampling(self).run(self.plan.target)
        self.end(command)

    def begin(self) -> int:
        """Store that a command has begun; return its id."""
        environment = self.measurer.environment
        arguments = self.plan.arguments
        return self.store.begin_command(self.spec, environment, self.plan.number, arguments)

    def end(self, command: int) -> None:
        """Run the stages after the search."""
        plan = self.plan
        choose_same(self)
        self._note_space()
        cross_measure(self)
        if plan.cross:
            measure_candidates(self)
        measure_finals(self)
        self.show_notices()
        if plan.ablate:
            ablate_winners(self)
        self.store.end_command(command, self._unmeasured() | self.left_out, self.stages)

    def _note_space(self) -> None:
        """Store with the runs what reports and generated code need of the space as it is now: also
        a search that had ended before has a run."""
        limits = self.measurer.limits
        store = self.store
        notes = space_notes(self.spec)
        notes["same"] = tuple(expression.text for expression in self.same)
        if limits is not None:
            notes.update(limit_notes(self.spec, limits))

        def note() -> None:
            for problem, run_id in self.runs.items():
                noted = notes.copy()
                legal = self.space(problem).count
                if legal is not None:
                    noted["legal"] = legal
                digest = self.data_digests.get(problem)
                if digest is not None:
                    noted["data_sha256"] = digest
                store.note_run(run_id, noted)

        store.transact(note)

    def _unmeasured(self) -> dict[Input, str]:
        """Return the inputs that have no measurement, with the reason."""
        why = "no sample fell on it"
        if self.is_time_up():
            why = "the time was up"
        unmeasured = [p for p in self.spec.inputs if not self.ledger.searched(p)]
        return dict.fromkeys(unmeasured, f"{NOT_MEASURED}{why}")

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
