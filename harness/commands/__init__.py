"""The commands: each parses its command line, calls the rooms below, prints, and returns an exit
code."""
