"""Every loss and every kind of check in one table, measured here; ``make variants`` writes it to data/variants.json.

A test fails if an error is larger than its column allows, or if the committed table has other rows and columns than are
measured. Three utterances for each loss, three symbols, the blank among them, random scores.
"""

import json
import platform
from datetime import UTC, datetime
from fractions import Fraction
from functools import cache
from math import prod
from pathlib import Path

import numpy as np
import pytest
import torch
from enumeration import alignments, rnnt_alignments
from implementations import KINDS, LATTICE, TORCH
from variants import VARIANTS

from reference_impl import hat, lattice_loss, log_softmax, rnnt
from reference_impl.differences import check_gradient, exact_difference
from reference_impl.duals import duals
from reference_impl.lattice import arc_posteriors, forward
from reference_impl.semiring import REAL
from reference_impl.topology import monotonic_rnnt_lattice, rnnt_lattice, star_log_probs
from reference_impl.torch_impl import arc_rnnt_loss, hat_log_probs, rnnt_loss

pytestmark = pytest.mark.slow
TABLE = Path(__file__).parents[1] / "data" / "variants.json"
UTTERANCES = [(5, [1, 1, 2]), (4, [2, 1]), (4, [1])]
V = 3
DTYPES = {"float64": torch.float64, "float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}

#: The largest error that a column may have. A finite difference of float64 is good to about 1e-9.
ALLOWED = {"lattice = enumeration": 1e-12, "log-probs": 1e-8, "logits": 1e-8, "float64": 1e-12,
           "float32": 4 * 2.0**-23, "float16": 4 * 2.0**-10, "bfloat16": 4 * 2.0**-7}


def scores_of(shape, seed):
    return np.random.default_rng([87, seed]).normal(size=shape)


class OfLattice:
    """A loss that is a lattice on log-probs, by itself or after log-softmax of groups of symbols."""

    def __init__(self, lattice, paths, by_torch, groups):
        self.lattice, self.paths, self.by_torch, self.groups = lattice, paths, by_torch, groups

    def utterances(self):
        for seed, (T, targets) in enumerate(UTTERANCES):
            lattice = self.lattice(targets, T, V, 0)
            yield lattice, self.paths(targets, T, V, 0), scores_of(lattice.shape, seed), (T, targets)

    def log_probs(self, logits):
        cuts = np.cumsum(self.groups)[:-1]
        return np.concatenate([log_softmax(part) for part in np.split(logits, cuts, -1)], -1)

    def enumeration(self):
        """Largest error of loss and occupancy."""
        for lattice, paths, scores, _ in self.utterances():
            weights = np.exp([sum(scores[entry] for entry in path) for path in paths])
            expected = np.zeros(lattice.shape)
            for path, weight in zip(paths, weights / weights.sum(), strict=True):
                for entry in path:
                    expected[entry] += weight
            yield abs(lattice_loss.loss(lattice, scores) + np.log(weights.sum()))
            yield np.abs(lattice_loss.occupancy(lattice, scores) - expected).max()

    def differences(self, variable):
        for lattice, _, scores, _ in self.utterances():
            if variable == "log-probs":
                def loss(z, lattice=lattice):
                    return lattice_loss.loss(lattice, z)
                gradient = lattice_loss.grad_log_probs(lattice, scores)
            else:
                def loss(z, lattice=lattice):
                    return lattice_loss.loss(lattice, self.log_probs(z))
                gradient = lattice_loss.grad_logits(lattice, scores, groups=self.groups)
            yield check_gradient(loss, gradient, scores).error

    def exact(self):
        """How many derivatives of Z in a probability are Z times occupancy, over the probability: equal fractions."""
        for seed, (lattice, *_) in enumerate(self.utterances()):
            y = np.random.default_rng(seed).integers(1, 90, lattice.shape) * Fraction(1, 7)
            weights = lattice.arc_weights(y, REAL)
            z = forward(lattice, weights, REAL)[-1]
            occupancy = lattice.occupancy(arc_posteriors(lattice, weights, REAL))

            def total(y, lattice=lattice):
                return forward(lattice, lattice.arc_weights(y, REAL), REAL)[-1]

            for entry in np.ndindex(lattice.shape):
                assert y[entry] * exact_difference(total, y, entry, h=5) == z * occupancy[entry]
                yield 1

    def torch(self, dtype):
        """Largest error of loss and logit gradient, of each utterance alone, on the numbers that the type can hold."""
        if self.by_torch is None:
            return
        for lattice, _, scores, (T, targets) in self.utterances():
            z = torch.tensor(scores[None]).to(dtype).requires_grad_()
            loss = self.by_torch(z, torch.tensor([targets]), torch.tensor([T]), torch.tensor([len(targets)]))
            loss.backward()
            rounded = z.detach()[0].double().numpy()
            yield abs(loss.item() / lattice_loss.loss(lattice, self.log_probs(rounded)) - 1)
            expected = lattice_loss.grad_logits(lattice, rounded, groups=self.groups)
            yield np.abs(z.grad[0].double().numpy() - expected).max()

    def second(self):
        """Whether gradgradcheck passes in both variables; None where there is no torch loss."""
        if self.by_torch is None:
            return None
        passed = True
        for _, _, scores, (T, targets) in self.utterances():
            arguments = torch.tensor([targets]), torch.tensor([T]), torch.tensor([len(targets)])
            for inputs in ("logits", "log_probs"):
                passed &= torch.autograd.gradgradcheck(
                    lambda z, arguments=arguments, inputs=inputs: self.by_torch(z, *arguments, inputs=inputs),
                    torch.tensor(scores[None], requires_grad=True), atol=1e-6)
        return passed


class OfStars(OfLattice):
    """Star CTC: among the log-probs stars are entries of their own; from logits they are sums of the others."""

    def differences(self, variable):
        if variable == "log-probs":
            yield from super().differences(variable)
            return
        for seed, (lattice, _, _, (T, _)) in enumerate(self.utterances()):
            logits = scores_of((T, V), seed)

            def scores(z):
                return star_log_probs(log_softmax(z), star_weight=-1.0)

            y, uses = np.exp(log_softmax(logits)), lattice_loss.occupancy(lattice, scores(logits))
            shared = uses[:, :V].copy()  # eq-gallery-star-logits: what a star is used is shared out among its symbols
            for left_out in range(V):
                meant = [k for k in range(1, V) if k != left_out]
                shared[:, meant] += uses[:, V + left_out, None] * y[:, meant] / y[:, meant].sum(1, keepdims=True)
            yield check_gradient(lambda z, lattice=lattice, scores=scores: lattice_loss.loss(lattice, scores(z)),
                                 y * shared.sum(1, keepdims=True) - shared, logits).error


class OfHat(OfLattice):
    """HAT: the RNN-T lattice, and another way from logits to log-probs."""

    def log_probs(self, logits):
        return hat.log_probs(logits)

    def differences(self, variable):
        if variable == "log-probs":
            yield from super().differences(variable)
            return
        for _, _, logits, (_, targets) in self.utterances():
            yield check_gradient(lambda z, targets=targets: hat.loss(z, targets), hat.grad_logits(logits, targets),
                                 logits).error

    def exact(self):
        """The closed form in fractions of exponentials of the logits, against dual numbers on enumerated paths."""
        for seed, (lattice, paths, _, (_, targets)) in enumerate(self.utterances()):
            x = np.random.default_rng(seed).integers(1, 40, lattice.shape) * Fraction(1, 3)
            e_blank, e_label, next_label = fractions_of_arcs(hat_probabilities(x), paths, targets)
            for entry in np.ndindex(lattice.shape):
                nudge = np.full(lattice.shape, Fraction(0))
                nudge[entry] = Fraction(1)
                y = hat_probabilities(duals(x, x * nudge))
                z = sum(prod(y[e] for e in path) for path in paths)
                node, k = entry[:-1], entry[-1]
                s, q = x[*node, 0] / (1 + x[*node, 0]), x[entry] / sum(x[*node, 1:])
                closed = (e_label[node] * s - e_blank[node] * (1 - s) if k == 0
                          else e_label[node] * (q - (k == next_label[node[1]])))
                assert -z.tangent / z.value == closed
                yield 1

    def torch(self, dtype):
        """HAT's log-probs are computed in the type of the logits, so the bound is that type's."""
        for _, _, scores, (T, targets) in self.utterances():
            z = torch.tensor(scores[None]).to(dtype).requires_grad_()
            loss = self.by_torch(z, torch.tensor([targets]), torch.tensor([T]), torch.tensor([len(targets)]))
            loss.backward()
            rounded = z.detach()[0].double().numpy()
            yield np.abs(z.grad[0].double().numpy() - hat.grad_logits(rounded, targets)).max()


def hat_probabilities(x):
    y = x / (1 + x)
    y[..., 1:] = x[..., 1:] / x[..., 1:].sum(-1, keepdims=True) / (1 + x[..., :1])
    return y


def fractions_of_arcs(y, paths, targets):
    """Posteriors of the blank and label arcs of each node, and the next label of each row."""
    e = np.full(y.shape, Fraction(0))
    masses = [prod(y[entry] for entry in path) for path in paths]
    for path, mass in zip(paths, masses, strict=True):
        for entry in path:
            e[entry] += mass / sum(masses)
    return e[..., 0], e[..., 1:].sum(-1), [*targets, -1]


def hat_loss(z, *arguments, inputs="logits"):
    return rnnt_loss(hat_log_probs(z) if inputs == "logits" else z, *arguments, inputs="log_probs")


def arcs_loss(label_frames):
    def loss(scores, targets, *lengths, inputs="log_probs"):
        blanks, labels = scores.unbind(-1)
        return arc_rnnt_loss(blanks, labels[:, :, :-1], *lengths, label_frames=label_frames)
    return loss


class OfArcs(OfLattice):
    """Scores of arcs, blank and label of each node: k2's recursion. They come from no softmax."""

    def utterances(self):
        for seed, (T, targets) in enumerate(UTTERANCES):
            lattice, paths = (each([1] * len(targets), T, 2, 0) for each in (self.lattice, self.paths))
            yield lattice, paths, scores_of(lattice.shape, seed), (T, targets)

    def log_probs(self, logits):
        return logits

    def differences(self, variable):
        return super().differences(variable) if variable == "log-probs" else iter(())

    def torch(self, dtype):
        for lattice, _, scores, (T, targets) in self.utterances():
            z = torch.tensor(scores[None]).to(dtype).requires_grad_()
            loss = self.by_torch(z, None, torch.tensor([T]), torch.tensor([len(targets)]))
            loss.backward()
            rounded = z.detach()[0].double().numpy()
            yield abs(loss.item() / lattice_loss.loss(lattice, rounded) - 1)
            yield np.abs(z.grad[0].double().numpy() - lattice_loss.grad_log_probs(lattice, rounded)).max()

    def second(self):
        passed = True
        for _, _, scores, (T, targets) in self.utterances():
            lengths = torch.tensor([T]), torch.tensor([len(targets)])
            passed &= torch.autograd.gradgradcheck(lambda z, lengths=lengths: self.by_torch(z, None, *lengths),
                                                   torch.tensor(scores[None], requires_grad=True), atol=1e-6)
        return passed


class OfRule(OfLattice):
    """A backward pass that is no gradient of the loss, so that only torch against the explicit rule is left."""

    def __init__(self, rule, **options):
        super().__init__(None, None, None, None)
        self.rule, self.options = rule, options

    def utterances(self):
        for seed, (T, targets) in enumerate(UTTERANCES):
            yield None, None, scores_of((T, len(targets) + 1, V), seed), (T, targets)

    def enumeration(self):
        return iter(())

    def exact(self):
        return iter(())

    def differences(self, variable):
        """They must differ: a check that passed would have seen the gradient, not the rule."""
        for _, _, scores, (T, targets) in self.utterances():
            arguments = torch.tensor([targets]), torch.tensor([T]), torch.tensor([len(targets)])
            inputs = variable.replace("-", "_")
            assert not torch.autograd.gradcheck(
                lambda z, arguments=arguments, inputs=inputs: rnnt_loss(z, *arguments, inputs=inputs, **self.options),
                torch.tensor(scores[None], requires_grad=True), raise_exception=False)
        return iter(())

    def torch(self, dtype):
        for _, _, scores, (T, targets) in self.utterances():
            z = torch.tensor(scores[None]).to(dtype).requires_grad_()
            rnnt_loss(z, torch.tensor([targets]), torch.tensor([T]), torch.tensor([len(targets)]),
                      **self.options).backward()
            yield np.abs(z.grad[0].double().numpy() - self.rule(z.detach()[0].double().numpy(), targets)).max()

    def second(self):
        return None


def fastemit(logits, targets):
    return rnnt.grad_logits(logits, targets, fastemit_lambda=0.5)


def clamped(logits, targets):
    return np.clip(rnnt.grad_logits(logits, targets), -0.1, 0.1)


LOSSES = {
    **{{"ctc": "CTC", "rnnt": "RNN-T"}[kind]: OfLattice(
        lambda *a, kind=kind: LATTICE[kind](*a[:3], blank=a[3]), lambda *a, kind=kind: alignments(kind, *a),
        TORCH[kind], (V,)) for kind in KINDS},
    "FastEmit": OfRule(fastemit, fastemit_lambda=0.5),
    "clamp": OfRule(clamped, clamp=0.1),
    "k2, regular": OfArcs(lambda *a: rnnt_lattice(*a[:3]), rnnt_alignments, arcs_loss(0), (2,)),
    "k2, modified": OfArcs(lambda *a: monotonic_rnnt_lattice(*a[:3]), VARIANTS["monotonic"].alignments, arcs_loss(1),
                           (2,)),
    **{name: OfLattice(variant.lattice, variant.alignments, variant.torch, variant.groups(V))
       for name, variant in VARIANTS.items() if name not in ("star", "wildcards")},
    "HAT": OfHat(lambda *a: rnnt_lattice(*a[:3]), rnnt_alignments, hat_loss, (V,)),
    "star": OfStars(VARIANTS["star"].lattice, VARIANTS["star"].alignments, None, (2 * V,)),
    "wildcards": OfLattice(VARIANTS["wildcards"].lattice, VARIANTS["wildcards"].alignments, None, (V,)),
}


@cache
def row(name):
    """What the table says of a loss; None where a column does not apply."""
    loss = LOSSES[name]
    cells = {"lattice = enumeration": loss.enumeration(), "log-probs": loss.differences("log-probs"),
             "logits": loss.differences("logits"), **{dtype: loss.torch(DTYPES[dtype]) for dtype in DTYPES}}
    cells = {column: max(map(float, errors), default=None) for column, errors in cells.items()}
    return {**cells, "exact": sum(loss.exact()) or None, "gradgradcheck": loss.second()}


@pytest.mark.parametrize("name", LOSSES)
def test_row(name):
    """Every cell within what its column allows."""
    cells = row(name)
    for column, allowed in ALLOWED.items():
        assert cells[column] is None or cells[column] <= allowed, column
    assert cells["exact"] is None or cells["exact"] >= 20
    assert cells["gradgradcheck"] in (True, None)
    assert any(value is not None for value in cells.values())


def test_written_table(request):
    """The committed table is of these losses and columns; its errors are within the same bounds."""
    if request.config.getoption("--write-table"):
        versions = {"numpy": np.__version__, "torch": torch.__version__, "python": platform.python_version()}
        content = {"what": "largest errors of each loss in tests/test_variants_table.py; exact: derivatives compared "
                           "as fractions", "date": datetime.now(UTC).date().isoformat(), "versions": versions,
                   "rows": {name: row(name) for name in LOSSES}}
        TABLE.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    written = json.loads(TABLE.read_text(encoding="utf-8"))["rows"]
    assert list(written) == list(LOSSES)
    for name, cells in written.items():
        measured = row(name)
        assert list(cells) == list(measured)
        for column, value in cells.items():
            assert (value is None) == (measured[column] is None), (name, column)
            assert column not in ALLOWED or value is None or value <= ALLOWED[column]
