"""What the book's small networks have in common: a transducer's predictor and joiner, objectives, a training step.

``transducer`` has the two parts that a transducer adds to an encoder, and reads greedily; ``objectives`` makes a scalar
of a network and a batch with the losses of :mod:`reference_impl.torch_impl`; ``training`` is one step, and many. The
encoders are in the rooms of their data, ``digits`` and ``speech``. Internal; all of it needs torch.
"""
