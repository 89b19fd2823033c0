"""Statistics of samples: estimates, intervals, tests."""
