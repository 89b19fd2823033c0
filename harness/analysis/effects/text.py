"""Render failures and ablations as tables and lines, for harness.analyse and harness.report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from harness.analysis.effects.causes import Cause
from harness.analysis.failures import group_failures
from harness.core.records import Input
from harness.results import MeasurementRows
from harness.results.ablation import TOLERANCE, Ablation
from harness.results.view import Results

FAILURES_HEAD = ("failure", "tests", "share", "configurations", "most frequent reason")


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


def shared_samples(samples: int, measurements: int) -> str:
    """Say in brackets how many samples were measured; empty if all were."""
    shared = samples - measurements
    if not shared:
        return ""
    return f" ({measurements:,} measured; {shared:,} have the machine code of one of these)"


def ablation_lines(found: Mapping[Input, Ablation]) -> Iterator[str]:
    """Yield the flags that each winner needs, then the winners where noise hides which, with
    advice."""
    parts = {
        True: "Flags that the winners need (the others were dropped: without them the time is at "
        f"most {TOLERANCE:.0%} longer, within noise):",
        False: "Flags that noise leaves open. To decide, close other programs or use more "
        "--repeats:",
    }
    for is_decided, heading in parts.items():
        lines = [f"    {p}: {one}" for p, one in found.items() if one.is_decided is is_decided]
        yield from [heading, *lines] if lines else []
