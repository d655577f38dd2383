"""The book's one data set, and the networks trained on it: strings of real handwritten digits. Internal.

``strings`` makes them, ``transducer`` is the small network and its training loop, ``training`` adds what pruned RNN-T
needs; :mod:`reference_impl.decoding` scores what a network reads. The package extra ``digits`` installs what
``strings`` imports.
"""
