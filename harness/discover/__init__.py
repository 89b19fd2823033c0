"""Read a kernel's source and write a space file from it."""
