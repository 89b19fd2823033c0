"""Tests run on all cores: each process has enough with one."""

import os

# Before numpy is loaded: its threads would wait for each other in turns of the same cores.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
