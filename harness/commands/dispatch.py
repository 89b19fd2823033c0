"""harness dispatch DATABASE -o FOLDER: learn which configuration suits which input, and write it
as code if it is worth it."""

from __future__ import annotations

from rich.console import Console

from harness.api.describing import describe_choice
from harness.api.dispatching import LearntDispatcher, learn
from harness.api.documents import DispatchDocument
from harness.commands.run import print_json
from harness.display.progress import ProgressDisplay
from harness.display.recommendation import verdict_section
from harness.display.text import make_console, print_line, print_lines
from harness.options.dispatch import DispatchOptions

NOT_WRITTEN = 1


def run(options: DispatchOptions) -> int:
    """Learn, judge, and write a dispatcher; return NOT_WRITTEN where a choice by input is required
    and none is worth it, else 0."""
    with ProgressDisplay(make_console(stderr=True)) as display:
        learnt = learn(options, display)
    files = [] if learnt.why_not_written else learnt.write()
    if options.json:
        print_json(_document(learnt, files))
    else:
        _print(make_console(), learnt, files)
    return 0 if files else NOT_WRITTEN


def _print(console: Console, learnt: LearntDispatcher, files: list[str]) -> None:
    print_lines(console, learnt.notices)
    if learnt.study is not None and learnt.name is not None:
        verdict_section(learnt.study).print(console)
    print_line(console, learnt.sentence)
    if learnt.why_not_written:
        print_line(console, learnt.why_not_written)
        return
    print_line(console, f"{learnt.options.output}: {', '.join(files)}")
    if learnt.launcher is not None:
        run = f"python {learnt.options.output / learnt.spec.name} {learnt.launcher.usage}".rstrip()
        print_line(console, f"To run the program that suits the input: {run}")


def _document(learnt: LearntDispatcher, files: list[str]) -> DispatchDocument:
    study = learnt.study
    return DispatchDocument.describe(
        learnt=learnt,
        choice=describe_choice(study, learnt.name or study.best) if study else None,
        notices=learnt.notices,
        files=files,
    )
