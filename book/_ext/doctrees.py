"""What several extensions ask about a tree: what a node lies in, how an equation is named. It changes nothing."""

from docutils import nodes


def ancestors(node):
    while node.parent is not None:
        node = node.parent
        yield node


def inside(node, kinds):
    """Tell whether the node lies in one of these kinds of nodes."""
    return any(isinstance(parent, kinds) for parent in ancestors(node))


def is_output(node):
    """Tell whether a notebook's cell has made it."""
    return any("cell_output" in parent.get("classes", ()) for parent in ancestors(node))


def equation_id(label):
    return nodes.make_id(f"equation-{label}")  # as Sphinx's own math domain names it
