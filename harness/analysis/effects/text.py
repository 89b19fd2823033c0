"""Failures and effects as people read them, for harness.analyse and harness.report."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness.analysis.effects.causes import Cause
from harness.analysis.effects.times import Effect, Effects
from harness.analysis.effects.trials import Trials
from harness.analysis.failures import group_failures
from harness.core.records import Input, Outcome
from harness.results import shown_place
from harness.results.ablation import TOLERANCE, Ablation

if TYPE_CHECKING:  # harness.results.view tells reductions, which are of this package
    from harness.results.view import Results

MOST_EFFECTS = 24
"""Lines of first-order effects, and of pairs, each."""

FAILURES_HEAD = ("failure", "tests", "of all", "configurations", "commonest reason, an example")
EFFECTS_HEAD = ("parameter", "set to", "instead of", "time", "95 % interval", "of the variance")


def failures_rows(found: Trials) -> list[tuple[str, ...]]:
    """A row a kind of failure under FAILURES_HEAD, the commonest first."""
    ends = found.ends
    failed = ends[ends["outcome"] != Outcome.OK.value]
    rows: list[tuple[str, ...]] = []
    for kind, count in failed["outcome"].value_counts().items():
        part = failed[failed["outcome"] == kind]
        commonest = group_failures(part["message"], str)[0].headline
        distinct = part["configuration"].nunique()
        share = f"{count / len(ends):.1%}"
        rows.append((str(kind), f"{count:,}", share, f"{distinct:,}", commonest))
    return rows


def causes_lines(found: Sequence[Cause], failed: bool) -> Iterator[str]:
    """What explains failures, a line a cause; nothing where nothing failed."""
    if not failed:
        return
    if not found:
        yield "No value and no pair of values explains the failures beyond chance."
        return
    yield "What explains them, beyond chance after correction for all values and pairs looked at:"
    for cause in found:
        yield f"    {cause}"


def effects_rows(found: Effects) -> list[tuple[str, ...]]:
    """A row a clear first-order effect under EFFECTS_HEAD, the most important parameter first."""
    clear = [effect for effect in found.first if effect.is_significant]
    return [
        (
            effect.names[0],
            effect.levels[0],
            effect.baselines[0],
            f"{effect.ratio.value:.2f}x",
            f"[{effect.ratio.low:.2f}, {effect.ratio.high:.2f}]",
            f"{found.shares[effect.names[0]]:.1%}",
        )
        for effect in clear[:MOST_EFFECTS]
    ]


def effects_lines(found: Effects, results: Results) -> Iterator[str]:
    """What effects rest on, and what is not told."""
    if not found.is_enough:
        yield from _too_few(found, results)
        return
    yield (
        f"What each value does to the time, from {found.samples:,} designed or uniform samples of "
        f"{found.configurations:,} configurations{_shared(found)}: a linear model of its logarithm."
    )
    parameters = {effect.names[0] for effect in found.first}
    clear = {effect.names[0] for effect in found.first if effect.is_significant}
    hidden = sum(effect.is_significant for effect in found.first) - MOST_EFFECTS
    if hidden > 0:
        yield f"{hidden} smaller clear effects are not shown."
    if parameters - clear:
        yield (
            "No effect beyond chance and half a percent: "
            f"{', '.join(name for name in found.shares if name in parameters - clear)}."
        )
    if found.undetermined:
        yield f"Not told apart from others by these samples: {', '.join(found.undetermined)}."


def pairs_lines(pairs: Sequence[Effect]) -> Iterator[str]:
    """What two values do together beyond what each does alone."""
    if pairs:
        yield "What two values do together, beyond what both do alone:"
    for effect in pairs[:MOST_EFFECTS]:
        yield f"    {effect} of the time"


def _shared(found: Effects) -> str:
    """How many of the samples are those of another configuration."""
    shared = found.samples - found.measurements
    if not shared:
        return ""
    return f" ({found.measurements:,} measured; {shared:,} share the machine code of one of these)"


def _too_few(found: Effects, results: Results) -> Iterator[str]:
    if results.is_exhausted:
        yield (
            "What each value does to the time is not told: every legal configuration was measured, "
            f"and {found.samples:,} samples that worked{_shared(found)} are too few for it: "
            f"they are {found.independent:,} independent ones, and {found.fewest:,} are needed."
        )
        return
    usual = f"spaces/{results.campaign.space_name}.yaml"
    command = ["python", "-m", "harness.tune", usual if Path(usual).is_file() else "SPACE.yaml"]
    command += ["--technique", "Designed", "--test-limit", str(found.asked)]
    if len(results.places) == 1:
        command += ["--database", shown_place(results.places[0])]
    yield (
        f"What each value does to the time is not told: there are {found.configurations:,} "
        f"configurations that a design or uniform draws asked for{_shared(found)}, and a search's "
        f"samples are biased. For {found.fewest:,} samples, which are enough{_of_so_many(found)}:"
    )
    yield f"    {shlex.join(command)}"


def _of_so_many(found: Effects) -> str:
    if found.asked == found.fewest:
        return ""
    return f", out of {found.asked:,} where as many fail or share their machine code as here"


def ablation_lines(found: Mapping[Input, Ablation]) -> Iterator[str]:
    """Yield the flags that each winner needs, and advice where noise leaves them undecided."""
    yield (
        "Flags that the winners need (the others were dropped: without them the time is at most "
        f"{TOLERANCE:.0%} longer, within noise):"
    )
    yield from (f"    {given}: {ablation}" for given, ablation in found.items())
    if any(ablation.undecided for ablation in found.values()):
        yield "    Where undecided, close other programs or use more --repeats."
