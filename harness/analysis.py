"""The first cross-input result: which configuration for which input, and what that is worth."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from harness.records import Config, Input
from harness.tree import FEWEST_INPUTS, Judgement, describe, grow, leave_one_out, make_matrix

Times = Mapping[Input, Mapping[Config, float]]


def cross_input_report(times: Times, default: Config) -> Iterator[str]:
    """The tree and its leave-one-out slowdown, as lines; or why there is none."""
    matrix = make_matrix(times)
    if len(matrix.inputs) < FEWEST_INPUTS:
        yield (
            f"No tree over inputs: it needs {FEWEST_INPUTS} inputs with results, and there are "
            f"{len(matrix.inputs)}. Add inputs to the space."
        )
        return
    if len(matrix.candidates) == 1:
        yield f"One configuration is best on every input: {matrix.candidates[0]}"
        return
    yield "Which configuration for which input (regression tree on the inputs' features):"
    yield from (f"    {line}" for line in describe(grow(matrix)))
    yield ""
    yield "Slowdown against the best known configuration of each input (1.00 is perfect):"
    default_s = [times[given].get(default, math.inf) for given in matrix.inputs]
    judged = leave_one_out(matrix, default_s)
    yield f"    {'':<38}{'mean':>8}{'worst':>8}"
    yield from (f"    {j.name:<38}{_told(j.mean):>8}{_told(j.worst):>8}" for j in judged)
    yield verdict(judged[0], judged[1])


def _told(slowdown: float) -> str:
    return f"{slowdown:.2f}" if math.isfinite(slowdown) else "failed"


def verdict(tree: Judgement, single: Judgement) -> str:
    """Whether choosing by input is worth it, in a sentence."""
    if tree.mean < single.mean:
        gain = single.mean / tree.mean - 1
        return f"Choosing by input beats one configuration for all by {gain:.1%} on unseen inputs."
    return "Choosing by input does not beat one configuration for all here; use that one."
