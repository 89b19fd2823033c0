"""Compare two sets of results: reading -> matching -> comparison (statistics) -> reports."""

LEVEL = 0.05
THRESHOLD = 0.01
OCCASIONS, FEWEST_OCCASIONS, MOST_OCCASIONS = 10, 3, 1000
"""Of a rerun: the default, and the bounds."""

RUN_NOISE = 0.005
"""The noise that is assumed where nothing was measured twice; locked clocks stay below it."""
