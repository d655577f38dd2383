"""The stages of `benchmarks/gpu.py`: tests, memory checks, accuracy and times of the kernels on a CUDA device."""
