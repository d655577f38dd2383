"""The figures: what is drawn, counted. How they look is for eyes."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_rgba
from matplotlib.text import Annotation

from reference_impl.lattice import Arc, Lattice, arc_posteriors, enumerate_paths
from reference_impl.plotting import (
    BLUE,
    GREY,
    ORANGE,
    plot_collapse,
    plot_error_curve,
    plot_gradient,
    plot_lattice,
    plot_moves,
    plot_occupancy,
    plot_sides,
    plot_sound,
    plot_walks,
)
from reference_impl.topology import constrained_rnnt_lattice, ctc_lattice, rnnt_lattice, tdt_lattice


@pytest.fixture
def ax():
    figure, ax = plt.subplots()
    yield ax
    figure.canvas.draw()  # nothing may fail, or warn, when it comes to drawing
    plt.close(figure)


def arrows(ax):
    return [text.arrow_patch for text in ax.texts if getattr(text, "arrow_patch", None)]


LATTICES = [ctc_lattice([1, 2], 4, 3), ctc_lattice([], 3, 2), rnnt_lattice([1, 2], 3, 3), rnnt_lattice([], 1, 2)]


@pytest.mark.parametrize("lattice", LATTICES, ids=["ctc", "ctc, no label", "rnnt", "rnnt, one node"])
def test_every_arc_and_node_is_drawn(ax, lattice):
    assert plot_lattice(lattice, ax=ax) is ax
    assert len(arrows(ax)) == len(lattice.arcs)
    assert len(ax.collections[0].get_offsets()) == len(lattice.nodes)


@pytest.mark.parametrize("lattice", LATTICES[::2], ids=["ctc", "rnnt"])
def test_nodes_stand_where_they_are_named(ax, lattice):
    """(t, row), within limits that show them all; start before the grid, end after it."""
    plot_lattice(lattice, ax=ax, downward=True)
    places = ax.collections[0].get_offsets()
    for name, (x, y) in zip(lattice.nodes, places, strict=True):
        if isinstance(name, tuple):
            assert (x, y) == name
        else:
            assert x == (-1 if name == "start" else max(n[0] for n in lattice.nodes if isinstance(n, tuple)) + 1)
        assert min(ax.get_xlim()) < x < max(ax.get_xlim())
        assert min(ax.get_ylim()) < y < max(ax.get_ylim())
    assert ax.get_ylim()[0] > ax.get_ylim()[1]


def test_changes_have_a_sign_and_a_size(ax):
    """Blue for what gains, orange for what loses; the largest is drawn in full, what stays as it is hardly."""
    lattice = rnnt_lattice([1], 2, 2)
    plot_lattice(lattice, changes=[0.1, -0.2, 0.0, 0.05, 0.0], ax=ax)
    drawn = arrows(ax)
    assert [to_rgba(arrow.get_edgecolor())[:3] for arrow in drawn] == [
        to_rgba(color)[:3] for color in (BLUE, ORANGE, ORANGE, BLUE, ORANGE)]
    assert [round(arrow.get_alpha(), 2) for arrow in drawn] == [0.56, 1.0, 0.12, 0.34, 0.12]
    with pytest.raises(ValueError, match=r"changes has shape \(3,\)"):
        plot_lattice(lattice, changes=[0.0, 0.0, 0.0], ax=ax)


def test_nodes_of_a_kind_stand_aside(ax):
    """(t, row, kind) beside (t, row), and every arc ends at its nodes; ticks are those of the grid."""
    lattice = constrained_rnnt_lattice([1, 2], 3, 3)
    plot_lattice(lattice, aside={"label": (0.25, -0.5)}, ax=ax)
    places = [tuple(place) for place in ax.collections[0].get_offsets()]
    kinds = [name for name in lattice.nodes if len(name) == 3 and name[2] == "label"]
    assert len(kinds) == 6
    for name in kinds:
        assert places[lattice.nodes.index(name)] == (name[0] + 0.25, name[1] - 0.5)
    ends = [(tuple(text.xyann), tuple(text.xy)) for text in ax.texts if getattr(text, "arrow_patch", None)]
    assert ends == [(places[arc.source], places[arc.target]) for arc in lattice.arcs]
    assert list(ax.get_xticks()) == [0, 1, 2] and len(ax.get_yticks()) == 3


def test_inner_nodes_are_not_drawn_and_long_arcs_pass_by_nodes(ax):
    """Token and duration: one node for each (t, u), one arrow for each duration; two frames in a row are curved."""
    lattice = tdt_lattice([1], 4, 3, durations=[0, 1, 2])
    plot_lattice(lattice, ax=ax)
    grid = [name for name in lattice.nodes if len(name) != 3 or name == "end"]
    assert len(ax.collections[0].get_offsets()) == len(grid) == 9
    durations = [arc for arc in lattice.arcs if lattice.nodes[arc.source] not in grid]
    assert len(arrows(ax)) == len(durations)
    bent = [arrow.get_connectionstyle().rad != 0 for arrow in arrows(ax)]
    rows = [lattice.nodes[arc.source][1:] for arc in durations]
    two_on = [arc.entry[2] == 5 and row[1] == "blank" for arc, row in zip(durations, rows, strict=True)]
    assert bent == two_on and 0 < sum(bent) < len(bent)


def test_posteriors_make_arrows_wider_and_darker(ax):
    lattice = rnnt_lattice([1], 2, 2)
    weights = lattice.arc_weights(np.log(np.random.default_rng(0).dirichlet([1, 1], size=(2, 2))))
    posteriors = arc_posteriors(lattice, weights)
    plot_lattice(lattice, posteriors=posteriors, ax=ax)
    widths = [arrow.get_linewidth() for arrow in arrows(ax)]
    alphas = [arrow.get_alpha() for arrow in arrows(ax)]
    order = np.argsort(posteriors)
    assert (np.diff(np.array(widths)[order]) >= 0).all()
    assert (np.diff(np.array(alphas)[order]) >= 0).all()
    assert np.ptp(widths) > 0


def test_a_path_is_drawn_on_top(ax):
    lattice = ctc_lattice([1], 3, 2)
    path = next(enumerate_paths(lattice))
    plot_lattice(lattice, path=path, ax=ax)
    orange = [arrow for arrow in arrows(ax) if to_rgba(arrow.get_edgecolor())[:3] == to_rgba(ORANGE)[:3]]
    assert len(orange) == len(path)
    assert len(arrows(ax)) == len(lattice.arcs) + len(path)


def test_rows_and_axes_are_named(ax):
    plot_lattice(ctc_lattice([1], 3, 2), rows=["-", "a", "-"], row_axis="state", ax=ax)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["-", "a", "-"]
    assert ax.get_ylabel() == "state"
    assert list(ax.get_xticks()) == [0, 1, 2]


def test_posteriors_must_fit(ax):
    with pytest.raises(ValueError, match="^posteriors has shape \\(2,\\); expected \\(5,\\)$"):
        plot_lattice(rnnt_lattice([1], 2, 2), posteriors=np.zeros(2), ax=ax)


@pytest.mark.parametrize("downward", [False, True])
def test_labels_stand_where_they_belong(ax, downward):
    """Those of nodes beside them, away from the middle, on the screen; those of arcs on their middles, unless empty."""
    lattice = rnnt_lattice([1], 2, 2)
    node_labels, arc_labels = [f"n{i}" for i in range(5)], ["a0", "", "a2", "a3", "a4"]
    plot_lattice(lattice, node_labels=node_labels, arc_labels=arc_labels, time_axis="step", downward=downward, ax=ax)
    text = {entry.get_text(): entry for entry in ax.texts if entry.get_text()}
    assert set(text) == {*node_labels, *arc_labels} - {""}
    assert not any(entry.get_bbox_patch() for entry in ax.texts if not entry.get_text()), "an empty box hides the arc"
    places = np.array(ax.collections[0].get_offsets())
    for i, label in enumerate(arc_labels):
        if label:
            arc = lattice.arcs[i]
            np.testing.assert_allclose(text[label].get_position(), (places[arc.source] + places[arc.target]) / 2)
    ax.figure.canvas.draw()
    to_screen = ax.transData.transform
    for i, label in enumerate(node_labels):
        assert text[label].xy == tuple(places[i])
        box = text[label].get_window_extent()
        beside = np.array([box.x0 + box.x1, box.y0 + box.y1]) / 2 - to_screen(places[i])
        assert np.hypot(*beside) > 10
        outward = np.sign(to_screen(places[i]) - to_screen(places.mean(axis=0)))
        assert (np.sign(beside.round()) == outward).all()
    assert ax.get_xlabel() == "step"


def test_the_label_of_a_node_in_the_middle_stands_above(ax):
    chain = Lattice(((0, 0), (1, 0), (2, 0)), (Arc(0, 1), Arc(1, 2)), ())
    plot_lattice(chain, node_labels=["a", "b", "c"], ax=ax)
    directions = {t.get_text(): tuple(np.sign(t.xyann)) for t in ax.texts if t.get_text()}
    assert directions == {"a": (-1, 0), "b": (0, 1), "c": (1, 0)}


@pytest.mark.parametrize("inside", [False, True])
def test_second_texts_stand_beside_their_nodes_in_bold(ax, inside):
    """Further out than a label, on the side that faces away from the middle; they neither touch nor move the labels."""
    lattice = rnnt_lattice([1], 2, 2)
    names, seconds = [f"n{i}" for i in range(5)], [f"b{i}" for i in range(5)]
    plot_lattice(lattice, node_labels=names, inside=inside, beside=seconds, ax=ax)
    text = {entry.get_text(): entry for entry in ax.texts if entry.get_text()}
    assert list(text) == names + seconds
    assert [text[name].get_weight() for name in names + seconds] == ["normal"] * 5 + ["bold"] * 5
    ax.figure.canvas.draw()
    places = np.array(ax.collections[0].get_offsets())
    to_screen = ax.transData.transform
    for i, (name, second) in enumerate(zip(names, seconds, strict=True)):
        label, box = text[name].get_window_extent(), text[second].get_window_extent()
        assert text[second].xy == tuple(places[i])
        assert not label.overlaps(box)
        away = np.array([box.x0 + box.x1, box.y0 + box.y1]) / 2 - to_screen(places[i])
        assert np.hypot(*away) > np.hypot(*(np.mean([label.min, label.max], axis=0) - to_screen(places[i])))
        assert (np.sign(away.round()) == np.sign(to_screen(places[i]) - to_screen(places.mean(axis=0)))).all()


def test_labels_must_fit(ax):
    with pytest.raises(ValueError, match="^node_labels has shape \\(4,\\); expected \\(5,\\)$"):
        plot_lattice(rnnt_lattice([1], 2, 2), node_labels="SABE", ax=ax)
    with pytest.raises(ValueError, match="^arc_labels has shape \\(1,\\); expected \\(5,\\)$"):
        plot_lattice(rnnt_lattice([1], 2, 2), arc_labels=["a"], ax=ax)
    with pytest.raises(ValueError, match="^beside has shape \\(6,\\); expected \\(5,\\)$"):
        plot_lattice(rnnt_lattice([1], 2, 2), beside="abcdef", ax=ax)


@pytest.mark.parametrize("plot", [plot_occupancy, plot_gradient])
@pytest.mark.parametrize("downward", [True, False])
def test_maps(ax, plot, downward):
    """Time to the right: the picture is the transpose, unscaled; the colour bar can be left out."""
    values = np.array([[0.0, 1.0, 0.25], [0.5, 0.5, -0.25 if plot is plot_gradient else 0.1]])
    assert plot(values, rows=["a", "b", "c"], row_axis="symbol", downward=downward, ax=ax, colorbar=False) is ax
    image, = ax.images
    np.testing.assert_array_equal(image.get_array(), values.T)
    assert (ax.get_ylim()[0] > ax.get_ylim()[1]) == downward
    assert ax.get_ylabel() == "symbol"
    assert len(ax.figure.axes) == 1
    plot(values, ax=ax)
    assert len(ax.figure.axes) == 2


def test_gradient_colours_are_symmetric(ax):
    """White is 0 whatever the largest entry, and a gradient of zeros is drawn white, too."""
    plot_gradient(np.array([[0.1, -0.7]]), ax=ax, colorbar=False)
    plot_gradient(np.zeros((2, 2)), ax=ax, colorbar=False)
    assert ax.images[0].norm.vmax == 0.7
    for image in ax.images:
        assert image.norm(0.0) == pytest.approx(0.5)
        assert image.norm.vmin == -image.norm.vmax


def test_error_curve(ax):
    steps = np.logspace(-10, -1, 10)
    errors = 1e-16 / steps + steps**2
    assert plot_error_curve(steps, errors, label="f", orders=(2, -1), ax=ax) is ax
    curve, *slopes = ax.lines
    np.testing.assert_allclose(curve.get_ydata(), errors)
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert [text.get_text() for text in ax.texts] == ["slope 2", "slope −1"]
    for line, order in zip(slopes, (2, -1), strict=True):
        x, y = np.log(line.get_xdata()), np.log(line.get_ydata())
        np.testing.assert_allclose(np.diff(y) / np.diff(x), order)


def test_two_sides_and_their_difference_share_one_scale():
    left = np.array([[0.5, -0.25], [0.125, 0.0]])
    axes = plot_sides(left, left + [[0, 0.25], [0, 0]], ("one", "two"), rows="ab")
    assert [ax.get_title() for ax in axes] == ["one", "two", "difference: at most 0.2"]
    assert {tuple(ax.images[0].get_clim()) for ax in axes} == {(-0.5, 0.5)}
    np.testing.assert_array_equal(axes[2].images[0].get_array(), [[0, 0], [-0.25, 0]])


def test_an_error_of_zero_leaves_a_gap(ax):
    plot_error_curve([1e-1, 1e-2, 1e-3], [1e-3, 0.0, 1e-7], ax=ax)
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), [1e-3, np.nan, 1e-7])


def test_walks_end_in_a_circle_or_stop_at_a_cross():
    """Arrows of the grid and of the walk; only the walk that takes the last blank, from the top row, has ended."""
    axes = plot_walks({"whole": "a∅∅", "no last blank": "a∅", "no label": "∅∅"}, num_frames=2, rows=["", "a"])
    try:
        axes[0].figure.canvas.draw()
        assert [sum(isinstance(text, Annotation) for text in ax.texts) for ax in axes] == [5 + 3, 5 + 2, 5 + 2]
        assert [tuple(ax.collections[1].get_offsets()[0]) for ax in axes] == [(2, 1), (1, 1), (2, 0)]
        corners = [len(ax.collections[1].get_paths()[0].vertices) for ax in axes]
        assert corners[0] > corners[1] == corners[2]
        assert [text.get_text() for text in axes[0].texts if text.get_text()] == ["a", "∅", "∅"]
    finally:
        plt.close(axes[0].figure)


@pytest.mark.parametrize("string, runs, labels", [
    ("aa∅a", ["a", "∅", "a"], ["a", "a"]), ("aaa∅", ["a", "∅"], ["a"]), ("∅∅", ["∅"], []),
    ("ab", ["a", "b"], ["a", "b"])])
def test_a_string_its_runs_and_what_it_reads(ax, string, runs, labels):
    """Each row has its symbols from left to right; a run is as wide as its frames; blanks are grey."""
    assert plot_collapse(string, ax=ax) is ax
    for row, expected in enumerate([list(string), runs, labels]):
        texts = [text for text in ax.texts if text.get_position()[1] == row]
        texts.sort(key=lambda text: text.get_position())
        assert [text.get_text() for text in texts] == expected
        assert [text.get_color() == GREY for text in texts] == [symbol == "∅" for symbol in expected]
    widths = {row: sum(box.get_width() + 0.16 for box in ax.patches if box.get_y() == row - 0.34) for row in (0, 1)}
    assert widths == {0: pytest.approx(len(string)), 1: pytest.approx(len(string))}


def test_moves(ax):
    """Five stay, four go on, and of three skips one is allowed: the others are orange and have a cross."""
    assert plot_moves("∅a∅b∅", [False, False, False, True, False], ax=ax) is ax
    colours = [to_rgba(arrow.get_edgecolor())[:3] for arrow in arrows(ax)]
    assert [colours.count(to_rgba(colour)[:3]) for colour in (BLUE, ORANGE)] == [1, 2] and len(colours) == 12
    np.testing.assert_allclose([line.get_xydata()[0] for line in ax.lines], [[0.3, 0.6], [0.3, 2.6]])  # on the skips
    with pytest.raises(ValueError, match="^skips has length 2; expected 3, one for each state$"):
        plot_moves("∅a∅", [False, False], ax=ax)


def test_sound_stands_where_it_was_heard(ax):
    """In units of the network's frames, 20 ms: a log-mel frame is 10 ms wide, in the middle of its 25 ms."""
    frames = np.zeros((30, 4))
    frames[7, 2] = 1
    assert plot_sound(frames, step=0.02, spans=[("six", 0.1, 0.2), ("one", 0.2, 0.26)], ax=ax) is ax
    left, right, low, high = ax.images[0].get_extent()
    assert (low, high) == (0, 4) and right - left == pytest.approx(15, rel=1e-12)
    middle = left + 7.5 * (right - left) / 30  # of frame 7, which hears 0.07 s to 0.095 s
    assert (middle + 0.5) * 0.02 == pytest.approx(0.0825, rel=1e-12)
    assert ax.images[0].get_array()[2, 7] == 1 and ax.images[0].origin == "lower"
    assert [text.get_text() for text in ax.texts] == ["six", "one"]
    assert sorted({round(line.get_xdata()[0], 9) for line in ax.lines}) == [4.5, 9.5, 12.5]
