"""Lattices on a grid of nodes (t, u), made of a few kinds of arcs: -log Z as tensor operations, differentiable twice.

This is the second half of every loss here: which arcs there are, and what they weigh, is said by :mod:`.tensor_ops`.
All nodes of a front are computed at once. The lattice is float64 and runs on shares, with logarithms, as in
:mod:`reference_impl.sweeps.logarithms`: alpha forward, occupancy back, and for the second derivative the tangents of
both.
"""

from __future__ import annotations

import torch

from .derivatives import gradients
from .edges import effective_upstream, loss_values
from .tracing import operator, traced

__all__ = ["Steps", "backward_sweep", "forward_sweep", "grid_losses", "minus_scaled"]


def grid_losses(scores, steps, nodes, last_frame, final, usable, dtype, normalised):
    """-log Z of each utterance.

    Every path starts at node (0, 0) and ends at a node (last_frame, u) with ``final[u]``.

    Parameters
    ----------
    scores : sequence of K float64 tensors (B, T, S)
        Log-weight of the arc of each kind that leaves each node, nats; ``-inf`` where there is none, as outside nodes;
        ``+inf``, which is no log-weight, is taken for NaN.
    steps : tuple of K pairs of ints
        Frames and rows that an arc of each kind goes on: 0 or more, and not both 0.
    nodes : (B, T, S) tensor of bool
        Nodes that arcs may leave.
    last_frame : (B,) tensor of int64
        In [0, T]: T is behind the last frame.
    final : (B, S) tensor of bool
    usable : (B,) tensor of bool
        Where False, the loss is NaN.
    dtype : torch dtype
        Of the losses.
    normalised : bool
        Whether Z is a probability by construction: then no loss is below 0.

    Returns
    -------
    (B,) tensor, nats
        ``inf`` where there is no path; then the gradient is exactly 0. An utterance whose loss is NaN has a gradient of
        NaN on all arcs that leave its nodes.
    """
    if traced(nodes):
        frames, rows = map(list, zip(*steps, strict=True))
        return _operator(list(scores), frames, rows, nodes, last_frame, final, usable, dtype, normalised)
    return _Losses.apply(Steps(steps), nodes, last_frame, final, usable, dtype, normalised, *scores)


def forward_sweep(steps, last_frame, final, usable, scores):
    """Log Z (B,), the shares of the arcs (N, K, B, S), and those of the nodes in Z, (B, S)."""
    alphas, shares = _forward(steps.by_front(scores, -torch.inf), steps)
    ending = steps.nodes(alphas)[last_frame, :, torch.arange(len(last_frame), device=last_frame.device)]
    ending.masked_fill_(~final, -torch.inf)
    log_z = torch.logsumexp(ending, 1).masked_fill(~usable, torch.nan)
    # exp(-inf - 0) where nothing ends or no path exists: no occupancy starts there
    return log_z, shares, (ending - log_z.masked_fill(log_z == -torch.inf, 0.0)[:, None]).exp()


def backward_sweep(steps, frames, last_frame, shares, end_shares):
    """The posteriors of the arcs of each kind, (B, T, S), and the occupancy of the nodes, (N, B, S)."""
    occupancy = _begun(shares, end_shares, last_frame, steps)
    return steps.by_kind(_backward(shares, occupancy, steps), frames), occupancy


def minus_scaled(posteriors, upstream, log_z, nodes):
    """The gradient in the scores of each kind: minus the posteriors, times the upstream gradient."""
    upstream, flows = effective_upstream(upstream, log_z)
    return tuple(_scaled(each, -upstream, nodes & flows[:, None, None]) for each in posteriors)


class _Losses(torch.autograd.Function):
    @staticmethod
    def forward(ctx, steps, nodes, last_frame, final, usable, dtype, normalised, *scores):
        log_z, shares, end_shares = forward_sweep(steps, last_frame, final, usable, scores)
        ctx.steps = steps
        ctx.save_for_backward(*scores, nodes, last_frame, log_z, shares, end_shares)
        return loss_values(log_z, dtype, normalised)

    @staticmethod
    def backward(ctx, upstream):
        return *[None] * 7, *gradients(_Derivatives(ctx.steps), *ctx.saved_tensors, upstream)


class _Derivatives:
    """Minus the posterior of each arc, times the upstream gradient, K tensors (B, T, S); and what these depend on."""

    def __init__(self, steps):
        self.steps, self.count = steps, len(steps.fronts)

    def gradients(self, *tensors):
        nodes, last_frame, log_z, shares, end_shares, upstream = tensors[self.count:]
        posteriors, _ = backward_sweep(self.steps, nodes.shape[1], last_frame, shares, end_shares)
        return minus_scaled(posteriors, upstream, log_z, nodes)

    def second(self, *tensors):
        """What no path can change does not: nodes without posterior, and masked arcs.

        An upstream gradient of 0 makes the gradient 0, and its derivative along this upstream gradient is none.
        """
        scores, direction = tensors[:self.count], tensors[-self.count:]
        nodes, last_frame, log_z, shares, end_shares, upstream = tensors[self.count:-self.count]
        posteriors, occupancy = backward_sweep(self.steps, nodes.shape[1], last_frame, shares, end_shares)
        factor, flows = effective_upstream(upstream, log_z)
        depends = log_z != -torch.inf
        live = nodes & depends[:, None, None]
        direction = [each.masked_fill(~live | (score == -torch.inf), 0.0)
                     for each, score in zip(direction, scores, strict=True)]
        along_upstream = -sum((each * posterior).sum((1, 2)) for each, posterior in
                              zip(direction, posteriors, strict=True)).masked_fill(~depends, 0.0)
        tangents = _tangents(self.steps.by_front(direction, 0.0), shares, end_shares, last_frame, occupancy, self.steps)
        return *(_scaled(each, -factor, nodes & flows[:, None, None])
                 for each in self.steps.by_kind(tangents, nodes.shape[1])), along_upstream.to(upstream.dtype)


def _scaled(values, factor, live):
    """Values (B, T, S) of each utterance times its factor, and 0 where nothing lives, whatever the values are."""
    return (values * factor[:, None, None]).masked_fill_(~live, 0.0)


class Steps:
    """Kinds of arcs, and the fronts in which nodes are computed: frame t, or t + u if an arc stays in its frame."""

    def __init__(self, steps):
        steps = tuple(steps)
        self.skew = int(any(frames == 0 for frames, _ in steps))
        self.fronts = tuple((frames + self.skew * rows, rows) for frames, rows in steps)

    def count(self, T, S):
        """Fronts of a grid."""
        return T + 1 + self.skew * (S - 1)

    def into(self, n):
        """The arcs into front n: their kind, the front they come from, and the rows that they go up."""
        return ((kind, n - back, up) for kind, (back, up) in enumerate(self.fronts) if n >= back)

    def by_frame(self, fronts, T):
        """View of an (N, B, S) array as (T, S, B)."""
        front, utterance, row = fronts.stride()
        return fronts.as_strided((T, fronts.shape[2], fronts.shape[1]), (front, front * self.skew + row, utterance),
                                 fronts.storage_offset())

    def nodes(self, fronts):
        """View of an (N, B, S) array as (T+1, S, B): with the frame behind the last one."""
        return self.by_frame(fronts, len(fronts) - self.skew * (fronts.shape[-1] - 1))

    def by_front(self, scores, fill):
        """Scores (B, T, S) of the arcs of each kind that leave each node, laid out by fronts: (N, K, B, S)."""
        B, T, S = scores[0].shape
        fronts = scores[0].new_full((self.count(T, S), len(scores), B, S), fill)
        for kind, each in enumerate(scores):
            self.by_frame(fronts[:, kind], T).copy_(each.permute(1, 2, 0))
        return fronts

    def by_kind(self, fronts, T):
        """The way back: a view (B, T, S) of each kind."""
        return [self.by_frame(each, T).permute(2, 0, 1) for each in fronts.unbind(1)]


def _before(front, up):
    """The rows from which arcs go up to those that :func:`_after` gives."""
    return front[..., :front.shape[-1] - up]


def _after(front, up):
    return front[..., up:]


def _forward(weights, steps):
    """Log alpha (N, B, S), and the share of each arc in the mass of the node that it enters, (N, K, B, S)."""
    N, K, B, S = weights.shape
    alphas, shares = weights.new_full((N, B, S), -torch.inf), torch.zeros_like(weights)
    alphas[0, :, 0] = 0.0
    arriving = weights.new_full((K, B, S), -torch.inf)
    for n in range(1, N):
        for kind, source, up in steps.into(n):
            torch.add(_before(alphas[source], up), _before(weights[source, kind], up), out=_after(arriving[kind], up))
        peak = arriving.amax(0)
        peak.masked_fill_(peak == -torch.inf, 0.0)
        parts = (arriving - peak).exp_()
        mass = parts.sum(0)
        torch.add(peak, mass.log(), out=alphas[n])
        torch.div(parts, mass.masked_fill_(mass == 0.0, 1.0), out=shares[n])
    return alphas, shares


def _begun(shares, end_shares, last_frame, steps):
    """An occupancy (N, B, S) that has nothing yet but what ends at the final nodes."""
    occupancy = torch.zeros_like(shares[:, 0])
    steps.nodes(occupancy)[last_frame, :, torch.arange(len(last_frame), device=shares.device)] = end_shares
    return occupancy


def _backward(shares, occupancy, steps):
    """Posteriors of the arcs that leave each node, (N, K, B, S); the occupancy of the nodes is completed in place."""
    posteriors = torch.zeros_like(shares)
    for n in reversed(range(1, len(shares))):
        flow = shares[n] * occupancy[n]
        for kind, source, up in steps.into(n):
            _before(posteriors[source, kind], up).copy_(_after(flow[kind], up))
            _before(occupancy[source], up).add_(_after(flow[kind], up))
    return posteriors


def _tangents(direction, shares, end_shares, last_frame, occupancy, steps):
    """How the posteriors change as the scores go in a direction (N, K, B, S): the tangents of both sweeps."""
    N, K, B, S = shares.shape
    alpha, share = shares.new_zeros((N, B, S)), torch.zeros_like(shares)
    arriving = shares.new_zeros((K, B, S))
    for n in range(1, N):
        for kind, source, up in steps.into(n):
            torch.add(_before(alpha[source], up), _before(direction[source, kind], up), out=_after(arriving[kind], up))
        alpha[n] = (shares[n] * arriving).sum(0)
        torch.mul(shares[n], arriving - alpha[n], out=share[n])

    ending = steps.nodes(alpha)[last_frame, :, torch.arange(B, device=shares.device)]
    end_share = end_shares * (ending - (end_shares * ending).sum(1, keepdim=True))
    node, tangents = _begun(shares, end_share, last_frame, steps), torch.zeros_like(shares)
    for n in reversed(range(1, N)):
        flow = share[n] * occupancy[n] + shares[n] * node[n]
        for kind, source, up in steps.into(n):
            _before(tangents[source, kind], up).copy_(_after(flow[kind], up))
            _before(node[source], up).add_(_after(flow[kind], up))
    return tangents


def _traced_losses(scores, frames, rows, nodes, last_frame, final, usable, dtype, normalised):
    log_z, *shares = forward_sweep(Steps(zip(frames, rows, strict=True)), last_frame, final, usable, scores)
    return loss_values(log_z, dtype, normalised), log_z, *shares


def _like(scores, frames, rows, nodes, last_frame, final, usable, dtype, normalised):
    (B, T, S), K = nodes.shape, len(scores)
    log_z = scores[0].new_empty(B)
    fronts = Steps(zip(frames, rows, strict=True)).count(T, S)
    return torch.empty_like(log_z, dtype=dtype), log_z, log_z.new_empty(fronts, K, B, S), log_z.new_empty(B, S)


def _traced_gradient(upstream, scores, frames, rows, nodes, last_frame, final, usable, dtype, normalised, log_z,
                     shares, end_shares):
    steps = Steps(zip(frames, rows, strict=True))
    posteriors, _ = backward_sweep(steps, nodes.shape[1], last_frame, shares, end_shares)
    return [each.contiguous() for each in minus_scaled(posteriors, upstream, log_z, nodes)]


_operator = operator(
    "grid_losses", "Tensor[] scores, int[] frames, int[] rows, Tensor nodes, Tensor last_frame, Tensor final, "
    "Tensor usable, ScalarType dtype, bool normalised", 3, _traced_losses, _like, _traced_gradient)
