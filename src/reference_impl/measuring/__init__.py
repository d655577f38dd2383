"""What the chapters on machines count and look up; nothing here is run by a loss, and nothing times. Internal.

``number_types`` computes posteriors in any precision by four kinds of number. ``kernel_bytes`` and ``torch_passes``
count what a computation moves, ``kernel_shapes`` computes it from shapes, and ``results`` reads the measurements in
``data/``.
"""
