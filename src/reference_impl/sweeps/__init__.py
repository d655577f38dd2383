"""The sweeps that ``batched`` and the torch losses run on the CPU: a padded batch at a time, in float64. Internal.

``ctc`` and ``rnnt`` advance whole batches on mantissas, whose ``exponents`` change now and then; ``logarithms`` take
the utterances whose weights lie too far apart for that; ``vocabulary`` is the part that touches all V symbols.
"""
