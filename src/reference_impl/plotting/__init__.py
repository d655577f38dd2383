"""Figures of the book: lattices with posteriors and paths, occupancies, strings, error curves. They compute no loss.

A function draws into an ``Axes`` that it is given, or into a figure of its own, and returns the ``Axes``.
:func:`use_book_style` is called once a notebook.
"""

from .curves import plot_error_curve, plot_flow
from .lattices import plot_lattice, plot_moves, plot_walks
from .maps import plot_frames, plot_gradient, plot_kills, plot_occupancy, plot_sides, plot_sound
from .strings import plot_collapse, plot_strings
from .style import BLUE, GREEN, GREY, ORANGE, use_book_style

__all__ = ["BLUE", "GREEN", "GREY", "ORANGE", "plot_collapse", "plot_error_curve", "plot_flow", "plot_frames",
           "plot_gradient", "plot_kills", "plot_lattice", "plot_moves", "plot_occupancy", "plot_sides", "plot_sound",
           "plot_strings", "plot_walks", "use_book_style"]
