"""Whole families of mistakes, each with a sentence, for what no single name explains; `causes.py` compares with them.

In CTC's recursions (`ctc_recursions.py`, each changes a `ctc_lattice.py`), posteriors (`ctc_posteriors.py`) and special
cases (`ctc_special.py`); in RNN-T's recursions (`rnnt_recursions.py`, each changes an `rnnt_grid.py`) and posteriors
(`rnnt_posteriors.py`); in what goes into the recursions of either (`inputs.py`) and what is made of them
(`results.py`); and mistakes with a number in them, which is fitted (`fitted.py`). `shared.py` has what these files
share. `applied.py` makes each mistake in every place where it may be made.
"""

from .applied import answers, names
from .fitted import fitted
from .shared import LOSS as LOSS_ALONE

__all__ = ["LOSS_ALONE", "answers", "fitted", "names"]
