"""The searches of a campaign: the inputs in their order, each learning from those before it."""

from __future__ import annotations

from collections.abc import Sequence

from harness.core.errors import UsageError
from harness.core.records import Config, Input
from harness.models.encoding.inputs import nearest_first
from harness.models.transfer_prior import TransferData
from harness.search import (
    MAX_FREE_IN_A_ROW,
    EndReason,
    InputSearch,
    Progress,
    Searched,
    search_input,
    sole_technique,
)
from harness.search.transfer.sources import first_legal
from harness.tuning.state import State


def check_seeds_used(techniques: Sequence[str], seeds: Sequence[object]) -> None:
    """Raise UsageError for a person's seeds where a technique has the run to itself."""
    if seeds and sole_technique(techniques) is not None:
        raise UsageError(
            f"--seed-configuration does not go with {techniques[0]} alone, which tests nothing "
            "but its own proposals; add another --technique"
        )


class Searching:
    """One search an input; every finished measurement is kept at once."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.searched: dict[Input, Searched] = {}

    def check_seeds(self) -> None:
        """Raise UsageError for a person's seed that is legal on no input, or of no use."""
        spec, options = self.state.spec, self.state.options
        check_seeds_used(options.techniques, options.seeds)
        for seed in options.seeds:
            reasons = [s.why_illegal(s.canonical(seed)) for s in map(self.state.space, spec.inputs)]
            if None not in reasons:
                raise UsageError(
                    f"the seed configuration ({seed}) is illegal on every input; "
                    f"on ({spec.inputs[0]}): {reasons[0]}"
                )

    def run(self) -> None:
        """Search all inputs; one whose data cannot be made is left out."""
        before: list[Input] = []
        for number, given in enumerate(self.state.spec.inputs, start=1):
            with self.state.telling(given):
                self._search(number, given, before)
                before.append(given)

    def _search(self, number: int, given: Input, before: Sequence[Input]) -> None:
        state, count = self.state, len(self.state.spec.inputs)
        space, limit = state.space(given), state.options.test_limit
        steps = 0 if state.is_time_up() else space.budget(limit)
        state.display.begin_stage(f"[{number}/{count}] {given}", steps)
        if state.is_empty(given):
            return
        search = InputSearch(
            state.plan(given),
            space,
            state.measurer,
            state.store,
            state.known(given),
            self.note,
            seeds=self.seeds(given, before),
            transfer=self.transfer_data(given, before),
        )
        found = search_input(search, state.options.numbered(number, count))
        state.runs[given], self.searched[given] = found.run_id, found
        if found.ended is EndReason.REFUSED:
            state.display.warn(
                f"({given}) has {found.tests} of {limit} samples: after them "
                f"{MAX_FREE_IN_A_ROW} configurations in a row were refused"
            )

    def seeds(self, given: Input, before: Sequence[Input]) -> list[Config]:
        """Where a search starts: the default, a person's own, and the winner of the input most
        like this one. Others are tried after the search, which learns from them
        (harness.models.transfer_prior).

        A technique that has the run to itself starts where it says."""
        state = self.state
        if state.options.is_self_contained:
            return []
        space = state.space(given)
        winner = first_legal(space, map(state.best, nearest_first(given, before)))
        seeds = [*map(space.canonical, [space.default, *state.options.seeds]), *winner]
        return [config for config in dict.fromkeys(seeds) if space.is_legal(config)]

    def transfer_data(self, given: Input, before: Sequence[Input]) -> TransferData | None:
        """Gather recordings, and the inputs before this one as its run found them."""
        state = self.state
        last = state.store.last_before(state.plan(given))
        known = {other: state.known(other).values() for other in before}
        measured = {o: [s.measurement for s in found if s.id <= last] for o, found in known.items()}
        return state.transfer_sources.data_for(state.space(given), given, measured)

    def note(self, progress: Progress) -> None:
        """A test has ended."""
        self.state.replayed += progress.replayed
        self.state.display.test(progress)
