"""The results database: OpenTuner's tables and plain ones side by side; the only SQL there is."""

from harness.results.connect import reading, shown_place, sqlite_path, writing
from harness.results.read import Campaign, Key, Row, campaigns, read_measurements
from harness.results.store import RunPlan, Store, Stored

__all__ = [
    "Campaign",
    "Key",
    "Row",
    "RunPlan",
    "Store",
    "Stored",
    "campaigns",
    "read_measurements",
    "reading",
    "shown_place",
    "sqlite_path",
    "writing",
]
