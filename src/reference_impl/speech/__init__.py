"""Synthetic speech, its features, and the networks that learn to hear it. Internal; no loss of its own.

``corpus`` reads the utterances in ``data/speech``, ``public`` real corpora in their usual layout, ``rooms`` adds
reverberation and noise, ``features`` makes log-mel frames, ``letters`` turns text into labels, and ``batches`` pads.
``networks`` has the encoder of CTC and the transducer, ``training`` the loop and what it watches. The package extra
``speech`` installs what they import.
"""
