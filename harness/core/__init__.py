"""What every room stands on: records, errors, text, files."""
