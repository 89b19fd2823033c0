"""OpenCL devices, GPUs and PoCL's CPUs: find them, compile for them, launch and time kernels."""
