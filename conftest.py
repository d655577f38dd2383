"""Before any test or doctest is collected: whether and how Triton's kernels can run here."""

import importlib.util
import os

import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # the same kernels, on the CPU; read when triton is imported

collect_ignore_glob = [] if importlib.util.find_spec("triton") else ["src/reference_impl/torch_impl/triton_*.py"]
if not importlib.util.find_spec("nbgrader"):  # it is in .venv-course, where these run
    of_grading = ("grading/referee", "fences/fenced_kernel", "pages", "instructor_pack")
    collect_ignore_glob += [f"src/coursework/{name}.py" for name in of_grading]
