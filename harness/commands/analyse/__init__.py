"""harness analyse DATABASE: print what results databases say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console

from harness.analysis.coverage import input_reports, rerun_lines, reservations
from harness.analysis.summary import summarize
from harness.api.describing import describe_analyses
from harness.api.options import AnalyseOptions
from harness.api.results import findings_of
from harness.commands.analyse import tree
from harness.commands.run import main_of, print_json
from harness.core.errors import UsageError
from harness.core.files import check_output
from harness.core.kept import Kept
from harness.display import sections
from harness.display.across import choice_sections
from harness.display.formats import make_console
from harness.display.inputs import print_inputs
from harness.display.text import print_line, print_lines
from harness.report.sections import by_input as by_input_section
from harness.results import without_password
from harness.results.provenance import NEWEST, set_aside_lines
from harness.results.view import Results, read_results

main = main_of("analyse")


def run(options: AnalyseOptions) -> int:
    """Print every Results; return 2 if anything that was asked for could not be printed."""
    console = make_console()
    found = read_results(
        options.database,
        options.space,
        options.all_campaigns,
        builds=False,
        kernel_version=options.kernel_version,
    )
    if options.json:
        print_json(describe_analyses(list(map(findings_of, found))))
        return 0
    if options.summary:
        _print_summary(console, found)
        return 0
    if options.platforms and len(found) < 2:
        raise UsageError(f"--platforms compares two or more, but there is only {found[0].title}")
    tree.check_options(found, options)
    is_one = len(found) + options.platforms == 1
    names = [*map(str, range(1, len(found) + 1)), *(["platforms"] if options.platforms else [])]
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
        _print_summary(console, found)
    if options.platforms:
        with console.status("growing one tree for all platforms"):
            complete.append(tree.print_platforms(console, found, named[-1], Kept.in_cache()))
    return 0 if all(complete) else 2


def _print_summary(console: Console, found: Sequence[Results]) -> None:
    for section in sections.summary_sections(summarize((one, input_reports(one)) for one in found)):
        section.print(console)


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
    findings = findings_of(results)
    with console.status("judging the choice by input on held-out inputs"):
        print_line(console, f"\n{findings.advice}")
    notes = [run.notes for run in results.runs]
    print_inputs(console, findings.reports, default, notes, results.ablations)
    lines = list(reservations(results))
    print_lines(console, [*lines, *([""] if lines else [])])
    sections.failures_section(results, default).print(console)
    measured_sections = (
        sections.bits_section(findings.bits),
        sections.roofline_section(findings.reports),
        sections.energy_section(findings.energies, default),
        sections.front_section(findings.energies, default),
    )
    for section in filter(None, measured_sections):
        section.print(console)
    with console.status("growing trees"):
        is_complete = tree.print_tree(console, results, findings.matrix, options, findings.kept)
    console.print()
    for section in choice_sections(findings.across or findings.why_no_choice, default):
        section.print(console)
    if options.by_input is None:
        return is_complete
    section_by_input = by_input_section(findings, options.by_input)
    if section_by_input is not None:
        section_by_input.print(console)
    return section_by_input is not None and is_complete
