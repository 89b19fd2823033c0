"""The door to OpenTuner: it proposes configurations, a Measurer measures, a database remembers."""

from harness.search import patches

patches.apply()

# OpenTuner must be patched before anything of it is used.
from harness.search.interface import InputInterface, MeasurementInterface  # noqa: E402
from harness.search.options import EndReason, InputSearch, Progress, Searched, SearchOptions  # noqa: E402
from harness.search.run import find_ended, search_input  # noqa: E402
from harness.search.techniques import resolve_techniques, sole_technique, techniques  # noqa: E402
