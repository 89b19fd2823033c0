"""harness dispatch DATABASE -o FOLDER: learn which configuration suits which input, and write it
as code if it is worth it."""

from __future__ import annotations

from rich.console import Console

from harness.api.describing import describe_choice
from harness.api.dispatching import LearntDispatcher, learn
from harness.api.options import DispatchOptions
from harness.api.schemas import DispatchDocument
from harness.commands.run import main_of, print_json
from harness.display.across import verdict_section
from harness.display.formats import make_console
from harness.display.progress import ProgressDisplay
from harness.display.text import print_line, print_lines, print_section

NOT_WRITTEN = 1


main = main_of("dispatch")


def run(options: DispatchOptions) -> int:
    """Learn, judge, and write a dispatcher; return NOT_WRITTEN where a choice by input is required
    and none is worth it, else 0."""
    with ProgressDisplay(make_console(stderr=True)) as display:
        learnt = learn(options, display)
    loss = learnt.loss  # of the folder as it was
    files = [] if learnt.why_not_written else learnt.write()
    if options.json:
        print_json(_document(learnt, loss, files))
    else:
        _print(make_console(), learnt, loss, files)
    return 0 if files else NOT_WRITTEN


def _print(console: Console, learnt: LearntDispatcher, loss: str, files: list[str]) -> None:
    print_lines(console, learnt.notices)
    if learnt.found is not None and learnt.name is not None:
        print_section(console, verdict_section(learnt.found, learnt.learnt))
    print_line(console, learnt.sentence)
    if learnt.why_not_written:
        print_line(console, learnt.why_not_written)
        return
    if loss:
        print_line(console, loss, "yellow")
    print_line(console, f"{learnt.options.output}: {', '.join(files)}")
    if learnt.how_to_run:
        print_line(console, learnt.how_to_run)


def _document(learnt: LearntDispatcher, loss: str, files: list[str]) -> DispatchDocument:
    study = learnt.found
    return DispatchDocument.describe(
        learnt=learnt,
        choice=describe_choice(study, learnt.name or study.best) if study else None,
        notices=[*learnt.notices, *filter(None, [loss])],
        files=files,
    )
