"""Read kernel source: preprocessor lines, pragmas, tiled loops and included files."""
