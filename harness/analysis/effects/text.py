"""Render failures and effects as tables and lines, for harness.analyse and harness.report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from harness.analysis.effects.causes import Cause
from harness.analysis.effects.times import Effect, Effects, SampleCounts
from harness.analysis.failures import group_failures
from harness.core.records import Input
from harness.results import MeasurementRows
from harness.results.ablation import TOLERANCE, Ablation
from harness.results.view import Results

MOST_EFFECTS = 24
"""The most lines of first-order effects, and of pairs."""

FAILURES_HEAD = ("failure", "tests", "share", "configurations", "most frequent reason")
EFFECTS_HEAD = ("parameter", "value", "instead of", "time", "95 % interval", "share of variance")


def failures_rows(results: Results) -> list[tuple[str, ...]]:
    """Return a row per kind of failure under FAILURES_HEAD, the most frequent first."""
    searched, columns = results.searched, results.searched.columns
    failed = searched.where(~searched.of(columns.works))
    kinds = Counter(failed.of(columns.outcomes.codes).tolist())
    rows: list[tuple[str, ...]] = []
    for kind, count in kinds.most_common():
        part = failed.where(failed.of(columns.outcomes.codes) == kind)
        configurations = len(np.unique(part.of(columns.configs.codes)))
        share = f"{count / len(searched):.1%}"
        name = str(columns.outcomes.values[kind])
        rows.append((name, f"{count:,}", share, f"{configurations:,}", _commonest(part)))
    return rows


def _commonest(failed: MeasurementRows) -> str:
    """Return the headline of the most frequent reason."""
    messages = failed.columns.messages
    counts = Counter(failed.of(messages.codes).tolist())
    reasons = group_failures(counts, lambda code: messages.values[code])
    appeared = {code: place for place, code in enumerate(counts)}
    found = sorted(reasons, key=lambda group: appeared[group.members[0]])
    return max(found, key=lambda group: sum(counts[code] for code in group.members)).headline


def causes_lines(found: Sequence[Cause]) -> Iterator[str]:
    """List the causes of failures, one per line."""
    if not found:
        yield "No parameter value, and no pair of values, explains the failures significantly."
        return
    yield "Values that explain failures (significant after correction for all values and pairs):"
    for cause in found:
        yield f"    {cause}"


def effects_rows(found: Effects) -> list[tuple[str, ...]]:
    """Return a row per significant first-order effect under EFFECTS_HEAD, those of the most
    important parameter first; its share of the variance stands in its first row."""
    shown = found.significant[:MOST_EFFECTS]
    before = [None, *(effect.names[0] for effect in shown)]
    return [
        (
            effect.names[0],
            effect.levels[0],
            effect.baselines[0],
            f"{effect.ratio.value:.2f}x",
            f"[{effect.ratio.low:.2f}, {effect.ratio.high:.2f}]",
            "" if effect.names[0] == name else f"{found.shares[effect.names[0]]:.1%}",
        )
        for effect, name in zip(shown, before, strict=False)
    ]


def effects_lines(found: Effects, results: Results) -> Iterator[str]:
    """Say how many samples the effects come from, and which effects are not in the table."""
    if not found.is_enough:
        yield from _too_few(found.counts, results)
        return
    counts = found.counts
    yield (
        f"Effect of each value on the time, from {counts.samples:,} designed or uniform samples of "
        f"{counts.configurations:,} configurations{_shared(counts)}:"
    )
    hidden = len(found.significant) - MOST_EFFECTS
    if hidden > 0:
        yield f"{hidden} smaller significant effects are not shown."
    significant = {effect.names[0] for effect in found.significant}
    others = {effect.names[0] for effect in found.first} - significant
    if others:
        names = ", ".join(name for name in found.shares if name in others)
        yield f"No significant effect: {names}."
    if found.undetermined:
        yield f"These samples cannot determine the effects of {', '.join(found.undetermined)}."


def pairs_lines(pairs: Sequence[Effect]) -> Iterator[str]:
    """List the effects of pairs of values, one per line."""
    if pairs:
        yield "Effect of two values together, beyond their separate effects:"
    for effect in pairs[:MOST_EFFECTS]:
        yield f"    {effect} of the time"


def _shared(counts: SampleCounts) -> str:
    return shared_samples(counts.samples, counts.measurements)


def shared_samples(samples: int, measurements: int) -> str:
    """Say in brackets how many samples were measured; empty if all were."""
    shared = samples - measurements
    if not shared:
        return ""
    return f" ({measurements:,} measured; {shared:,} have the machine code of one of these)"


def _too_few(counts: SampleCounts, results: Results) -> Iterator[str]:
    """Say how many samples are missing, and with which command to get them."""
    if results.is_exhausted:
        yield (
            f"Too few samples for the effect of each value on the time: all legal configurations "
            f"were measured, and {counts.samples:,} samples worked{_shared(counts)}. That makes "
            f"{counts.independent:,} independent samples; {counts.needed:,} are needed."
        )
        return
    words = ["--technique", "Designed", "--test-limit", str(counts.to_request)]
    database = results.databases[0] if len(results.databases) == 1 else None
    yield (
        f"Too few samples for the effect of each value on the time: {counts.configurations:,} "
        f"configurations were designed or drawn uniformly{_shared(counts)}. Samples that a search "
        "chose are biased and do not count."
    )
    tuned = results.tuned_space
    where = f" {tuned.place}" if tuned.place else ""
    yield f"To get {counts.needed:,} samples{_despite_failures(counts)}, run{where}:"
    yield f"    {tuned.tune_again(*words, database=database)}"


def _despite_failures(counts: SampleCounts) -> str:
    if counts.to_request == counts.needed:
        return ""
    rate = "if as many fail or share their machine code as so far"
    return f" from {counts.to_request:,} configurations ({rate})"


def ablation_lines(found: Mapping[Input, Ablation]) -> Iterator[str]:
    """Yield the flags that each winner needs, then the winners where noise hides which, with
    advice."""
    parts = {
        True: "Flags that the winners need (without the others, which they set too, the time is "
        f"at most {TOLERANCE:.0%} longer, within noise):",
        False: "Flags that noise leaves open. To decide, close other programs or use more "
        "--repeats:",
    }
    for is_decided, heading in parts.items():
        lines = [f"    {p}: {one}" for p, one in found.items() if one.is_decided is is_decided]
        yield from [heading, *lines] if lines else []
