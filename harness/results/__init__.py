"""Read and write the results database: plain tables next to OpenTuner's, and the SQL on them."""

from harness.core.records import Interleaved
from harness.results.campaigns import (
    LEFT_OUT,
    Command,
    Run,
    StoredCampaign,
    campaigns,
    read_campaign,
    read_commands,
)
from harness.results.columns import MeasurementRow, MeasurementRows, as_rows
from harness.results.database import check_database, reading, writing
from harness.results.inserting import insert_returning_ids
from harness.results.measured import by_configs, interleaved_groups
from harness.results.merge import Added, merge_database
from harness.results.read import CampaignKey, read_measurements
from harness.results.schema import ABLATION, CANDIDATE, CHOICE, CROSS, FINAL, SEARCHED
from harness.results.store import COMPLETE, INTERRUPTED, RunPlan, Store
from harness.results.url import sqlite_path, without_password
