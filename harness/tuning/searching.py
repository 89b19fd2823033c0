"""The searches of a campaign: one input after another, each learning from those before it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

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
    """Raise UsageError for seeds of the user where one technique has the run to itself."""
    if seeds and sole_technique(techniques) is not None:
        raise UsageError(
            f"--seed-configuration does not go with {techniques[0]} alone, which tests only its "
            "own proposals; add another --technique"
        )


class Searching:
    """Searches the inputs one after another; each measurement is stored when it ends."""

    def __init__(self, state: State, note: Callable[[Progress], None]) -> None:
        """`note` takes in each test that has ended."""
        self.state = state
        self._note = note
        self.searched: dict[Input, Searched] = {}

    def check_seeds(self) -> None:
        """Raise UsageError for a seed of the user that is illegal on every input, or unused."""
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
        """Search all inputs; leave out one whose data cannot be made."""
        before: list[Input] = []
        for number, problem in enumerate(self.state.spec.inputs, start=1):
            with self.state.leaving_out(problem):
                self._search(number, problem, before)
                before.append(problem)

    def _search(self, number: int, problem: Input, before: Sequence[Input]) -> None:
        state, count = self.state, len(self.state.spec.inputs)
        space, limit = state.space(problem), state.options.test_limit
        steps = 0 if state.is_time_up() else space.budget(limit)
        state.display.begin_stage(f"[{number}/{count}] {problem}", steps)
        if state.is_empty(problem):
            return
        search = InputSearch(
            state.run_plan(problem),
            space,
            state.measurer,
            state.store,
            state.known(problem),
            self._note,
            seeds=self.seeds(problem, before),
            transfer=self.transfer_data(problem, before),
        )
        found = search_input(search, state.options.numbered(number, count))
        state.runs[problem], self.searched[problem] = found.run_id, found
        if found.ended is EndReason.REFUSED:
            state.display.warn(
                f"({problem}) has {found.tests} of {limit} samples: after them compiler or device "
                f"refused {MAX_FREE_IN_A_ROW} configurations in a row"
            )

    def seeds(self, problem: Input, before: Sequence[Input]) -> list[Config]:
        """Return the configurations that a search starts from: the default, the user's own, and
        the winner of the most similar input before.

        Other winners are tried after the search, which learns from them as a prior
        (harness.models.transfer_prior). A self-contained technique starts by itself.
        """
        state = self.state
        if state.options.is_self_contained:
            return []
        space = state.space(problem)
        winner = first_legal(space, map(state.best, nearest_first(problem, before)))
        seeds = [*map(space.canonical, [space.default, *state.options.seeds]), *winner]
        return [config for config in dict.fromkeys(seeds) if space.is_legal(config)]

    def transfer_data(self, problem: Input, before: Sequence[Input]) -> TransferData | None:
        """Gather recordings, and the inputs before this one as its run found them."""
        state = self.state
        last = state.store.last_before(state.run_plan(problem))
        known = {other: state.known(other).values() for other in before}
        measured = {o: [s.measurement for s in found if s.id <= last] for o, found in known.items()}
        return state.transfer_sources.data_for(state.space(problem), problem, measured)
