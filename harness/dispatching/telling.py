"""The verdict on choosing by input, as a person sees it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from rich import box
from rich.table import Table

from harness.dispatching.learnt import Learnt, leaf_count
from harness.dispatching.study import Study
from harness.dispatching.verdict import Judged, Told

TITLE = "Slowdown against the best known configuration, on inputs that were held out"


def verdict_table(study: Study, learnt: Mapping[str, Learnt] = MappingProxyType({})) -> Table:
    """A row a way to choose; of what was learnt from all inputs, how many leaves it has."""
    table = Table(title=TITLE, title_justify="left", box=box.HORIZONTALS, show_edge=False)
    table.add_column("choice")
    for name in ("geometric mean", "99th percentile", "worst", "within 5 %", "leaves"):
        table.add_column(name, justify="right")
    for judged in study.judged.values():
        known = learnt.get(judged.name)
        table.add_row(*_cells(judged), f"{leaf_count(known.choice):,}" if known else "")
    return table


def _cells(judged: Judged) -> list[str]:
    failed = f" ({judged.failures} failed)" if judged.failures else ""
    return [
        judged.name,
        _told(judged.mean),
        _told(judged.percentile_99),
        f"{judged.worst:.2f}{failed}",
        f"{judged.near:.0%}",
    ]


def _told(told: Told) -> str:
    return f"{told.value:.3f} [{told.low:.3f}, {told.high:.3f}]"


def verdict_lines(study: Study) -> list[str]:
    """The table as plain lines, for the comment of generated code."""
    lines = [f"{TITLE} (95 % interval):"]
    for judged in study.judged.values():
        name, mean, tail, worst, _ = _cells(judged)
        lines.append(f"    {name:<24} mean {mean}, 99th percentile {tail}, worst {worst}")
    return lines
