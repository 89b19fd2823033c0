"""harness recheck FOLDER: measure a dispatcher again, and say which of its choices still hold."""

from __future__ import annotations

from dataclasses import replace

from harness.api.rechecking import recheck
from harness.core.config_diff import difference
from harness.core.files import write_output
from harness.core.text import command_line
from harness.display.progress import ProgressDisplay
from harness.display.text import Section, SectionTable, make_console, print_line
from harness.options.dispatch import RecheckOptions

FALLEN = 1


def run(options: RecheckOptions) -> int:
    """Print a row for each leaf; return FALLEN where a choice fell."""
    with ProgressDisplay(make_console(stderr=True)) as display:
        rechecked = recheck(options, display)
    console, spec = make_console(), rechecked.spec
    rows = []
    for leaf in rechecked.leaves:
        ranges = ", ".join(replace(spec, inputs=tuple(leaf.inputs)).feature_ranges)
        counts = (str(len(leaf.inputs)), str(len(leaf.measured)))
        rows.append((ranges, *counts, difference(leaf.chosen, spec.default), leaf.verdict))
    texts = [f"Tuned on {rechecked.tuned_on}", f"Measured on {rechecked.measured_on}"]
    table = SectionTable(("leaf", "inputs", "measured", "choice", "verdict"), rows, (0, 3, 4))
    Section("", str(options.folder), texts, table=table).print(console)
    if not any(leaf.has_fallen for leaf in rechecked.leaves):
        if options.output is not None:
            print_line(console, f"No choice fell: {options.output} is not written.")
        return 0
    if options.output is None:
        print_line(console, "To tune the inputs whose choice fell, write them with -o FILE.")
        return FALLEN
    write_output(options.output, rechecked.workload())
    space, inputs = str(spec.path), str(options.output)
    tune = command_line("tune", space, "--inputs-from", inputs, "--cover", "1")
    print_line(console, f"To tune the inputs whose choice fell: {tune}")
    return FALLEN
