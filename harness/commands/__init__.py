"""The commands: each takes its options, calls the rooms below, prints, and returns an exit code.

`run.py` parses the command line and finds the command.
"""
