"""Load the scripts and the style sheet of the speech player on pages that have one, and on no others.

The player itself is the output of a cell, made by `reference_impl.speech.player`: the recording, a picture, a table and
the data, which remain as they are where these files are missing.
"""

SCRIPTS = "speech_player_math.js", "speech_player.js"
STYLE = "speech_player.css"


def load(app, pagename, templatename, context, doctree):
    if 'class="speech-player"' in context.get("body", ""):
        for script in SCRIPTS:
            app.add_js_file(script, loading_method="defer")
        app.add_css_file(STYLE)


def setup(app):
    app.connect("html-page-context", load)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
