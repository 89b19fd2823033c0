"""Read kernel source: preprocessor lines, pragmas and included files."""
