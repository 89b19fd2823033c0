"""Recorded measurements: one reader per format, the space of a recording, and replays.

Files come from elsewhere and are not trusted. Readers bound sizes and check types; whatever does
not fit raises one RecordingError that names the file and the line or entry.
"""
