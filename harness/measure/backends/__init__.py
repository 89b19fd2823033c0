"""Backends, one file each: where configurations are compiled and run."""
