"""What others recorded: one file a format, each read as `Recorded`, from which a space is made.

What is read comes from elsewhere and is not trusted: sizes are bounded, types are checked, and
what does not fit is one RecordingError that names the file and the place.
"""
