"""The one file to take along, made and run where only NumPy can be imported, against the package: every number equal.

What is compared is computed twice by the same operations, so nothing may differ, not even by rounding.
"""

import pickle
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import reference_impl
from reference_impl import ctc, log_softmax, rnnt, semiring

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT / "book" / "_ext"))
from one_file import NAME, Package, one_file  # noqa: E402

# It runs in an empty folder. Nothing is left that could import the package, torch or sympy
ALONE = """
import doctest, importlib.abc, pickle, runpy, sys
class Refuse(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in {*sys.stdlib_module_names, "numpy", "ctc_rnnt_reference"}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Refuse())
sys.path.insert(0, sys.argv[1])
import ctc_rnnt_reference as module
failed, tried = doctest.testmod(module)
try:
    import reference_impl
except ModuleNotFoundError:
    alone = True
results = []
for name, arguments, options in pickle.load(open(sys.argv[2], "rb")):
    if "semiring" in options:
        options = options | {"semiring": getattr(module, options["semiring"])}
    try:
        results.append(getattr(module, name)(*arguments, **options))
    except (TypeError, ValueError) as error:
        results.append((type(error).__name__, str(error)))
pickle.dump((alone, failed, tried, results), open(sys.argv[3], "wb"))
"""
OF_ONE = ["loss", "log_alpha", "log_beta", "occupancy", "grad_log_probs", "grad_logits"]
BAD = [
    ("ctc", np.zeros((3, 4)), [0]), ("ctc", np.zeros((3, 4)), [4]), ("ctc", np.zeros((3, 4)), [1.5]),
    ("ctc", np.zeros(3), [1]), ("ctc", np.zeros((3, 4), int), [1]), ("ctc", np.full((3, 4), np.nan), [1]),
    ("rnnt", np.zeros((3, 3, 4)), [1]), ("rnnt", np.zeros((0, 2, 4)), [1]), ("rnnt", np.full((3, 2, 4), np.inf), [1]),
    ("rnnt", np.zeros((3, 2)), [1]), ("rnnt", np.zeros((3, 2, 4)), [[1]]), ("rnnt", np.zeros((3, 2, 4)), [-1]),
]


def utterances():
    """(loss, scores, targets, blank): random ones, and the edges."""
    rng = np.random.default_rng(7)
    for T, targets, V in [(5, [1, 2], 4), (6, [1, 1, 3], 5), (4, [2], 3), (1, [1], 2), (3, [], 3), (2, [1, 1], 3)]:
        for blank in (0, V - 1):
            labels = np.array([label if label != blank else 0 for label in targets], np.int64)
            yield "ctc", rng.normal(size=(T, V)), labels, blank  # the last has no alignment
            yield "rnnt", rng.normal(size=(T, len(labels) + 1, V)), labels, blank
    masked, grid = rng.normal(size=(4, 4)), rng.normal(size=(3, 3, 4))
    masked[1, 0] = masked[2] = grid[0, 0, 1] = grid[1, :, 0] = -np.inf
    yield "ctc", masked, np.array([1, 2]), 0
    yield "rnnt", grid, np.array([1, 2]), 0
    yield "ctc", np.zeros((0, 3)), np.array([], np.int64), 0
    yield "ctc", np.zeros((0, 3)), np.array([1]), 0
    yield "ctc", rng.normal(size=(3, 3)).astype(np.float32), np.array([1], np.int32), 0


def cases():
    """What is called: (module, name, arguments, options)."""
    for loss, scores, targets, blank in utterances():
        yield from ((loss, name, (scores, targets), {"blank": blank}) for name in OF_ONE)
        probs = np.exp(scores).astype(object) * Fraction(1, 3)
        for recursion in ("alpha", "beta"):
            yield loss, recursion, (probs, targets), {"blank": blank, "semiring": "REAL"}
            yield loss, recursion, (scores, targets), {"blank": blank, "semiring": "COUNT"}
        yield "", "log_softmax", (scores,), {}
    for loss, scores, targets in BAD:
        yield from ((loss, name, (scores, targets), {}) for name in ("loss", "grad_logits", "occupancy"))
    for value in (0.5, -1.0, "a lot"):
        for name in ("grad_logits", "grad_log_probs"):
            yield "rnnt", name, (np.zeros((2, 2, 3)), [1]), {"fastemit_lambda": value}
    yield "rnnt", "arc_posteriors", (np.zeros((3, 3, 2)), [1, 1]), {}
    yield "ctc", "loss", (np.zeros((2, 3)), [1]), {"blank": 3}
    yield "ctc", "loss", (np.zeros((2, 3)), [1]), {"blank": True}


def expected(loss, name, arguments, options):
    function = getattr({"ctc": ctc, "rnnt": rnnt}[loss], name) if loss else log_softmax
    if "semiring" in options:
        options = options | {"semiring": getattr(semiring, options["semiring"])}
    try:
        return function(*arguments, **options)
    except (TypeError, ValueError) as error:
        return type(error).__name__, str(error)


def same(a, b):
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    a, b = np.asarray(a), np.asarray(b)
    return a.dtype == b.dtype and a.shape == b.shape and bool((a == b).all())


def run_alone(text, folder, asked):
    (folder / NAME).write_text(text, encoding="utf-8")
    (folder / "asked").write_bytes(pickle.dumps(asked))
    command = [sys.executable, "-I", "-c", ALONE, folder, folder / "asked", folder / "got"]
    subprocess.run(command, check=True, cwd=folder, timeout=300)
    return pickle.loads((folder / "got").read_bytes())


@pytest.fixture(scope="module")
def got(tmp_path_factory):
    asked = [(f"{loss}_{name}".lstrip("_"), arguments, options) for loss, name, arguments, options in cases()]
    return run_alone(one_file(ROOT), tmp_path_factory.mktemp("alone"), asked)


def test_it_runs_alone_with_its_examples(got):
    alone, failed, tried, _ = got
    assert alone and failed == 0 and tried > 15


def test_every_number_and_every_error_is_the_package_s(got):
    every, results = list(cases()), got[3]
    wrong = [(loss, name, *arguments) for (loss, name, arguments, options), result in zip(every, results, strict=True)
             if not same(expected(loss, name, arguments, options), result)]
    assert wrong == []
    errors = [result for result in results if is_error(result)]
    losses = [result for (_, name, *_), result in zip(every, results, strict=True)
              if name == "loss" and not is_error(result)]
    assert len(errors) == 3 * len(BAD) + 6
    assert losses.count(np.inf) > 2 and np.isfinite(losses).sum() > 10


def is_error(result):
    return isinstance(result, tuple) and isinstance(result[0], str)


def test_it_says_what_it_is():
    text = one_file(ROOT)
    head = text.partition("from __future__")[0]
    for words in ("BSD-3-Clause", reference_impl.__version__, "Generated", "NumPy",
                  "ctc_grad_logits(logits, targets, *, blank=0)"):
        assert words in head
    assert (ROOT / "LICENSE").read_text(encoding="utf-8").splitlines()[-1] in text
    assert ":func:" not in text and "reference_impl." not in text.replace("reference_impl 0", "")
    assert max(map(len, text.splitlines())) <= 120


def test_it_takes_along_what_is_reached_and_no_more():
    checks = {name for module, name in Package(ROOT / "src" / "reference_impl").taken if module == "_validation"}
    assert {"check_log_probs", "check_targets", "check_rows", "_fail"} <= checks
    assert not {"check_lattice", "check_durations", "check_band_height", "check_batch_axis"} & checks


# --- small packages, to see each rule at work and fail ---


SMALL = {
    "_softmax": '__all__ = ["log_softmax"]\ndef log_softmax(x):\n    return x\n',
    "semiring": '__all__ = ["LOG"]\n#: of logarithms\nLOG = 1\n',
    "ctc": '''"""About :func:`beta`."""
from . import _validation as checks
from .semiring import LOG
__all__ = ["alpha", "beta"]
def alpha(x, *, semiring=LOG):  # alpha stays in comments
    """See :func:`beta`.

    >>> from reference_impl import ctc
    >>> from reference_impl.ctc import alpha as a
    >>> alpha = ctc.alpha(3)
    >>> alpha + a(3)
    10
    """
    checks.check(x)
    return x + 2 * LOG
def beta(alpha):
    return [alpha for alpha in range(alpha)] + [_hidden(alpha)]
def _hidden(x):
    return alpha(x)
''',
    "rnnt": '__all__ = ["alpha"]\ndef alpha(x):\n    return 7\n',
    "_validation": "def check(x):\n    return x\ndef unused(x):\n    return x\n",
}


def small(folder, **changed):
    for name, text in {**SMALL, **changed}.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    return Package(folder)


def test_names_are_changed_where_they_mean_the_function(tmp_path):
    package = small(tmp_path)
    text = "\n".join(package.source(definition) for definition in package.taken.values())
    assert "def ctc_alpha(x, *, semiring=LOG):  # alpha stays in comments" in text
    assert "See ``ctc_beta``" in text and ">>> alpha = ctc_alpha(3)" in text and ">>> alpha + ctc_alpha(3)" in text
    assert "[alpha for alpha in range(alpha)] + [_ctc_hidden(alpha)]" in text
    assert "    check(x)" in text and "import" not in text and "unused" not in text
    assert "#: of logarithms\nLOG = 1" in text
    space = {}
    exec(text, space)
    assert space["ctc_beta"](2) == [0, 1, 4] and space["rnnt_alpha"](2) == 7


@pytest.mark.parametrize("changed, says", [
    ({"_validation": "def check(x):\n    return x\ndef ctc_beta(x):\n    return x\n",
      "rnnt": 'from ._validation import ctc_beta\n__all__ = ["alpha"]\ndef alpha(x):\n    return ctc_beta(x)\n'},
     "one name"),
    ({"_validation": "def other(x):\n    return x\n"}, "defines no check"),
    ({"rnnt": '__all__ = ["alpha"]\ndef alpha(x):\n    """As\n\n    >>> from reference_impl.ctc import gone\n'
              '    >>> gone(1)\n    """\n'}, "uses ctc.gone"),
])
def test_what_cannot_be_moved_is_refused(tmp_path, changed, says):
    with pytest.raises(ValueError, match=says):
        package = small(tmp_path, **changed)
        [package.source(definition) for definition in package.taken.values()]


def test_a_changed_file_is_noticed(tmp_path):
    """One sign changed in the file, one term left out, one check: the comparison sees each."""
    right = one_file(ROOT)
    asked = [("ctc_grad_logits", (np.zeros((3, 3)), [1]), {}), ("rnnt_alpha", (np.zeros((3, 2, 2)), [1]), {}),
             ("ctc_loss", (np.zeros((3, 3)), [3]), {})]
    answers = [ctc.grad_logits(np.zeros((3, 3)), [1]), rnnt.alpha(np.zeros((3, 2, 2)), [1]),
               expected("ctc", "loss", (np.zeros((3, 3)), [3]), {})]
    changes = [("keepdims=True) - expected", "keepdims=True) + expected"),
               ("semiring.plus(no_emit, emit)", "no_emit"), ("0 <= label < V = {", "0 <= label <= V = {")]
    for position, (old, new) in enumerate(changes):
        assert old in right
        results = run_alone(right.replace(old, new), tmp_path, asked)[3]
        assert [same(*pair) for pair in zip(answers, results, strict=True)] == [i != position for i in range(3)]
