"""Continue a campaign of a large database, in which nothing is left to search.

`benchmarks.results_scale` runs this as a command of its own, to measure its time and memory: what a
user waits who repeats a `tune` whose measurements are all there. The device and its times are made
up. It writes to the database, whose space file is in the same folder.

    python -m benchmarks.resume FOLDER/scale.db

It takes minutes for ten million measurements.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.arguments import make_parser
from benchmarks.large_database import ENVIRONMENT, TECHNIQUE
from benchmarks.overhead import Device, FormulaTimes
from harness.results import Store, writing
from harness.search import SearchOptions, make_opentuner_tables
from harness.space_file import load_spec
from harness.tuning import Campaign, CampaignPlan, Stages
from harness.tuning.progress import SilentDisplay


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    parser = make_parser("resume", __doc__)
    parser.add_argument("database", type=Path, help="of benchmarks.results_scale")
    database: Path = parser.parse_args(arguments).database
    spec = load_spec(database.with_name("space.yaml"))
    with writing(str(database)) as engine, Store(engine) as store:
        make_opentuner_tables(store)
        (limit,) = store.connection.exec_driver_sql(
            "SELECT DISTINCT test_limit FROM runs"
        ).scalars()
        store.commit()
        options = SearchOptions((TECHNIQUE,), limit, 0, "", 1, counts_all=True)
        stages = Stages(cross=False, ablate=False, finalists=1)
        device = Device(FormulaTimes(), ENVIRONMENT)
        campaign = Campaign(CampaignPlan(spec, options, stages), device, store, SilentDisplay())
        campaign.run()
        tests = sum(found.tests for found in campaign.searched.values())
    print(f"{len(spec.inputs):,} inputs, {tests:,} tests")
    return 0


if __name__ == "__main__":
    sys.exit(main())
