"""Tunes CUDA and OpenCL kernels over many inputs, verifies every result, keeps every sample."""

__version__ = "0.1.0"
