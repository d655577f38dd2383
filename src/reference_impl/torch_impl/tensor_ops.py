"""The losses as tensor operations, differentiable twice, where there is float64: log-probs gathered, on arcs, summed.

A loss is told from another by which log-prob each kind of arc takes, and how far it goes; :mod:`.log_probs` and
:mod:`.grid` do the rest. Arguments come checked for shape and dtype; labels, rows and lengths may still be wrong
(``validate=False``), which makes their utterance NaN. CTC and RNN-T also have faster backends; of their gradients, too,
the derivatives are taken here (:mod:`.derivatives`).
"""

from __future__ import annotations

import functools

import torch

from .derivatives import twice_differentiable, why_once
from .edges import compute_dtype, effective_upstream, handed_back, in_range, in_use, loss_values
from .grid import Steps, backward_sweep, forward_sweep, grid_losses, minus_scaled
from .log_probs import gather_log_probs, gathered, scattered
from .tracing import operator, traced

__all__ = ["arc_losses", "ctc_losses", "monotonic_losses", "multi_blank_losses", "pruned_losses", "rnnt_losses",
           "tdt_losses"]

_BLANK, _LABEL = (1, 0), (0, 1)  # frames and rows that an RNN-T arc goes on


def ctc_losses(logits, targets, logit_lengths, target_lengths, blank, normalise, overwrite=False):
    """Losses (B,) of logits (B, T, V), or of log-probs if ``normalise`` is False.

    Node (t, s): t frames are done, the last of them in state s. Every path starts as if a blank came before frame 0. An
    arc stays in its state, goes to the next or skips one, and takes the symbol of the state that it enters.
    """
    B, T, V = logits.shape
    labels, T_of, U_of, usable = in_range(targets, logit_lengths, target_lengths, T, V, blank, least_frames=0)
    extended = labels.new_full((B, 2 * labels.shape[1] + 1), blank)
    extended[:, 1::2] = labels
    states = in_use(2 * U_of + 1, extended.shape[1])[:, None]
    nodes = in_use(T_of, T)[:, :, None] & states
    emission = gather_log_probs(logits, extended[:, None].expand(B, T, -1), nodes, normalise=normalise,
                                overwrite=overwrite)
    skips = torch.zeros_like(extended, dtype=torch.bool)
    skips[:, 2:] = extended[:, 2:] != extended[:, :-2]
    scores = (emission, _of_state_above(emission, 1),
              _of_state_above(emission.masked_fill(~skips[:, None], -torch.inf), 2))
    state = torch.arange(extended.shape[1], device=logits.device)
    final = (state == 2 * U_of[:, None]) | (state == 2 * U_of[:, None] - 1)
    return grid_losses(scores, ((1, 0), (1, 1), (1, 2)), nodes, T_of, final, usable, compute_dtype(logits), normalise)


def _of_state_above(emission, up):
    """What an arc emits that goes ``up`` states: nothing where there is none."""
    return torch.nn.functional.pad(emission[..., up:], (0, min(up, emission.shape[-1])), value=-torch.inf)


def rnnt_losses(logits, targets, logit_lengths, target_lengths, blank, normalise, overwrite=False, fastemit_lambda=0.0,
                clamp=None):
    """Losses (B,) of logits (B, T, U+1, V), or of log-probs if ``normalise`` is False.

    ``fastemit_lambda`` and ``clamp`` (None: no bound) change what ``backward`` returns, not the losses.
    """
    if fastemit_lambda or clamp is not None:
        field = _field if traced(logits) else functools.partial(_Field.apply, overwrite)
        return field(logits, targets, logit_lengths, target_lengths, blank, normalise, fastemit_lambda, clamp)
    grid = _Grid(logits.shape, targets, logit_lengths, target_lengths, blank)
    return grid.losses(grid.log_probs(logits, (blank,), normalise, overwrite), (_BLANK, _LABEL), compute_dtype(logits),
                       normalise)


def monotonic_losses(logits, targets, logit_lengths, target_lengths, blank, normalise):
    """The same for monotonic RNN-T, where a label advances a frame, too."""
    grid = _Grid(logits.shape, targets, logit_lengths, target_lengths, blank)
    return grid.losses(grid.log_probs(logits, (blank,), normalise), (_BLANK, (1, 1)), compute_dtype(logits), normalise)


def multi_blank_losses(logits, targets, logit_lengths, target_lengths, blank, normalise, big_blanks, sigma):
    """The same for multi-blank RNN-T: ``big_blanks`` are pairs of symbol and frames; an arc weighs ``sigma`` less."""
    grid = _Grid(logits.shape, targets, logit_lengths, target_lengths, blank, *(symbol for symbol, _ in big_blanks))
    log_probs = grid.log_probs(logits, (blank, *(symbol for symbol, _ in big_blanks)), normalise)
    steps = (_BLANK, *((frames, 0) for _, frames in big_blanks), _LABEL)
    return grid.losses([each - sigma for each in log_probs], steps, compute_dtype(logits), normalise)


def tdt_losses(logits, duration_logits, targets, logit_lengths, target_lengths, blank, normalise, durations, sigma,
               final_blank):
    """The same for the token-and-duration transducer: ``duration_logits`` is (B, T, U+1, D)."""
    grid = _Grid(logits.shape, targets, logit_lengths, target_lengths, blank)
    blanks, labels = (each - sigma for each in grid.log_probs(logits, (blank,), normalise))
    everywhere = torch.arange(len(durations), device=logits.device).expand(duration_logits.shape)
    of_duration = gather_log_probs(duration_logits, everywhere, grid.nodes[..., None].expand(duration_logits.shape),
                                   normalise=normalise).unbind(-1)
    arcs = []
    for frames, weights in zip(durations, of_duration, strict=True):
        if frames > 0:
            arcs.append((blanks + weights, (frames, 0)))
        scores = labels + weights
        arcs.append((grid.before_the_end(scores, frames) if final_blank else scores, (frames, 1)))
    scores, steps = zip(*arcs, strict=True)
    return grid.losses(scores, steps, compute_dtype(logits), normalise)


def pruned_losses(logits, first_rows, targets, logit_lengths, target_lengths, blank, normalise, label_frames):
    """The same for logits (B, T, Q, V) of rows ``first_rows[b, t]`` and up: the other nodes do not exist.

    A label advances ``label_frames`` frames, 0 or 1.
    """
    B, T, Q, V = logits.shape
    grid = _Grid((B, T, targets.shape[1] + 1, V), targets, logit_lengths, target_lengths, blank)
    first, last = first_rows.clamp(0, targets.shape[1] + 1 - Q), grid.nodes.shape[2] - 1
    grid.usable = grid.usable & ~((first != first_rows) & in_use(grid.T_of, T)).any(1)
    rows = first[..., None] + torch.arange(Q, device=logits.device)
    symbols = torch.nn.functional.pad(grid.labels, (0, 1))[:, None].expand(B, T, last + 1).gather(2, rows)
    index = torch.stack([torch.full_like(symbols, blank), symbols], -1)
    used = grid.arcs(2).gather(2, rows[..., None].expand(B, T, Q, 2))
    band = gather_log_probs(logits, index, used, normalise=normalise)
    whole = band.new_full((B, T, last + 1, 2), -torch.inf).scatter(2, rows[..., None].expand(B, T, Q, 2), band)
    return grid.losses(whole.unbind(-1), (_BLANK, (label_frames, 1)), compute_dtype(logits), normalise)


def arc_losses(blank_scores, label_scores, logit_lengths, target_lengths, label_frames):
    """The same for scores of arcs, (B, T, U+1) and (B, T, U)."""
    B, T, rows = blank_scores.shape
    any_labels = logit_lengths.new_ones((B, rows - 1))  # which they are has no meaning here
    grid = _Grid((B, T, rows, 2), any_labels, logit_lengths, target_lengths, 0)
    scores = []
    for each, there in zip((blank_scores, torch.nn.functional.pad(label_scores, (0, 1))), grid.arcs(2).unbind(-1),
                           strict=True):
        scores.append(each.to(torch.float64).masked_fill(~there, -torch.inf))
    return grid.losses(scores, (_BLANK, (label_frames, 1)), compute_dtype(blank_scores), False)


class _Grid:
    """Nodes (t, u) of a batch of transducer lattices, and what leaves them."""

    def __init__(self, shape, targets, logit_lengths, target_lengths, blank, *big_blanks):
        _, T, rows, V = shape
        self.labels, self.T_of, self.U_of, self.usable = in_range(
            targets, logit_lengths, target_lengths, T, V, blank, *big_blanks, least_frames=1)
        self.nodes = in_use(self.T_of, T)[:, :, None] & in_use(self.U_of + 1, rows)[:, None]

    def arcs(self, kinds):
        """Which arcs there are, (B, T, U+1, kinds): blanks of all kinds but the last, which is the label."""
        there = self.nodes[..., None].repeat(1, 1, 1, kinds)
        there[..., -1] &= in_use(self.U_of, self.nodes.shape[2])[:, None]
        return there

    def log_probs(self, logits, blanks, normalise, overwrite=False):
        """One (B, T, U+1) tensor for each of the blanks, and one for the labels."""
        return gather_log_probs(logits, self.symbols(blanks), self.arcs(len(blanks) + 1), normalise=normalise,
                                overwrite=overwrite).unbind(-1)

    def symbols(self, blanks):
        """What the arcs emit, (B, T, U+1, kinds)."""
        labels = torch.nn.functional.pad(self.labels, (0, 1))  # nothing is emitted in the last row
        index = torch.stack([*(torch.full_like(labels, blank) for blank in blanks), labels], -1)
        return index[:, None].expand(*self.nodes.shape, len(blanks) + 1)

    def before_the_end(self, scores, frames):
        """Scores of arcs that go on some frames and may not arrive behind the last one."""
        T = self.nodes.shape[1]
        return scores.masked_fill(~in_use(self.T_of - frames, T)[:, :, None], -torch.inf)

    def losses(self, scores, steps, dtype, normalised):
        return grid_losses(scores, steps, self.nodes, self.T_of, self.final(), self.usable, dtype, normalised)

    def final(self):
        """Paths end behind the last frame, with all labels out."""
        return torch.arange(self.nodes.shape[2], device=self.U_of.device) == self.U_of[:, None]


class _Field(torch.autograd.Function):
    """RNN-T with a backward pass that is no gradient of it: FastEmit's field, a clamped gradient, or both."""

    @staticmethod
    def forward(ctx, overwrite, logits, targets, logit_lengths, target_lengths, blank, normalise, fastemit_lambda,
                clamp):
        ctx.overwrite, ctx.options = overwrite, (blank, normalise, fastemit_lambda, clamp)
        ctx.again, ctx.once = functools.partial(_field_again, ctx.options), why_once(overwrite, fastemit_lambda, clamp)
        losses, *states = _field_losses(logits, targets, logit_lengths, target_lengths, blank, normalise)
        ctx.save_for_backward(logits, targets, logit_lengths, target_lengths, *states)
        return losses

    @staticmethod
    def backward(ctx, upstream):
        return None, _field_backward(ctx, upstream), *[None] * 7


@twice_differentiable
def _field_backward(ctx, upstream, logits, targets, logit_lengths, target_lengths, *states):
    gradient = _field_gradient(upstream, logits, targets, logit_lengths, target_lengths, *ctx.options, *states,
                               overwrite=ctx.overwrite)
    return handed_back(gradient, logits, ctx.overwrite)


def _field_again(options, *given):
    return _Field.apply(False, *given, *options)


_FIELD = Steps((_BLANK, _LABEL))


def _field_losses(logits, targets, logit_lengths, target_lengths, blank, normalise, *_):
    """The losses, and what the field takes."""
    grid = _Grid(logits.shape, targets, logit_lengths, target_lengths, blank)
    log_probs, peak, mass = gathered(logits, grid.symbols((blank,)), grid.arcs(2), normalise)
    log_z, *shares = forward_sweep(_FIELD, grid.T_of, grid.final(), grid.usable, log_probs.unbind(-1))
    return loss_values(log_z, compute_dtype(logits), normalise), peak.contiguous(), mass.contiguous(), log_z, *shares


def _field_like(logits, *_):
    B, T, rows, _ = logits.shape
    log_z = logits.new_empty(B, dtype=torch.float64)
    peak = logits.new_empty((B, T, rows), dtype=compute_dtype(logits))
    return (torch.empty_like(log_z, dtype=peak.dtype), peak, torch.empty_like(peak, dtype=torch.float64), log_z,
            log_z.new_empty(_FIELD.count(T, rows), 2, B, rows), log_z.new_empty(B, rows))


def _field_gradient(upstream, logits, targets, logit_lengths, target_lengths, blank, normalise, fastemit_lambda, clamp,
                    peak, mass, log_z, shares, end_shares, overwrite=False):
    """What ``backward`` returns, in the type to compute in."""
    grid = _Grid(logits.shape, targets, logit_lengths, target_lengths, blank)
    before = upstream if clamp is None else torch.ones_like(upstream)
    posteriors, _ = backward_sweep(_FIELD, logits.shape[1], grid.T_of, shares, end_shares)
    of_blanks, of_labels = minus_scaled(posteriors, before, log_z, grid.nodes)
    flow = torch.stack([of_blanks, of_labels * (1.0 + fastemit_lambda)], -1)
    gradient = scattered(flow, logits, grid.symbols((blank,)), peak, mass, normalise, overwrite)
    if clamp is not None:
        upstream, flows = effective_upstream(upstream, log_z)
        gradient.clamp_(-clamp, clamp).mul_(upstream.to(gradient.dtype)[:, None, None, None])
        gradient.masked_fill_(~(grid.nodes & flows[:, None, None])[..., None], 0.0)
    return gradient


_field = operator(
    "rnnt_field", "Tensor logits, Tensor targets, Tensor logit_lengths, Tensor target_lengths, int blank, "
    "bool normalise, float fastemit_lambda, float? clamp", 5, _field_losses, _field_like,
    lambda upstream, logits, *rest: _field_gradient(upstream, logits, *rest).to(logits.dtype).contiguous())
