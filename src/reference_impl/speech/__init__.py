"""Synthetic speech, its features, and the networks that learn to hear it. Internal; no loss of its own.

``corpus`` reads the utterances in ``data/speech``, ``public`` real corpora in their usual layout, ``rooms`` adds
reverberation and noise, ``features`` makes log-mel frames, ``letters`` turns text into labels, and ``batches`` pads.
``networks`` has the encoder of CTC and the transducer, ``training`` the loop and what it watches. ``player`` shows on a
page what a network reads while a recording plays, and ``drawing`` makes the pictures and files for it. The package
extra ``speech`` installs what they import.
"""
