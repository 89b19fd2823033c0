"""Probe compilers for their flags, and remove from a space those that they refuse."""
