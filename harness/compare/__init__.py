"""Two sets of results compared: reading -> matching -> comparison (statistics) -> reports."""
