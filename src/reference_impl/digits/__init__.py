"""The book's one data set, and the networks trained on it: strings of real handwritten digits. Internal.

``strings`` makes and scores them, ``transducer`` is the small network and its training loop, ``training`` adds what
pruned RNN-T needs. The package extra ``digits`` installs what ``strings`` imports.
"""
