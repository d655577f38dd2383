"""What others print, in their letters, for comparison with the book's own. Internal; no loss runs any of it.

``ctc_conventions`` reads other definitions of alpha and beta, ``rnnt_formulas`` writes the gradients of published
kernels as they do, ``mismatch`` compares two values of log Z as they do, ``fast_rnnt`` holds what that library returned
beside what is returned here, and ``nemo_tdt`` has the inputs and the mistake of another's kernels. ``rosetta`` has a
function for each quantity that others count in another way, and for lines of others' code.
"""
