"""Each paper's claims and figures, and how ours are obtained, for `benchmarks/published.py`."""
