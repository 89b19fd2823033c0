"""Compare two sets of results: reading -> matching -> comparison (statistics) -> reports."""
