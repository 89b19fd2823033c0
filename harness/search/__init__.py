"""The door to OpenTuner: it proposes configurations, a Measurer measures, a database remembers."""

from harness.search import patches

patches.apply()

# OpenTuner must be patched before anything of it is used.
from harness.search.driver import MAX_FREE_IN_A_ROW  # noqa: E402
from harness.search.options import (  # noqa: E402
    EndReason,
    InputSearch,
    Progress,
    Searched,
    SearchOptions,
)
from harness.search.run import (  # noqa: E402
    find_ended,
    make_opentuner_tables,
    resolve_techniques,
    search_input,
    techniques,
)
from harness.search.techniques import REFUSALS, sole_technique, transfer_techniques  # noqa: E402

__all__ = [
    "MAX_FREE_IN_A_ROW",
    "REFUSALS",
    "EndReason",
    "InputSearch",
    "Progress",
    "SearchOptions",
    "Searched",
    "find_ended",
    "make_opentuner_tables",
    "resolve_techniques",
    "search_input",
    "sole_technique",
    "techniques",
    "transfer_techniques",
]
