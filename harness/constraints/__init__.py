"""Constraints between parameters: the language they are written in, and the solver that counts."""
