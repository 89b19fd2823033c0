"""Find the space that a kernel's source names, and write it as a space file."""
