"""The command's body: run the campaign that the options ask for, and print its results."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console

from harness.api.documents import ModelDocument, TuneDocument
from harness.api.models import tuned_models
from harness.api.request import PREDICTED, read_request
from harness.api.session import Tuned, tuned
from harness.commands.run import EXIT_ERROR, format_error, print_json
from harness.commands.tune.next_step import NextStep, next_steps, run_again
from harness.commands.tune.options import TuneCommand
from harness.commands.tune.summary import learn_across, print_choice_by_input, print_result
from harness.core.errors import HarnessError
from harness.display.formats import make_console
from harness.display.progress import ConsoleListener
from harness.display.text import print_line
from harness.measure.backends.device_names import are_all_models
from harness.results.url import shown_database
from harness.search import techniques

FAILED = 1


def print_techniques() -> int:
    """Print the names that --technique takes; return the exit code."""
    print("\n".join(sorted([*techniques(), "auto", PREDICTED])))
    return 0


def tune(options: TuneCommand) -> int:
    """Tune, and print the results. Return the exit code: FAILED where nothing was measured, or
    nothing worked on an input that was measured."""
    request, console = read_request(options), make_console(stderr=options.json)
    listener = ConsoleListener(console, options.quiet)
    with ExitStack() as opened:
        if are_all_models(options.device):
            models = opened.enter_context(tuned_models(request, listener))
        else:
            models = [opened.enter_context(tuned(request, listener))]
        if options.json:
            if options.report is not None:
                _write_report(options.report, models, console)
            print_json(_document(options, models, listener.warnings))
        else:
            _print(options, models, console)
    for error in filter(None, (done.error for done in models)):
        print(format_error(error), file=sys.stderr)
    return _exit_code(models)


def _exit_code(models: Sequence[Tuned]) -> int:
    if any(done.error is not None for done in models):
        return EXIT_ERROR
    return FAILED if any(done.has_failed for done in models) else 0


def _print(options: TuneCommand, models: Sequence[Tuned], console: Console) -> None:
    """Print the summary of each campaign, and what to do next."""
    request = models[0].request
    for done in models:
        is_measured = any(report.measured for report in done.reports)
        learns = is_measured and (len(done.campaign.spec.inputs) > 1 or request.recording is None)
        learnt = learn_across(console, done) if learns else None
        print_result(console, done, learnt)
        if learnt is not None:
            print_choice_by_input(console, done, learnt)
    if options.report is not None:
        _write_report(options.report, models, console)
    for log in filter(Path.exists, request.search.logs(len(request.spec.inputs))):
        print_line(console, f"{log}: the seconds and the time of each new best")
    steps = dict.fromkeys(step for done in models for step in _next(options, done))
    print_line(console, "\n".join(step.text for step in steps))


def _next(options: TuneCommand, done: Tuned) -> list[NextStep]:
    if done.error is not None:
        return [run_again(options, "What was measured is kept. To continue,")]
    return list(next_steps(options, done.campaign, done.reports, done.request.database))


def _commands(steps: Iterable[NextStep]) -> list[list[str]]:
    return [list(step.words) for step in dict.fromkeys(steps) if step.words]


def _document(
    options: TuneCommand, models: Sequence[Tuned], warnings: Sequence[str]
) -> TuneDocument:
    is_several = are_all_models(options.device)
    described = [_model_document(options, done) for done in models]
    return TuneDocument(
        database=shown_database(models[0].request.database),
        has_failed=any(model.has_failed for model in described),
        warnings=list(dict.fromkeys(warnings)),
        report=None if options.report is None else str(options.report),
        results=None if is_several else described[0].results,
        next=_commands(step for done in models for step in _next(options, done)),
        models=described if is_several else [],
    )


def _model_document(options: TuneCommand, done: Tuned) -> ModelDocument:
    from harness.api.describing import describe_results  # here: it loads what learns
    from harness.api.results import findings_of

    stored = done.results()
    legal = {report.problem: report.legal for report in done.reports}
    return ModelDocument(
        device=done.measurer.environment.device,
        has_failed=done.has_failed,
        error="" if done.error is None else str(done.error),
        results=None if stored is None else describe_results(findings_of(stored), legal),
        next=_commands(_next(options, done)),
    )


def _write_report(page: Path, models: Sequence[Tuned], console: Console) -> None:
    """Write the HTML report. If that fails, raise only where the tuning itself went well."""
    from harness.report import write_report  # here, since it loads what draws

    found = [results for done in models if (results := done.results()) is not None]
    try:
        write_report(page, found)
    except HarnessError as error:
        if _exit_code(models) == 0:
            raise
        print_line(console, format_error(error))
        return
    print_line(console, f"The report is in {page}.")
