"""A comparison as the document that --json prints."""

from __future__ import annotations

from harness.api.documents import ComparedDocument, ComparedMeasurementDocument, CompareDocument
from harness.compare.comparison import ComparedRow, Comparison
from harness.compare.table import summary
from harness.core.records import Measurement


def comparison_document(comparison: Comparison, status: int) -> CompareDocument:
    """Describe a comparison and the exit code of its command."""
    least_certain = comparison.least_certain
    return CompareDocument(
        status=status,
        level=comparison.rules.level,
        threshold=comparison.rules.threshold,
        tested=comparison.tested,
        upper_limit=least_certain[1] if least_certain else None,
        summary=summary(comparison),
        counts=dict(comparison.counts),
        notes=list(comparison.notes),
        comparisons=list(map(_row, comparison.rows)),
    )


def _row(row: ComparedRow) -> ComparedDocument:
    change = row.change
    return ComparedDocument(
        kernel=row.kernel,
        device=row.environment.device,
        cache=row.environment.cache,
        input=dict(row.problem),
        of=row.subject,
        verdict=row.verdict.value,
        base=_measured(row.base),
        candidate=_measured(row.candidate),
        ratio=change.ratio.value if change else None,
        low=change.ratio.low if change else None,
        high=change.ratio.high if change else None,
        p_value=change.p_value if change else None,
        upper_limit=row.upper_limit,
        notes=list(row.notes),
    )


def _measured(measurement: Measurement | None) -> ComparedMeasurementDocument | None:
    if measurement is None or measurement.timing is None:
        return None
    timing = measurement.timing
    return ComparedMeasurementDocument(
        configuration=dict(measurement.config),
        median_s=timing.median_s,
        time_s=timing.time_s,
        statistic=timing.statistic.value,
        samples=timing.count,
    )
