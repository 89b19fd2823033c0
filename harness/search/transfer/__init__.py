"""Transfer learning: measurements of other inputs and devices that a search starts from."""
