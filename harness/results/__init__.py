"""Read and write the results database: plain tables next to OpenTuner's, and the SQL on them."""

from harness.core.records import Interleaved
from harness.results.columns import MeasurementRow, MeasurementRows
from harness.results.database import check_database, reading, writing
from harness.results.gathering import as_rows
from harness.results.inserting import insert_returning_ids, insert_rows
from harness.results.measured import InterleavedByConfigs, by_configs, interleaved_groups
from harness.results.merge import Added, merge_database
from harness.results.read import CampaignKey, read_measurements
from harness.results.runs import (
    Run,
    StoredCampaign,
    campaigns,
    placed_runs,
    read_campaign,
    read_commands,
)
from harness.results.schema import ABLATION, CANDIDATE, CHOICE, CROSS, FINAL, SEARCHED
from harness.results.sessions import LEFT_OUT, Command
from harness.results.store import RunPlan, Store, Stored
from harness.results.url import sqlite_path, without_password

__all__ = [
    "ABLATION",
    "CANDIDATE",
    "CHOICE",
    "CROSS",
    "FINAL",
    "LEFT_OUT",
    "SEARCHED",
    "Added",
    "CampaignKey",
    "Command",
    "Interleaved",
    "InterleavedByConfigs",
    "MeasurementRow",
    "MeasurementRows",
    "Run",
    "RunPlan",
    "Store",
    "Stored",
    "StoredCampaign",
    "as_rows",
    "by_configs",
    "campaigns",
    "check_database",
    "insert_returning_ids",
    "insert_rows",
    "interleaved_groups",
    "merge_database",
    "placed_runs",
    "read_campaign",
    "read_commands",
    "read_measurements",
    "reading",
    "sqlite_path",
    "without_password",
    "writing",
]
