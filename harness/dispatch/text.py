"""Text of what was learnt across inputs: the rules, the verdict's table, and why nothing was."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

import numpy as np
from rich import box
from rich.table import Table

from harness.core.arrays import Flags
from harness.core.config_diff import difference
from harness.core.records import Config
from harness.dispatch.learnt import LearntSelector, leaf_count
from harness.dispatch.matrix import Matrix
from harness.dispatch.program import TreeChoice
from harness.dispatch.study import TREE, Study, sentence
from harness.dispatch.tree_text import tree_lines
from harness.dispatch.verdict import Judged
from harness.models.folds import FEWEST_INPUTS

_RATHER_SLOWER = 1.05  # a slowdown that a note names
TITLE = "Slowdown against the best known configuration, on held-out inputs"


def why_nothing(matrix: Matrix) -> str | None:
    """Say why nothing can be learnt across inputs; None if something may be."""
    count, left = len(matrix.features), len(matrix.judgeable().features)
    if not count:
        return "No configuration worked on any input: there is nothing to choose from."
    if count < FEWEST_INPUTS:
        return (
            f"Nothing is learnt across inputs: that needs {FEWEST_INPUTS} inputs with results, and "
            f"there are {count}. Add inputs to the space, or give the run more time."
        )
    if left < FEWEST_INPUTS:
        return (
            f"Nothing is learnt across inputs: that needs {FEWEST_INPUTS} inputs on which the same "
            f"configurations were measured, and there are {left}. Let the run finish."
        )
    measured = matrix.judgeable().applies.any(axis=0)
    if measured.sum() == 1 and len(matrix.candidates) > 1:
        lone = difference(matrix.candidates[int(measured.argmax())], _default(matrix))
        return (
            f"Nothing is learnt across inputs: only one configuration was measured on all of them, "
            f"{lone}. {matrix.remedy}".rstrip()
        )
    best = best_everywhere(matrix)
    if best is not None:
        name = difference(matrix.candidates[best], _default(matrix))
        return f"One configuration is the best on every input, or within noise of it: {name}"
    return None


def best_everywhere(matrix: Matrix) -> int | None:
    """Find the candidate that no other beats on any input beyond noise; of several, the default,
    else the one with the least geometric mean of the measured slowdowns."""
    is_best: Flags = (matrix.time_s <= matrix.best_s[:, None]) | matrix.tied
    best = np.flatnonzero(is_best.all(axis=0))
    if not len(best) or matrix.default in best:
        return matrix.default if len(best) else None
    return int(best[matrix.measured_log[:, best].mean(axis=0).argmin()])


def learnt_across(found: Study) -> Iterator[str | Table]:
    """Render the rules by input, the verdict's table, and the sentence that sums it up."""
    learnt = {name: found.learnt(name) for name in found.dispatchers}
    name, heading = shown_tree(found)
    program = found.learnt(name).program(found.matrix.candidates)
    lines = list(tree_lines(program, _default(found.matrix), found.matrix))
    if not any(line.startswith("if ") for line in lines):
        yield f"No rule by input was found. The best single configuration: {lines[0]}"
        yield from _slowest(found.matrix, found.learnt(name))
    else:
        yield f"{heading}:"
        yield from (f"    {line}" for line in lines)
    yield ""
    yield verdict_table(found, learnt)
    yield ""
    yield sentence(found, found.best)


def shown_tree(found: Study) -> tuple[str, str]:
    """Choose the dispatcher to show as a tree, the one to ship if it is a tree, and its heading."""
    heading = "Which configuration for which input"
    if isinstance(found.learnt(found.best).choice, TreeChoice):
        return found.best, heading
    return TREE, (
        f"{heading}, by the {TREE}, which is easier to read than the {found.best} that "
        "harness.dispatch writes"
    )


def _slowest(matrix: Matrix, learnt: LearntSelector) -> Iterator[str]:
    """Name the input on which the one configuration for all loses most."""
    indices = learnt.indices(matrix.features, matrix.applies)
    slowdown = np.where(indices < 0, 1.0, matrix.slowdown[np.arange(len(indices)), indices])
    row = int(slowdown.argmax())
    if _RATHER_SLOWER < slowdown[row] < np.inf:
        features = ", ".join(f"{name}={value}" for name, value in matrix.features.iloc[row].items())
        yield (
            f"On {features} the best known configuration is {slowdown[row]:.2f}x as fast. More "
            "inputs like it may show when to use that."
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
    its leaves, and the splits that a choice passes."""
    table = Table(title=title_of(study), title_justify="left", box=box.HORIZONTALS, show_edge=False)
    if study.notes:
        table.caption, table.caption_justify = "\n".join(study.notes), "left"
    table.add_column("choice")
    for name in ("geometric mean", "99th percentile", "worst", "within 5 %", "leaves", "splits"):
        table.add_column(name, justify="right")
    for judged in study.judged.values():
        known = learnt.get(judged.name)
        table.add_row(*_cells(judged), *(_costs(study, known) if known else ()))
    return table


def _costs(study: Study, known: LearntSelector) -> tuple[str, str]:
    splits = known.splits_passed(study.matrix.features)
    return f"{leaf_count(known.choice):,}", f"{splits:,.1f}"


def _cells(judged: Judged) -> list[str]:
    failed = f" ({judged.failures} failed)" if judged.failures else ""
    return [
        judged.name,
        judged.mean.text(".3f"),
        judged.percentile_99.text(".3f"),
        f"{judged.worst:.2f}{failed}",
        f"{judged.near:.0%}",
    ]


def verdict_lines(study: Study) -> list[str]:
    """Render the table as plain lines, for the comment of generated code."""
    lines = [f"{title_of(study)} (95 % interval; p99: 99th percentile):"]
    for judged in study.judged.values():
        name, mean, tail, worst, _ = _cells(judged)
        lines.append(f"    {name:<24} mean {mean}, p99 {tail}, worst {worst}")
    return [*lines, *study.notes]
