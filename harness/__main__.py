"""python -m harness: which commands there are."""

import sys

print(
    """usage: python -m harness.COMMAND ...

    harness.discover   write a space from a kernel's source
    harness.check      validate spaces, say their sizes, compile their defaults
    harness.tune       tune a kernel over its inputs
    harness.analyse    print again what a results database holds
    harness.export     write measurements for others, as T4 or CSV
    harness.merge      put databases of several machines together

Each has --help; README.md begins with the whole of it."""
)
sys.exit(2)
