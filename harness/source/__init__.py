"""Read kernel source: its preprocessor lines, its pragmas, the files that it includes."""
