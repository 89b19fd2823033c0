"""The one door to OpenTuner: it proposes, a Measurer measures, its database remembers."""

from harness.search import mends

mends.apply()

# OpenTuner is mended before anything of it is used.
from harness.search.interface import Progress  # noqa: E402
from harness.search.run import (  # noqa: E402
    SearchOptions,
    make_opentuner_tables,
    resolve_techniques,
    search_input,
    techniques,
)

__all__ = [
    "Progress",
    "SearchOptions",
    "make_opentuner_tables",
    "resolve_techniques",
    "search_input",
    "techniques",
]
