"""A space, its builds and its default run, as records that commands print."""
