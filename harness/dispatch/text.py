"""Text of what was learnt across inputs: the rules, the verdict's table, and why nothing was."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from rich import box
from rich.table import Table

from harness.core.records import Config
from harness.dispatch.learnt import LearntSelector
from harness.dispatch.matrix import Matrix
from harness.dispatch.most import PORTFOLIOS_HEAD, PORTFOLIOS_TITLE, portfolio_rows
from harness.dispatch.study import TREE, Study, sentence
from harness.dispatch.tree_text import tree_lines
from harness.dispatch.verdict import Slowdowns
from harness.models.folds import ENOUGH_INPUTS, FEWEST_INPUTS

TITLE = "Slowdown against the best known configuration, on held-out inputs"


def why_nothing(matrix: Matrix) -> str | None:
    """Say why no choice by input can be learnt; None if one may be."""
    count, left = len(matrix.features), len(matrix.comparable().features)
    if not count:
        return "No configuration worked on any input: there is nothing to choose from."
    if count < FEWEST_INPUTS:
        return (
            f"A choice by input can be learnt from {FEWEST_INPUTS} inputs, and judged with some "
            f"{ENOUGH_INPUTS}; there {'is' if count == 1 else 'are'} {count}."
        )
    if left < FEWEST_INPUTS:
        return (
            f"No choice by input is learnt: that needs {FEWEST_INPUTS} inputs on which the same "
            f"configurations were measured, and there are {left}. Let the run finish."
        )
    return None


def learnt_across(found: Study) -> Iterator[str | Table]:
    """Render the rules by input, the verdict's table, and the sentence that sums it up; where there
    is nothing to choose, only the sentence."""
    if found.has_choice:
        learnt = {name: found.learnt(name) for name in found.dispatchers}
        yield from rule_lines(found)
        yield ""
        yield verdict_table(found, learnt)
        yield ""
        yield portfolio_table(found)
        yield ""
    yield sentence(found, found.best)


def rule_lines(found: Study) -> Iterator[str]:
    """Yield which configuration to use for which input, as lines of a tree."""
    name, heading = shown_tree(found)
    program = found.learnt(name).program(found.matrix.candidates)
    yield f"{heading}:"
    yield from (f"    {line}" for line in tree_lines(program, _default(found.matrix), found.matrix))


def shown_tree(found: Study) -> tuple[str, str]:
    """Choose the dispatcher to show as a tree, the one to ship if it is a tree, and its heading."""
    heading = "Which configuration for which input"
    if found.learnt(found.best).choice.tree is not None:
        return found.best, heading
    return TREE, (
        f"{heading}, by the {TREE}, which is easier to read than the {found.best} that "
        "harness.dispatch writes"
    )


def _default(matrix: Matrix) -> Config:
    """Return the default; an empty configuration, from which all others differ, if unknown."""
    return Config({}) if matrix.default is None else matrix.candidates[matrix.default]


def title_of(study: Study) -> str:
    """Return the title of the verdict."""
    return TITLE if study.matrix.weights is None else f"{TITLE}, weighted by calls"


def verdict_table(
    study: Study, learnt: Mapping[str, LearntSelector] = MappingProxyType({})
) -> Table:
    """Make the table with a row for each way to choose; for what was learnt from all inputs also
    its leaves."""
    table = _table(title_of(study))
    if study.notes:
        table.caption, table.caption_justify = "\n".join(study.notes), "left"
    table.add_column("choice")
    for name in ("geometric mean", "99th percentile", "worst", "within 5 %", "leaves"):
        table.add_column(name, justify="right")
    for judged in study.slowdowns.values():
        known = learnt.get(judged.name)
        table.add_row(*_cells(judged), *([f"{known.choice.leaf_count:,}"] if known else ()))
    return table


def _cells(judged: Slowdowns) -> list[str]:
    failed = f" ({judged.failures} failed)" if judged.failures else ""
    return [
        judged.name,
        judged.mean.text(".3f"),
        f"{judged.percentile_99:.3f}",
        f"{judged.worst:.2f}{failed}",
        f"{judged.near:.0%}",
    ]


def portfolio_table(found: Study) -> Table:
    """Make the table of what few configurations reach."""
    table = _table(PORTFOLIOS_TITLE)
    for name in PORTFOLIOS_HEAD:
        table.add_column(name)
    for row in portfolio_rows(found.portfolios, _default(found.matrix)):
        table.add_row(*row)
    return table


def _table(title: str) -> Table:
    return Table(title=title, title_justify="left", box=box.HORIZONTALS, show_edge=False)


def verdict_lines(study: Study) -> list[str]:
    """Render the table as plain lines, for the comment of generated code."""
    lines = [f"{title_of(study)} (95 % interval; p99: 99th percentile):"]
    for judged in study.slowdowns.values():
        name, mean, tail, worst, _ = _cells(judged)
        lines.append(f"    {name:<25} mean {mean}, p99 {tail}, worst {worst}")
    return [*lines, *study.notes]
