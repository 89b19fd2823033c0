"""NVIDIA's GPUs: find them, compile for them, launch and time kernels on them."""
