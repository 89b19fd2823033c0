"""Measure programs in place of kernels: any compiler, any program, in its own process."""
