"""The results database: plain tables, and the only SQL on them, beside OpenTuner's own."""

from harness.core.records import Turn
from harness.results.connect import reading, writing
from harness.results.inserting import insert_keyed, insert_rows
from harness.results.merge import Added, merge_database
from harness.results.notes import ABLATION, EXHAUSTED, LIMITS
from harness.results.read import (
    CANDIDATE,
    FINAL,
    SEARCHED,
    Key,
    Row,
    Turns,
    by_configs,
    in_turns,
    read_measurements,
)
from harness.results.runs import Campaign, Run, campaigns, read_campaign
from harness.results.sessions import LEFT_OUT, Command, read_commands
from harness.results.store import RunPlan, Store, Stored
from harness.results.url import shown_place, sqlite_path

__all__ = [
    "ABLATION",
    "CANDIDATE",
    "EXHAUSTED",
    "FINAL",
    "LEFT_OUT",
    "LIMITS",
    "SEARCHED",
    "Added",
    "Campaign",
    "Command",
    "Key",
    "Row",
    "Run",
    "RunPlan",
    "Store",
    "Stored",
    "Turn",
    "Turns",
    "by_configs",
    "campaigns",
    "in_turns",
    "insert_keyed",
    "insert_rows",
    "merge_database",
    "read_campaign",
    "read_commands",
    "read_measurements",
    "reading",
    "shown_place",
    "sqlite_path",
    "writing",
]
