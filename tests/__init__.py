"""Tests run on all cores: each process has enough with one."""

import os
from pathlib import Path

# Before numpy is loaded: its threads would wait for each other in turns of the same cores.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

ROOT = Path(__file__).parents[1]
DATA = ROOT / "tests" / "data"
