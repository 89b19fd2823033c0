"""The tuners that benchmarks/search.py compares, one a file: each searches a recorded landscape."""
