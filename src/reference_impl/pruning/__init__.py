"""Which rows of an RNN-T grid to keep in each frame, and what that costs; for looking, not for training. Internal.

A *window* is ``num_rows`` neighbouring rows of one frame, a *band* one window for each frame, and ``first_rows`` are
their lowest rows. ``windows`` looks at one frame, ``bands`` at all of them, ``costs`` at what is lost. The loss inside
a band, and how a batch chooses its own, are :mod:`reference_impl.torch_impl.pruning`.
"""
