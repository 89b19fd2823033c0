"""Models that are fitted to measurements: regression trees, Gaussian processes, linear models."""
