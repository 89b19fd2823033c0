"""A device: its memory, the arguments in it, its clock, and what a result must equal."""
