"""What a backend implements, and what the devices of CUDA and of OpenCL share."""
