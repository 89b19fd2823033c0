"""The tuners that benchmarks/search.py compares, one in each file."""
