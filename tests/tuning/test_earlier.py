"""A search learns from the inputs before it at a cost that does not grow with their number."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from harness.core.records import Config, Input
from harness.tuning import searching
from harness.tuning.earlier import EarlierInputs
from harness.tuning.plan import Stages
from harness.tuning.searching import Searching
from tests.helpers.replays import SPACE, FormulaMeasurer, make_spec, opened

INPUTS = 7


def after(count: int, most: int) -> list[int]:
    earlier = EarlierInputs(most)
    for number in range(count):
        earlier.add(Input({"n": number}))
    return [int(str(problem["n"])) for problem in earlier.to_learn_from()]


@pytest.mark.parametrize("count", [0, 1, 7, 8])
def test_of_few_inputs_all_are_kept_in_their_order(count: int) -> None:
    assert after(count, most=8) == list(range(count))


@pytest.mark.parametrize("count", [9, 64, 65, 1000, 4097])
def test_of_many_the_last_are_kept_and_others_evenly_spread_over_the_rest(count: int) -> None:
    kept = after(count, most=8)
    spread, last = kept[:-8], kept[-8:]
    assert last == list(range(count - 8, count))
    assert len(spread) <= 8
    assert spread[0] == 0
    steps = {later - one for one, later in itertools.pairwise(spread)}
    assert len(steps) <= 1
    assert count - 8 - spread[-1] <= max(steps, default=1)
    assert len(spread) >= min(3, count - 8)


def test_a_search_looks_at_no_more_inputs_than_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The inputs from which each search may take its start, and those whose data it reads."""
    seen: list[int] = []
    seeds = Searching.seeds

    def noted(self: Searching, problem: Input, before: Sequence[Input]) -> list[Config]:
        seen.append(len(before))
        return seeds(self, problem, before)

    monkeypatch.setattr(Searching, "seeds", noted)
    monkeypatch.setattr(searching, "EarlierInputs", partial(EarlierInputs, 2))
    values = ", ".join(f"{{m: 64, n: {64 + number}}}" for number in range(INPUTS))
    text = SPACE.replace("{m: 64, n: 4096}, {m: 4096, n: 64}", values)
    stages = Stages(cross=False, ablate=False)
    measurer = FormulaMeasurer()
    spec = make_spec(tmp_path, text)
    with opened(spec, tmp_path / "r.db", measurer, test_limit=1, stages=stages) as (campaign, _):
        campaign.run()
    assert len(seen) == INPUTS
    assert seen[:3] == [0, 1, 2]
    assert max(seen) <= 4
