"""harness dispatch DATABASE -o FOLDER: learn which configuration suits which input, and write it
as code if it is worth it."""

from __future__ import annotations

from rich.console import Console

from harness.api.describing import describe_choice
from harness.api.dispatching import LearntDispatcher, learn
from harness.api.options import DispatchOptions
from harness.api.rechecking import recheck
from harness.api.schemas import DispatchDocument
from harness.commands.run import print_json
from harness.core.config_diff import difference
from harness.core.files import write_output
from harness.core.text import command_line
from harness.display.progress import ProgressDisplay
from harness.display.recommendation import verdict_section
from harness.display.text import Section, SectionTable, make_console, print_line, print_lines

NOT_WRITTEN = 1
FALLEN = 1


def run(options: DispatchOptions) -> int:
    """Learn, judge, and write a dispatcher; return NOT_WRITTEN where a choice by input is required
    and none is worth it, else 0. Or measure a written one; return FALLEN where a choice fell."""
    if options.recheck is not None:
        return _recheck(options)
    with ProgressDisplay(make_console(stderr=True)) as display:
        learnt = learn(options, display)
    files = [] if learnt.why_not_written else learnt.write()
    if options.json:
        print_json(_document(learnt, files))
    else:
        _print(make_console(), learnt, files)
    return 0 if files else NOT_WRITTEN


def _recheck(options: DispatchOptions) -> int:
    with ProgressDisplay(make_console(stderr=True)) as display:
        rechecked = recheck(options, display)
    console, features, default = make_console(), rechecked.spec.features, rechecked.spec.default
    head = (*features, "inputs", "measured", "choice", "verdict")
    rows = [
        (
            *map(leaf.range, features),
            str(len(leaf.inputs)),
            str(len(leaf.measured)),
            difference(leaf.chosen, default),
            leaf.verdict(default),
        )
        for leaf in rechecked.leaves
    ]
    left = range(len(features) + 2, len(head))
    texts = [f"Tuned on {rechecked.tuned_on}", f"Measured on {rechecked.measured_on}"]
    table = SectionTable(head, rows, [*range(len(features)), *left])
    Section("", str(options.recheck), texts, table=table).print(console)
    if not any(leaf.has_fallen for leaf in rechecked.leaves):
        if options.output is not None:
            print_line(console, f"No choice fell: {options.output} is not written.")
        return 0
    if options.output is None:
        print_line(console, "To tune the inputs whose choice fell, write them with -o FILE.")
        return FALLEN
    write_output(options.output, rechecked.workload())
    space, inputs = str(rechecked.spec.path), str(options.output)
    tune = command_line("tune", space, "--inputs-from", inputs, "--cover", "1")
    print_line(console, f"To tune the inputs whose choice fell: {tune}")
    return FALLEN


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
