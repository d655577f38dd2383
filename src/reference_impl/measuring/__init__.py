"""What the chapters on machines count, execute and look up; no loss runs any of it, and nothing times. Internal.

``number_types`` computes posteriors in any precision by four kinds of number. ``kernel_bytes`` and ``torch_passes``
count what a computation moves, ``kernel_shapes`` computes it from shapes, and ``results`` reads the measurements in
``data/``. ``kernels_on_machine`` launches the Triton kernels on ``ptx_machine`` instead of a GPU.
"""
