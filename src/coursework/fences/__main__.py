"""Tries the fences, and says which stand: `make fences`.

    python -m coursework.fences [--without LAYER] [--json]
"""

import argparse
import json
import sys

from .standing import proved


def main():
    arguments = argparse.ArgumentParser(description="Try the fences around submissions.")
    arguments.add_argument("--without", action="append", default=[], choices=("bubblewrap", "landlock", "seccomp"))
    arguments.add_argument("--json", action="store_true", help="print what does not stand, and why, as JSON")
    given = arguments.parse_args()
    standing = proved(without=given.without)
    if given.json:
        print(json.dumps({"down": {name: standing.possible[name] for name in standing.down},
                          "remarks": standing.layers.remarks}))
    else:
        print(standing)
    sys.exit(bool(standing.down))


main()
