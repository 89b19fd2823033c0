"""The searches of a campaign: one input after another, each learning from those before it.

Several devices search as many inputs at once. A search then learns also from those that are still
under way, as far as they were when it began: so it goes on in the same way after an interruption.

Under a time limit the inputs share the time breadth first. Every input gets its default, then a few
tests, then the best few of the others; only then do all inputs get more tests, twice as many in
each round. A round continues each input's run, whose earlier tests the database answers.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Callable, Sequence

from harness.core.errors import UsageError
from harness.core.records import Config, Input
from harness.models.encoding.inputs import nearest_first
from harness.models.transfer_prior import TransferData
from harness.results import DEFAULTS
from harness.search import (
    MAX_FREE_IN_A_ROW,
    EndReason,
    InputSearch,
    Progress,
    Searched,
    SearchOptions,
    find_ended,
    search_input,
    sole_technique,
)
from harness.search.transfer.sources import first_legal
from harness.tuning.crossing import measure_on_all
from harness.tuning.earlier import EarlierInputs
from harness.tuning.state import State

_FIRST_ROUND = 4  # tests
_FEW = 3  # configurations


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
        self._noted: Counter[Input] = Counter()  # tests of each input that were passed to `note`
        self._found_up_to: dict[Input, int] = {}  # the last measurement before each run began

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
        options = self.state.options
        if options.stop_at is not None and len(self.state.spec.inputs) > 1:
            self._share_time()
        self._round(options.test_limit)

    def _share_time(self) -> None:
        """Search all inputs in rounds of more and more tests, until the time is up or one round
        is left."""
        options = self.state.options
        limit = max(_FIRST_ROUND, options.parallelism)
        if not options.is_self_contained:
            self._measure_defaults()
        while limit < options.test_limit and not self.state.is_time_up():
            self._round(limit)
            measure_on_all(self.state, self._best_few(), "best few on the other inputs")
            limit *= 2

    def _measure_defaults(self) -> None:
        """Measure the default of each input, in a run of its own: a search begins later, when it
        can learn from other inputs."""
        state, options = self.state, dataclasses.replace(self.state.options, test_limit=1)
        rest = len(state.spec.inputs) * state.options.test_limit

        def measure(problem: Input, _: object) -> None:
            space, plan = state.space(problem), state.run_plan(problem)
            if not space.is_legal(space.canonical(space.default)):
                return
            state.display.begin_stage(f"default on {problem}", 1, state.ahead(rest))
            plan = dataclasses.replace(plan, technique=DEFAULTS)
            search = InputSearch(
                plan,
                space,
                state.measurer,
                state.store,
                state.known(problem),
                self._noting(problem),
                seeds=[space.canonical(space.default)],
            )
            with state.leaving_out(problem):
                state.runs[problem] = search_input(search, options).run_id

        state.each([(problem, None) for problem in state.spec.inputs], measure, state.is_time_up)

    def _best_few(self) -> list[Config]:
        """Return the configurations that are the best on most inputs."""
        best = Counter(m.config for m in map(self.state.best, self.state.spec.inputs) if m)
        return [config for config, _ in best.most_common(_FEW)]

    def _round(self, limit: int) -> None:
        """Continue the search of each input up to this many tests."""
        earlier, left_out = EarlierInputs(), self.state.left_out
        before: dict[Input, list[Input]] = {}  # of those that are under way

        def search(problem: Input, number: int) -> None:
            if problem in left_out:
                return
            if problem not in before:  # else its device failed, and it begins again
                before[problem] = earlier.to_learn_from()
                earlier.add(problem)
            others = [other for other in before[problem] if other not in left_out]
            with self.state.leaving_out(problem):
                self._search(number, problem, others, limit)
            del before[problem]

        numbered = enumerate(self.state.spec.inputs, start=1)
        self.state.each([(problem, number) for number, problem in numbered], search)

    def _search(self, number: int, problem: Input, before: Sequence[Input], limit: int) -> None:
        state, count = self.state, len(self.state.spec.inputs)
        space, earlier = state.space(problem), self.searched.get(problem)
        is_time_up = state.is_time_up()
        whole = space.budget(state.options.test_limit)
        if earlier is not None and (
            is_time_up or earlier.ended is not EndReason.LIMIT or earlier.tests >= whole
        ):
            if earlier.ended is EndReason.LIMIT and earlier.tests < whole:
                self.searched[problem] = dataclasses.replace(earlier, ended=EndReason.TIME)
            return
        search = InputSearch(
            state.run_plan(problem),
            space,
            state.measurer,
            state.store,
            state.known(problem),
            self._noting(problem),
        )
        options = dataclasses.replace(state.options, test_limit=limit)
        ended = None if earlier else find_ended(search, options)
        done = earlier.tests if earlier else 0
        steps = 0 if is_time_up or ended else space.budget(limit) - done
        rest = (count - number) * (whole - done) + (number - 1) * (whole - space.budget(limit))
        stored = 0 if earlier else min(steps, len(state.known(problem)))
        state.display.begin_stage(f"[{number}/{count}] {problem}", steps, state.ahead(rest), stored)
        if state.is_empty(problem):
            return
        found = (
            ended.report(search, options)
            if ended
            else self._continue(search, before, options.numbered(number, count))
        )
        state.runs[problem], self.searched[problem] = found.run_id, found
        if found.ended is EndReason.REFUSED:
            state.display.warn(
                f"({problem}) has {found.tests} of {limit} samples: after them compiler or device "
                f"refused {MAX_FREE_IN_A_ROW} configurations in a row"
            )

    def _continue(
        self, search: InputSearch, before: Sequence[Input], options: SearchOptions
    ) -> Searched:
        """Search with what is learnt from the inputs before this one."""
        problem = search.plan.problem
        prepared = dataclasses.replace(
            search,
            seeds=self.seeds(problem, before),
            transfer=self.transfer_data(problem, before),
            notes=self.state.stored_sources.notes(search.plan),
        )
        return search_input(prepared, options)

    def _noting(self, problem: Input) -> Callable[[Progress], None]:
        """Return a function that passes on the tests which no earlier round has passed on."""
        earlier, seen = self._noted[problem], itertools.count(1)

        def note(progress: Progress) -> None:
            if next(seen) > earlier:
                self._noted[problem] += 1
                self._note(progress)

        return note

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
        """Gather recordings, and other devices' results and the inputs before this one as its run
        found them."""
        state = self.state
        plan, space = state.run_plan(problem), state.space(problem)
        if problem not in self._found_up_to:  # in later rounds this would read far back
            self._found_up_to[problem] = state.store.last_before(plan)
        last = self._found_up_to[problem]
        known = {other: state.known(other).values() for other in before}
        measured = {o: [s.measurement for s in found if s.id <= last] for o, found in known.items()}
        stored = state.stored_sources.tasks(plan, space)
        return state.transfer_sources.data_for(space, problem, measured, stored)
