"""Write data/claims.json as it has to stand: sorted, one key a line, a block for each claim. It changes no claim.

Usage: python tools/sort_claims.py
"""

import json
from pathlib import Path

FILE = Path(__file__).resolve().parents[1] / "data" / "claims.json"
ORDER = ["id", "library", "statement", "repository", "commit", "tag", "path", "lines", "thread", "date", "evidence",
         "release", "run"]


def as_text(data):
    """Return the file's text: two people who add claims change different lines of it."""
    libraries = [f"{dumps(key)}: {block(data['libraries'][key])}" for key in sorted(data["libraries"])]
    claims = [block({key: claim[key] for key in sorted(claim, key=ORDER.index)})
              for claim in sorted(data["claims"], key=lambda claim: claim["id"])]
    return f"""{{
  "$schema": "claims.schema.json",
  "libraries": {{{inside(libraries)}}},
  "claims": [{inside(claims)}]
}}
"""


def inside(blocks):
    return "\n    " + ",\n    ".join(blocks) + "\n  " if blocks else ""


def block(fields):
    return "{\n" + ",\n".join(f"      {dumps(key)}: {dumps(value)}" for key, value in fields.items()) + "\n    }"


def dumps(value):
    return json.dumps(value, ensure_ascii=False)


if __name__ == "__main__":
    FILE.write_text(as_text(json.loads(FILE.read_text(encoding="utf-8"))), encoding="utf-8")
