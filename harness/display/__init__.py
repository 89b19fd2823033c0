"""What a person sees: progress on a terminal, plain lines elsewhere, tables at the end."""

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
    TIMES_TOLD,
    best_configuration,
    best_time,
    default_time,
    inputs_table,
    noise_warning,
    print_inputs,
    speedup_told,
)
from harness.display.progress import ProgressDisplay

__all__ = [
    "TIMES_TOLD",
    "ProgressDisplay",
    "baselines_rows",
    "best_configuration",
    "best_time",
    "default_time",
    "format_outcomes",
    "format_ratio",
    "format_share",
    "format_time",
    "format_timing",
    "inputs_table",
    "make_console",
    "noise_warning",
    "print_inputs",
    "refused_lines",
    "speedup_told",
]
