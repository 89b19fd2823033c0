"""Compare two sets of results: reading -> matching -> comparison (statistics) -> reports."""

LEVEL = 0.05
THRESHOLD = 0.01
OCCASIONS = 10
"""Of a rerun, by default."""
FEWEST_OCCASIONS = 3
MOST_OCCASIONS = 1000

RUN_NOISE = 0.005
"""The noise that is assumed where nothing was measured twice; locked clocks stay below it."""
