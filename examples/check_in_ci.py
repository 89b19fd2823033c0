"""Fail a build where the configuration that is shipped is no longer a good one.

    python examples/check_in_ci.py spaces/mvmul.yaml results/mvmul.db

The default of a space is what is shipped. This tunes for a minute, continues what the database
holds, and fails for each input on which another configuration is certain to be 5 % faster.
"""

from __future__ import annotations

import sys

import harness

MOST = 1.05
"""The speed-up over the default that is still accepted."""


def main(space: str, database: str, max_time_s: float = 60) -> int:
    """Return 1 where the default is too slow on any input."""
    results = harness.tune(space, database=database, max_time_s=max_time_s)
    print(results)
    slow = [r for r in results.inputs if r.speedup and r.speedup.is_faster and r.speedup.low > MOST]
    for report in slow:
        print(f"({report.problem}): {report.best.config} is {report.speedup.text('.2f', 'x')}")
    return 1 if slow else 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(f"usage: {sys.argv[0]} SPACE DATABASE")
    try:
        sys.exit(main(*sys.argv[1:]))
    except harness.HarnessError as error:
        sys.exit(f"error: {error}")
