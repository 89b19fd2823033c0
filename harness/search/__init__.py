"""The one door to OpenTuner: it proposes, a Measurer measures, its database remembers."""

from harness.search import patches

patches.apply()

# OpenTuner is mended before anything of it is used.
from harness.search.interface import MAX_FREE_IN_A_ROW, Ended, Progress  # noqa: E402
from harness.search.run import (  # noqa: E402
    Searched,
    SearchOptions,
    make_opentuner_tables,
    resolve_techniques,
    search_input,
    techniques,
)
from harness.search.techniques import REFUSALS, sole_technique, transfer_techniques  # noqa: E402

__all__ = [
    "MAX_FREE_IN_A_ROW",
    "REFUSALS",
    "Ended",
    "Progress",
    "SearchOptions",
    "Searched",
    "make_opentuner_tables",
    "resolve_techniques",
    "search_input",
    "sole_technique",
    "techniques",
    "transfer_techniques",
]
