"""Cells that take answers to exercises, on the built pages: folded, named, waiting; and their solutions, which pass."""

from built_site import SITE

from coursework.questions.exercises import EXERCISES

WAITING = "not answered yet; where notebooks run, put your answers in the place of the dots"


def test_every_exercise_that_is_checked_waits_and_its_solution_passes(site):
    waiting, passed = [], []
    for path, soup in site.items():
        if path.parent != SITE / "notebooks":
            continue
        for cell in soup.select(".tag_check-answer"):
            (fold,) = cell.select("details")
            assert not fold.has_attr("open") and not fold.summary.has_attr("aria-label")
            assert {name.get_text() for name in fold.summary.select("span")} == {"Check your answer in the notebook"}
            name, _, rest = fold.select_one(".cell_output").get_text().strip().partition(":")
            assert rest.split("\n")[1].strip() == WAITING
            waiting.append(name)
        for output in soup.select(".solution .cell_output"):
            name, _, rest = output.get_text().strip().partition(":")
            if name in EXERCISES:
                points, _, total = rest.split()[:3]
                assert points == total and rest.split("\n")[1].strip() == "right"
                passed.append(name)
    assert sorted(waiting) == sorted(passed) == sorted(EXERCISES)
