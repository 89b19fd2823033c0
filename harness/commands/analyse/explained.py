"""What explains the times, as harness.analyse prints it."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness.analysis.effects import Trials, causes, effects_on_time, trials
from harness.analysis.effects import text as effects_text
from harness.analysis.explain import (
    SLOWDOWN,
    Explanation,
    Samples,
    explain,
    grown,
    pooled,
    samples,
)
from harness.commands.run import format_error
from harness.core.errors import UsageError
from harness.dispatch.candidates import matrix_of
from harness.dispatch.published import gadapt_judgement
from harness.display.text import print_line, print_lines
from harness.models.starchart import (
    Accuracy,
    Tree,
    TreeTarget,
    count_below,
    describe,
    draw,
    importance,
    rows_inside,
    settings_below,
    usable,
)
from harness.models.starchart.axes import numbers
from harness.results.view import Results

if TYPE_CHECKING:
    import pandas as pd


_MOST_LEFT_OUT = 64  # inputs that are left out one by one; of more, several at a time
_PARTS = 10
_MOST_SETTINGS = 20


def check_asked(found: Sequence[Results], args: argparse.Namespace) -> None:
    """Raises UsageError for a target, feature or condition that a table of samples has not or that
    cannot be used, and for platforms that cannot be compared."""
    tables = [pooled(found)] if args.platforms else []
    if _is_asked(args):
        tables += [samples(results) for results in found if results.measured]
    for known in tables:
        drawn = known.pick().table
        usable(drawn, _target(args.target, args.per, known), known.parameters)
        for name, _ in args.below:
            _limited(name, known)
        if args.inside:
            rows_inside(drawn, args.inside)


def pictures(path: Path | None, names: Sequence[str]) -> list[Path | None]:
    """A file for each of several trees: of one the file itself; of more the number, or what a
    name tells, stands in each."""
    if path is None or len(names) == 1:
        return [path] * len(names)
    return [path.with_stem(f"{path.stem}-{name}") for name in names]


def _is_asked(args: argparse.Namespace) -> bool:
    """Whether anything but what is always told."""
    special = args.per or args.tree or args.picture or args.inside or args.below
    return bool(args.target != SLOWDOWN or special)


def print_explained(
    console: Console, results: Results, args: argparse.Namespace, picture: Path | None = None
) -> bool:
    """Print the parameters' importance, how well the models predict, and what was asked for.

    `args` are the command's; `picture` is where the tree is drawn to. Whether all that was asked
    for could be told; where something could not, that is told in its place.
    """
    try:
        found = samples(results)
    except UsageError as error:
        print_line(console, f"What the times depend on is not told: {error}")
        return not _is_asked(args)
    is_told = _print_samples(console, found, args, picture)
    if args.target == SLOWDOWN:
        print_lines(console, _gadapt_lines(results))
    return is_told


def print_effects(console: Console, results: Results) -> None:
    """Print the failures by kind with what explains them, and what each value of each parameter
    does to the time, alone and in pairs."""
    found = trials(results)
    rows = effects_text.failures_rows(found)
    if rows:
        console.print(_plain_table(effects_text.FAILURES_HEAD, rows))
        print_lines(console, [*effects_text.causes_lines(causes(found)), ""])
    if found.parameters:
        _print_times(console, found, results)


def _print_times(console: Console, found: Trials, results: Results) -> None:
    told = effects_on_time(found)
    print_lines(console, effects_text.effects_lines(told, results))
    rows = effects_text.effects_rows(told)
    if rows:
        console.print(_plain_table(effects_text.EFFECTS_HEAD, rows))
    print_lines(console, [*effects_text.pairs_lines(told.pairs), ""])


def _plain_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(box=box.HORIZONTALS, show_edge=False)
    for name in head:
        table.add_column(name)
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def print_platforms(
    console: Console,
    found: Sequence[Results],
    args: argparse.Namespace,
    picture: Path | None = None,
) -> bool:
    """Print what one tree says of several platforms; whether all that was asked for."""
    print_line(console, "All platforms together:")
    return _print_samples(console, pooled(found), args, picture)


def _print_samples(
    console: Console, found: Samples, args: argparse.Namespace, picture: Path | None
) -> bool:
    try:
        told = explain(found, _target(args.target, args.per, found))
    except UsageError as error:
        print_line(console, f"What the times depend on is not told: {error}")
        return not _is_asked(args)
    parts: list[Callable[[], None]] = [lambda: print_lines(console, _importance_lines(told))]
    if args.inside:
        parts.append(lambda: print_line(console, _inside_line(told, args.inside)))
    parts.append(lambda: print_lines(console, _lines(told, args)))
    if args.below:
        parts.append(lambda: _print_settings(console, found, args))
    if picture:
        parts.append(lambda: _print_picture(console, told.tree, picture, args.tree))
    told_parts = [_is_told(console, part) for part in parts]  # all, whichever fails
    return all(told_parts)


def _is_told(console: Console, part: Callable[[], None]) -> bool:
    """Tell a part, or why it cannot be told, so that the others are."""
    try:
        part()
    except UsageError as error:
        print_line(console, format_error(error))
        return False
    return True


def _target(name: str, per: Sequence[str], found: Samples) -> TreeTarget:
    """A slowdown is a ratio, so that its logarithm is explained."""
    if name not in found.targets:
        raise UsageError(f"no target `{name}`; there are {', '.join(found.targets)}")
    for feature in per:
        if feature not in found.features:
            raise UsageError(
                f"--per divides by a feature of the input, and `{feature}` is none; "
                f"there are {', '.join(found.features)}"
            )
    return TreeTarget(name, tuple(per), log=name == SLOWDOWN)


def _limited(name: str, found: Samples) -> TreeTarget:
    """A target with a limit. Of one that is above 0 everywhere the logarithm is explained: with
    the plain numbers only the largest would count, and the limits are on the least."""
    target = _target(name, (), found)
    known = numbers(found.table[name])
    return replace(target, log=bool((known[np.isfinite(known)] > 0).all()))


# ------------------------------------------------------------------------------ models


def _importance_lines(told: Explanation) -> Iterator[str]:
    tree = told.tree
    shared = effects_text.shared_samples(len(tree.samples), told.measurements)
    yield (
        f"What {tree.target} depends on, by a tree of parameters and inputs (Starchart) over "
        f"{len(tree.samples):,} samples{shared}, {_drawn(told)}:"
    )
    yield f"    {_shares(tree)}"


def _inside_line(told: Explanation, inside: str) -> str:
    return f"    where {inside}: {_shares(told.tree, inside)}"


def _lines(told: Explanation, args: argparse.Namespace) -> Iterator[str]:
    count = told.measurements
    yield f"    such trees predict held-out samples with {_accuracy(told.accuracy, count)}"
    yield f"    a linear model with interactions (Stargazer) with {_accuracy(told.linear, count)}"
    if args.tree:
        yield from (f"    {line}" for line in describe(told.tree, args.tree))


def _drawn(told: Explanation) -> str:
    if told.unbiased == len(told.tree.samples):
        return "all designed, drawn uniformly or the whole space"
    if told.unbiased:
        drawn = f"{told.unbiased:,} of them designed or drawn uniformly"
        return f"{drawn}, the others where a search looked"
    return "none of them designed or drawn uniformly, but where a search looked"


def _shares(tree: Tree, inside: str | None = None) -> str:
    shares = importance(tree, inside)
    parts = [f"{name} {share:.0%}" for name, share in shares.items() if share >= 0.005]
    return f"{', '.join(parts)} of the squared error" if parts else "none of the parameters"


def _accuracy(found: Accuracy, count: int) -> str:
    error = found.error
    among = f" of the {error.count:,} that are not 0" if error.count < count else ""
    return f"R2 {found.r2:.3f}, median error{among} {error.median.text('.1%')}"


def _gadapt_lines(results: Results) -> Iterator[str]:
    matrix = matrix_of(results)
    inputs = len(matrix.features)
    alone = inputs <= _MOST_LEFT_OUT
    judged = gadapt_judgement(matrix, None if alone else _PARTS)
    if judged is not None:
        how = "one input left out at a time" if alone else f"inputs left out in {_PARTS} parts"
        yield f"G-ADAPT's model, {how}: {judged}"


# ---------------------------------------------------------------------------- settings


def _print_settings(console: Console, found: Samples, args: argparse.Namespace) -> None:
    limits = [(grown(found, _limited(name, found)), limit) for name, limit in args.below]
    boxes = settings_below(limits)
    console.print(_settings(limits, boxes))
    kept = count_below(limits)
    if kept and not len(boxes):
        whole = len(limits[0][0].samples)
        told = f"{kept:,} of {whole:,} samples keep all limits, but no box of the trees does so on "
        print_line(console, f"{told}average: larger limits, or more samples, may tell one.")


def _settings(limits: Sequence[tuple[Tree, float]], boxes: pd.DataFrame) -> Table:
    """The boxes in which each target stays below its limit."""
    names = [str(tree.target) for tree, _ in limits]
    wanted = " and ".join(
        f"{name} <= {limit:g}" for name, (_, limit) in zip(names, limits, strict=True)
    )
    title = f"Settings with {wanted}, as the trees predict them: {_counted(len(boxes), 'box')}"
    table = Table(title=title, title_justify="left", box=box.HORIZONTALS, show_edge=False)
    table.add_column("settings")
    for name in (*names, "samples", "of these below all limits"):
        table.add_column(name, justify="right")
    for _, row in boxes.head(_MOST_SETTINGS).iterrows():
        met = "" if row["met"] is None else f"{row['met']}"
        cells = [str(row["box"]), *(f"{row[name]:.4g}" for name in names), f"{row['count']}", met]
        table.add_row(*map(Text, cells))
    return table


def _counted(count: int, word: str) -> str:
    return f"1 {word}" if count == 1 else f"{count:,} {word}es"


def _print_picture(console: Console, tree: Tree, path: Path, depth: int | None) -> None:
    figure = draw(tree, depth or 4)
    try:
        figure.savefig(path, dpi=120)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from None
    print_line(console, f"{path}: the tree")
