"""The results database: plain tables, and the only SQL on them, beside OpenTuner's own."""

from harness.results.connect import reading, writing
from harness.results.inserting import insert_keyed, insert_rows
from harness.results.merge import Added, merge_database
from harness.results.place import shown_place, sqlite_path
from harness.results.read import SEARCHED, Key, Row, Turns, last_turn, read_measurements, turns
from harness.results.runs import (
    EXHAUSTED,
    LEFT_OUT,
    LIMITS,
    Campaign,
    Run,
    campaigns,
    left_out_note,
    read_runs,
    run_notes,
)
from harness.results.store import RunPlan, Store, Stored

__all__ = [
    "EXHAUSTED",
    "LEFT_OUT",
    "LIMITS",
    "SEARCHED",
    "Added",
    "Campaign",
    "Key",
    "Row",
    "Run",
    "RunPlan",
    "Store",
    "Stored",
    "Turns",
    "campaigns",
    "insert_keyed",
    "insert_rows",
    "last_turn",
    "left_out_note",
    "merge_database",
    "read_measurements",
    "read_runs",
    "reading",
    "run_notes",
    "shown_place",
    "sqlite_path",
    "turns",
    "writing",
]
