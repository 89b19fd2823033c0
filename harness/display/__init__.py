"""Progress on a terminal or as plain lines, tables, and number formats."""

from harness.display.baselines import baselines_rows, refused_lines
from harness.display.formats import (
    format_outcomes,
    format_ratio,
    format_share,
    format_time,
    format_timing,
    make_console,
)
from harness.display.inputs import (
    best_configuration,
    best_time,
    default_time,
    format_speedup,
    inputs_table,
    noise_warning,
    print_inputs,
    times_note,
)
from harness.display.progress import ProgressDisplay
from harness.display.text import print_line, print_lines

__all__ = [
    "ProgressDisplay",
    "baselines_rows",
    "best_configuration",
    "best_time",
    "default_time",
    "format_outcomes",
    "format_ratio",
    "format_share",
    "format_speedup",
    "format_time",
    "format_timing",
    "inputs_table",
    "make_console",
    "noise_warning",
    "print_inputs",
    "print_line",
    "print_lines",
    "refused_lines",
    "times_note",
]
