"""Tune a kernel for one input in OpenTuner's usual form, with its driver and its database.

    python examples/tune_with_opentuner.py spaces/mvmul.yaml '{"m": 16, "n": 65536}' \
        --test-limit 20 --no-dups

harness builds, verifies and times; OpenTuner does the rest. `harness merge results/all.db
opentuner.db/*.db` makes its results a database of harness, which `harness analyse` reads.
"""

from __future__ import annotations

import argparse
import json
import sys

import opentuner
from opentuner.tuningrunmain import TuningRunMain

import harness


def main() -> None:
    """Search with the options of OpenTuner."""
    parser = argparse.ArgumentParser(parents=opentuner.argparsers())
    parser.add_argument("space", help="space file (YAML)")
    parser.add_argument("input", type=json.loads, help="features of the input, as JSON")
    args = parser.parse_args()
    with harness.MeasurementInterface(args.space, args.input, args=args) as interface:
        TuningRunMain(interface, args).main()


if __name__ == "__main__":
    try:
        main()
    except harness.HarnessError as error:
        sys.exit(f"error: {error}")
