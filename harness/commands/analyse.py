"""harness analyse DATABASE: print what results databases say."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from rich.console import Console

from harness.analysis import SLOWDOWN
from harness.analysis.coverage import input_reports, reservations
from harness.analysis.explain import Samples, explain, importance_text, pooled, samples
from harness.analysis.summary import summarize
from harness.api.describing import describe_analyses
from harness.commands.run import print_json
from harness.core.cache import Cache, content_key
from harness.core.errors import UsageError
from harness.core.text import counted, first_few
from harness.dispatch.learners import gadapt_judgement
from harness.dispatch.matrix import Matrix
from harness.display import sections
from harness.display.inputs import print_inputs
from harness.display.recommendation import choice_sections
from harness.display.text import make_console, make_table, print_line, print_lines
from harness.models.starchart import Growth, TreeTarget, describe, settings_below
from harness.models.starchart.reading import rows_inside
from harness.options.others import AnalyseOptions
from harness.report.findings import Findings
from harness.report.page import by_input as by_input_section
from harness.results import without_password
from harness.results.campaigns import StoredCampaign
from harness.results.notes import RERUN
from harness.results.provenance import differing, set_aside_sentence
from harness.results.view import Results, read_results

_MOST_LEFT_OUT = 64  # inputs that are held out one by one; if there are more, in parts
_PARTS = 10
_MOST_SETTINGS = 20


def run(options: AnalyseOptions) -> int:
    """Print every Results; return 2 if anything that was asked for could not be printed."""
    console = make_console()
    campaigns = read_results(options.database, options.space, options.all_campaigns, builds=False)
    if options.json:
        print_json(describe_analyses(list(map(Findings, campaigns))))
        return 0
    if options.summary:
        _print_summary(console, campaigns)
        return 0
    if options.platforms and len(campaigns) < 2:
        raise UsageError(f"--platforms compares two or more; there is only {campaigns[0].title}")
    _check_options(campaigns, options)
    complete = [
        _print(console, results, title, options)
        for results, title in zip(campaigns, _titles(campaigns), strict=True)
    ]
    if not options.all_campaigns:
        others = dict.fromkeys(version for results in campaigns for version in results.others)
        set_aside = set_aside_sentence(list(others), list(map(without_password, options.database)))
        print_lines(console, filter(None, [set_aside]))
    if len(campaigns) > 1:
        _print_summary(console, campaigns)
    if options.platforms:
        with console.status("growing one tree for all platforms"):
            print_line(console, "All platforms together:")
            drawn = partial(pooled, campaigns)
            complete.append(_print_tree(console, drawn, options, Cache.of_user()))
    return 0 if all(complete) else 2


def _print_summary(console: Console, campaigns: Sequence[Results]) -> None:
    for section in sections.summary_sections(
        summarize((one, input_reports(one)) for one in campaigns)
    ):
        section.print(console)


def _titles(campaigns: Sequence[Results]) -> Iterator[str]:
    """Yield the title of each Results; where several have one title, with the campaign, the version
    of the kernel and what differs in it from the version that was tuned last."""
    names = [results.title for results in campaigns]
    last: dict[str, StoredCampaign] = {}
    for name, results in zip(names, campaigns, strict=True):
        campaign = results.campaign
        tuned_last = last.setdefault(name, campaign)
        title = name
        if names.count(name) > 1:
            version = campaign.key.program_sha256[:8]
            title += f", campaign {campaign.key.campaign} of kernel version {version}"
        changed = differing(campaign.program_parts, tuned_last.program_parts)
        if changed:
            title += f" (differs in {first_few(changed, ', ')})"
        databases = ", ".join(map(without_password, results.databases))
        yield f"{title}, from {databases}"


def _print(console: Console, results: Results, title: str, options: AnalyseOptions) -> bool:
    """Print a Results; return whether everything that was asked for could be printed."""
    measured, default = results.measured, results.default
    if not measured:
        is_rerun = any(run.technique == RERUN for run in results.runs)
        rerun = "`harness compare --rerun` measured it, and searched nothing"
        why = rerun if is_rerun else "no measurements yet"
        print_lines(console, [f"{title}: {why}", *reservations(results)])
        return True
    print_line(console, title, "bold")
    findings = Findings(results)
    with console.status("judging the choice by input on held-out inputs"):
        print_line(console, f"\n{findings.advice}")
    notes = [run.notes for run in results.runs]
    print_inputs(console, findings.reports, default, notes, results.ablations)
    lines = list(reservations(results))
    print_lines(console, [*lines, *([""] if lines else [])])
    sections.failures_section(results, default).print(console)
    for section in (
        sections.bits_section(findings.bits),
        sections.roofline_section(findings.reports),
        sections.energy_section(findings.energies),
        sections.front_section(findings.energies, default),
    ):
        if section is not None:
            section.print(console)
    with console.status("growing trees"):
        is_complete = _print_tree(console, partial(samples, results), options, findings.cache)
        if options.target == SLOWDOWN:
            print_lines(console, _gadapt_lines(findings.matrix, findings.cache))
    console.print()
    for section in choice_sections(findings.across or findings.why_no_choice, default):
        section.print(console)
    if options.by_input is None:
        return is_complete
    section_by_input = by_input_section(findings, options.by_input)
    if section_by_input is not None:
        section_by_input.print(console)
    return section_by_input is not None and is_complete


# ---------------------------------------------------------- importance, accuracy and the tree


def _check_options(campaigns: Sequence[Results], options: AnalyseOptions) -> None:
    """Try the options on the samples.

    Raises UsageError for a target, feature or condition that the samples do not have or that cannot
    be used, and for platforms that cannot be compared.
    """
    tables = [pooled(campaigns)] if options.platforms else []
    if options.asks_of_trees:
        tables += [samples(results) for results in campaigns if results.measured]
    for known in tables:
        drawn = known.drawn()
        _target(options.target, options.per, known).usable(drawn, known.parameters)
        for name, _ in options.limits:
            _limited(name, known)
        if options.inside:
            rows_inside(drawn, options.inside)


def _print_tree(
    console: Console, drawn: Callable[[], Samples], options: AnalyseOptions, cache: Cache
) -> bool:
    """Print the importance of parameters, the accuracy of models, and what the options ask for.

    Return whether everything that was asked for could be printed; the reason is printed otherwise.
    """
    try:
        table = drawn()
        target = _target(options.target, options.per, table)
        explanation = explain(table, target, cache, Growth(options.threshold))
    except UsageError as error:
        print_line(console, f"No tree: {error}")
        return not options.asks_of_trees
    if explanation.nothing and not options.asks_of_trees:
        print_line(console, explanation.nothing)
        return True
    tree = explanation.tree
    print_lines(console, explanation.lines())
    if options.inside:
        print_line(console, f"    where {options.inside}: {importance_text(tree, options.inside)}")
    if options.depth:
        print_lines(console, (f"    {line}" for line in describe(tree, options.depth)))
    if options.limits:
        _print_settings(console, table, options)
    return True


_ENERGY = "harness stores it where `measure: {energy: true}` stands and the device has a sensor"
_WORK = "harness stores it where the space says its `work`"
_NEEDS = {"energy_j": _ENERGY, "power_w": _ENERGY, "peak_fraction": _WORK}


def _target(name: str, per: Sequence[str], table: Samples) -> TreeTarget:
    """Check a target; the slowdown is a ratio, so its logarithm is predicted."""
    if name not in table.targets:
        needs = f"; {_NEEDS[name]}" if name in _NEEDS else ""
        raise UsageError(f"no target `{name}`; there are {', '.join(table.targets)}{needs}")
    for feature in per:
        if feature not in table.features:
            raise UsageError(
                f"--per needs a feature of the input, and `{feature}` is none; "
                f"there are {', '.join(table.features)}"
            )
    return TreeTarget(name, tuple(per), log=name == SLOWDOWN)


def _limited(name: str, table: Samples) -> TreeTarget:
    """Make a target for a limit: its logarithm where it is positive everywhere.

    Limits are on small values, and in a tree of plain numbers only large ones count.
    """
    target = _target(name, (), table)
    known = table.table[name].to_numpy(dtype=np.float64)
    return replace(target, log=bool((known[np.isfinite(known)] > 0).all()))


def _gadapt_lines(matrix: Matrix, cache: Cache) -> Iterator[str]:
    one_by_one = len(matrix.features) <= _MOST_LEFT_OUT
    parts = None if one_by_one else _PARTS
    key = content_key("G-ADAPT", matrix.key, parts)
    judged = cache.recall(key, lambda: str(gadapt_judgement(matrix, parts) or ""))
    if judged:
        how = "one input" if one_by_one else f"a {_PARTS}th of the inputs"
        yield f"G-ADAPT's model, {how} held out at a time: {judged}"


# ---------------------------------------------------------------------------- settings


def _print_settings(console: Console, table: Samples, options: AnalyseOptions) -> None:
    """Print a table of the regions in which each target is predicted below its limit; where there
    is none, say why."""
    table = table.with_all([name for name, _ in options.limits])
    growth = Growth(options.threshold)
    trees = [(table.grow(_limited(name, table), growth), limit) for name, limit in options.limits]
    regions = settings_below(trees)
    names = [str(tree.target) for tree, _ in trees]
    wanted = " and ".join(f"{tree.target} <= {limit:g}" for tree, limit in trees)
    title = f"Settings with {wanted}, as predicted: {counted(len(regions), 'region')}"
    head = ("settings", *names, "samples", "within all limits")
    rows = (
        (str(row["box"]), *(f"{row[n]:.4g}" for n in names), f"{row['count']}", f"{row['met']}")
        for _, row in regions.head(_MOST_SETTINGS).iterrows()
    )
    console.print(make_table(head, rows, title=title, wrap=range(len(head))))
    within = int(np.logical_and.reduce([tree.within(limit) for tree, limit in trees]).sum())
    if within and not len(regions):
        whole = len(trees[0][0].samples)
        print_line(
            console,
            f"{within:,} of {whole:,} samples are within all limits, but the mean of no region is. "
            "Raise the limits, or measure more samples.",
        )
