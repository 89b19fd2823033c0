"""Find the fastest configuration of a CUDA or OpenCL kernel for each input shape."""

__version__ = "0.1.0"
