"""From measurements on many inputs to code that chooses a configuration for any input."""
