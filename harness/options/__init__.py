"""What each command takes, declared once: the parser, Python's arguments and the docs follow."""
