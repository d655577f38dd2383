"""Losses with the signatures, layouts and reductions of other libraries: change the import, keep the call.

One module for each library: :mod:`.torch_ctc`, :mod:`.torchaudio_rnnt` and :mod:`.numba_rnnt` (warprnnt_numba and
NeMo). They rearrange arguments and call :mod:`reference_impl.torch_impl`; no loss is computed here. Where a library is
right the numbers are the same, and each docstring lists what differs, and why. ``torch.compile`` makes one graph of
them.
"""
