"""harness analyse DATABASE: print what results databases say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console

from harness.analysis.causes import FAILURES_HEAD, causes, causes_lines, failures_rows
from harness.analysis.coverage import input_reports, rerun_lines, reservations
from harness.analysis.failures import describe_failures
from harness.analysis.summary import summarize
from harness.api.across import advice
from harness.api.describing import describe_analysis, describe_summary
from harness.api.documents import AnalyseDocument
from harness.api.results import findings_of
from harness.commands.analyse import tree
from harness.commands.result_options import AnalyseOptions
from harness.commands.run import collecting_rarely, main_of, print_json
from harness.core.errors import UsageError
from harness.core.files import check_output
from harness.core.kept import Kept
from harness.dispatch.by_input import slowdowns_by_input
from harness.dispatch.study import AUTO, learners
from harness.display.across import print_across
from harness.display.by_input import BY_INPUT_HEAD, by_input_rows, by_input_title
from harness.display.energy import ENERGY_HEAD, energy_lines, energy_rows
from harness.display.formats import make_console
from harness.display.inputs import not_shown, print_inputs
from harness.display.summary import print_summary
from harness.display.text import make_table, print_line, print_lines
from harness.report.findings import Findings
from harness.results import without_password
from harness.results.ablation import ablation_lines
from harness.results.versions import NEWEST, set_aside_lines
from harness.results.view import Results, read_results

main = main_of("analyse")


def run(options: AnalyseOptions) -> int:
    """Print every Results; return 2 if anything that was asked for could not be printed."""
    with collecting_rarely():
        return _analyse(options)


def _analyse(options: AnalyseOptions) -> int:
    console = make_console()
    found = read_results(
        options.database,
        options.space,
        options.all_campaigns,
        builds=False,
        kernel_version=options.kernel_version,
    )
    if options.json:
        return _print_json(found, options)
    if options.summary:
        return _print_only_summary(console, found, options)
    if options.platforms and len(found) < 2:
        raise UsageError(f"--platforms compares two or more, but there is only {found[0].title}")
    tree.check_options(found, options)
    is_one = len(found) + options.platforms == 1
    names = [*_ordinals(found), *(["platforms"] if options.platforms else [])]
    named = [options] if is_one else list(map(options.with_picture_of, names))
    for own in named:
        if own.picture is not None:
            check_output(own.picture)
    complete = [
        _print(console, results, title, own)
        for own, results, title in zip(named, found, _titles(found), strict=False)
    ]
    if options.kernel_version == NEWEST:
        others = dict.fromkeys(version for results in found for version in results.others)
        shown = map(without_password, options.database)
        print_lines(console, set_aside_lines(list(others), list(shown)))
    if len(found) > 1:
        print_summary(console, summarize((one, input_reports(one)) for one in found))
    if options.platforms:
        with console.status("growing one tree for all platforms"):
            complete.append(tree.print_platforms(console, found, named[-1], Kept.in_cache()))
    return 0 if all(complete) else 2


def _print_only_summary(console: Console, found: Sequence[Results], options: AnalyseOptions) -> int:
    if options.platforms or options.by_input or options.asks_of_trees:
        raise UsageError(
            "--summary prints nothing else; leave out --by-input and the options of trees"
        )
    print_summary(console, summarize((one, input_reports(one)) for one in found))
    return 0


def _print_json(found: Sequence[Results], options: AnalyseOptions) -> int:
    if options.platforms or options.summary or options.by_input or options.asks_of_trees:
        raise UsageError(
            "--json has the same content always; leave out --summary, --by-input and the options "
            "of trees"
        )
    all_findings = [findings_of(results) for results in found]
    summary = summarize((findings.results, findings.reports) for findings in all_findings)
    analyses = [describe_analysis(findings) for findings in all_findings]
    print_json(AnalyseDocument(analyses, describe_summary(summary)))
    return 0


def _ordinals(found: Sequence[Results]) -> list[str]:
    return [str(number) for number in range(1, len(found) + 1)]


def _titles(found: Sequence[Results]) -> Iterator[str]:
    """Yield the title of each, with campaign and program where two titles are the same."""
    names = [results.title for results in found]
    for name, results in zip(names, found, strict=True):
        key = results.campaign.key
        which = f", campaign {key.campaign} of kernel version {key.program_sha256[:8]}"
        databases = ", ".join(map(without_password, results.databases))
        yield f"{name}{which if names.count(name) > 1 else ''}, from {databases}"


def _print(console: Console, results: Results, title: str, options: AnalyseOptions) -> bool:
    """Print a Results; return whether everything that was asked for could be printed."""
    measured, default = results.measured, results.default
    if not measured:
        rerun = list(rerun_lines(results))
        why = title if rerun else f"{title}: no measurements yet"
        print_lines(console, [why, *rerun, *reservations(results)])
        return True
    print_line(console, title, "bold")
    found = findings_of(results)
    with console.status("judging the choice by input on held-out inputs"):
        print_line(console, f"\n{advice(found)}")
    print_inputs(console, found.reports, default, [run.notes for run in results.runs])
    ablations = ablation_lines(results.ablations) if results.ablations else ()
    failures = describe_failures(measured, default, results.failed_later)
    for part in (reservations(results), failures, ablations):
        lines = list(part)
        print_lines(console, [*lines, *([""] if lines else [])])
    _print_energy(console, found)
    _print_failures(console, results)
    with console.status("growing trees"):
        is_complete = tree.print_tree(console, results, found.matrix, options, found.kept)
    console.print()
    print_across(console, found.matrix, learners(), found.kept)
    console.print()
    wanted = options.by_input
    return (wanted is None or _print_by_input(console, found, wanted)) and is_complete


def _print_failures(console: Console, results: Results) -> None:
    """Print failures by kind with their causes."""
    rows = failures_rows(results)
    if rows:
        columns = range(len(FAILURES_HEAD))
        console.print(make_table(FAILURES_HEAD, rows, left=columns, wrap=columns))
        print_lines(console, [*causes_lines(causes(results)), ""])


def _print_energy(console: Console, findings: Findings) -> None:
    """Print the energy on each input on which any is known."""
    if findings.energies:
        rows = energy_rows(findings.energies, findings.default)
        console.print(make_table(ENERGY_HEAD, rows, left=(0, 4), wrap=(0, 4)))
        print_lines(console, [*energy_lines(findings.energies), ""])


def _print_by_input(console: Console, findings: Findings, choice: str) -> bool:
    """Print the slowdowns of each input; nothing, and False, where nothing could be learnt, which
    was just printed."""
    found = findings.across
    if found is None:
        return False
    rows = slowdowns_by_input(findings.results, found, choice)
    name = found.best if choice == AUTO else choice
    print_line(console, by_input_title(name))
    console.print(make_table(BY_INPUT_HEAD, by_input_rows(rows)))
    print_lines(console, not_shown(len(rows)))
    return True
