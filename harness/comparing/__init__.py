"""Two sets of results against each other: reading -> comparison (statistics) -> reports."""
