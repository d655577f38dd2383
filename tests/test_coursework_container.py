"""What `course/Containerfile` copies is all that grading reads. The files are copied as it does; it is not built."""

import json
import os
import re
import shutil
import subprocess

from test_coursework import HANGS, ROOT, SOURCES

from coursework.release import variant_of


def test_the_container_has_all_that_grading_needs(course_python, tmp_path):
    inside, recipe = tmp_path / "grader", (ROOT / "course" / "Containerfile").read_text(encoding="utf-8")
    for source, target in re.findall(r"^COPY (\S+) /grader/(\S+)$", recipe, re.M):
        (inside / target).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / source).is_dir():
            shutil.copytree(ROOT / source, inside / target, dirs_exist_ok=True)
        else:
            shutil.copyfile(ROOT / source, inside / target)
    notebook = (SOURCES / "1_ctc_alpha" / "1_ctc_alpha.ipynb").read_text(encoding="utf-8")
    wrong = notebook.replace("z[s] != blank and z[s] != z[s - 2]", "z[s] != blank")
    assert wrong != notebook
    for student, text in (("ada", notebook), ("emmy", wrong), ("zoe", wrong)):
        submitted = tmp_path / "in" / student
        submitted.mkdir(parents=True)
        (submitted / "1_ctc_alpha.ipynb").write_text(text.replace("variant = 0", f"variant = {variant_of(student)}"),
                                                     encoding="utf-8")
    run = subprocess.run([course_python, "-m", "coursework.grading", tmp_path / "in", "--out", tmp_path / "out"],
                         capture_output=True, text=True, timeout=HANGS, cwd=inside,
                         env={**os.environ, "PYTHONPATH": str(inside / "src")})
    assert run.returncode == 0, run.stderr
    assert "10 of 10" in run.stdout and "Ask: " in (tmp_path / "out" / "class" / "1_ctc_alpha.md").read_text("utf-8")
    program = "import coursework, json; print(json.dumps(coursework.__file__))"
    where = subprocess.run([course_python, "-c", program], capture_output=True, text=True, check=True,
                           env={**os.environ, "PYTHONPATH": str(inside / "src")})
    assert json.loads(where.stdout).startswith(str(inside))
