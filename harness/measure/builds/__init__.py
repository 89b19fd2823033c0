"""Build programs: a queue of builder processes, a cache on disk, and checks of what was built."""
