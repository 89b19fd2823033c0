"""Progress on a terminal or as plain lines, tables, and number formats."""
