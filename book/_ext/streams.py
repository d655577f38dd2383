"""What a cell prints comes out as it was printed, however the kernel cut it into pieces. It runs no cell.

A kernel sends its output every fifth of a second, on a busy machine between a line and the end of that line. myst-nb
(``nb_merge_streams``) joins the pieces, but ends each of them with a line break of its own: an empty line, or a broken
one, that depends on the load of the machine.
"""

from myst_nb.core import render, utils
from sphinx.errors import ExtensionError


def joined(outputs):
    """The outputs with all pieces of a stream in its first; the pieces themselves are left alone."""
    streams, result = {}, []
    for output in outputs:
        first = streams.get(output["name"]) if output["output_type"] == "stream" else None
        if first:
            first["text"] += output["text"]
        else:
            result.append(output.copy())
            if output["output_type"] == "stream":
                streams[output["name"]] = result[-1]
    return result


def coalesce_streams(outputs):
    return utils.coalesce_streams(joined(outputs))


def setup(app):
    app.setup_extension("myst_nb")
    if not hasattr(render, "coalesce_streams"):
        raise ExtensionError("myst_nb.core.render has no coalesce_streams: see whether streams.py is still needed")
    render.coalesce_streams = coalesce_streams
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
