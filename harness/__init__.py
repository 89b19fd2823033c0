"""harness: tune CUDA and OpenCL kernels over many inputs, verify every result, keep every sample."""

__version__ = "0.1.0"
