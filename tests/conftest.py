"""What all tests share: one thread for torch, a reproducible hypothesis. Fixtures of one subject live in its file."""

import hypothesis
import matplotlib
import torch

matplotlib.use("Agg")
torch.set_num_threads(1)

# the same examples on every machine, and no deadline: a slow machine is not a wrong result
hypothesis.settings.register_profile("book", deadline=None, derandomize=True, max_examples=40)
hypothesis.settings.load_profile("book")
