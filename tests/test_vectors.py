"""The test vectors: exact, complete, of the form of their schema, passed by right ports in four ways of computing, and
failed by wrong ones, which are called by name. The page about them says what is so.
"""

import copy
import functools
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import jsonschema
import numpy as np
import pytest
import torch
from enumeration import ctc_alpha, ctc_beta, loss_and_grad_logits, loss_and_occupancy, rnnt_alpha, rnnt_beta

from reference_impl import ctc, log_softmax, torch_impl
from reference_impl.conformance.encoding import decoded, encoded
from reference_impl.conformance.problem import Problem
from reference_impl.conformance.vectors import (
    NotResults,
    answered,
    compare,
    public,
    read_results,
    right_results,
    unanswered,
)
from reference_impl.conformance.vectors.__main__ import as_text, main
from reference_impl.conformance.vectors.document import FOLDER, LOSSES, OUTPUTS, document, problem_of
from reference_impl.conformance.vectors.exact import exact_answers
from reference_impl.conformance.vectors.mistakes import mistakes_of
from reference_impl.conformance.vectors.problems import GROUPS, problems
from reference_impl.conformance.vectors.results import check_vectors
from reference_impl.semiring import LOG32

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "book" / "teaching" / "test_vectors.md"
PORT = ROOT / "course" / "ports" / "laboratory.js"
every_loss = pytest.mark.parametrize("loss", LOSSES)


@functools.cache
def shipped(loss):
    return json.loads((FOLDER / f"{loss}.json").read_text(encoding="utf-8"))


def value_of(value):
    """A field of a document or of results as an array."""
    return decoded(value) if isinstance(value, dict) else np.array(value, dtype=float)


def as_json(field, value):
    data = encoded(np.asarray(value, dtype=float))
    return data if field != "loss" else data["values"] if data["shape"] else data["values"][0]


def singles(loss):
    """Cases that are no batches, with their problems."""
    return [(case, problem_of(case)) for case in shipped(loss)["cases"] if not problem_of(case).is_batch]


def ids(findings):
    return {case for case, _ in findings.wrong}


# --- the files ---


@every_loss
def test_the_files_are_what_the_command_writes(loss):
    """To the last digit, on every machine."""
    assert (FOLDER / f"{loss}.json").read_text(encoding="utf-8") == as_text(public(loss))


@every_loss
def test_the_files_are_of_the_form_of_their_schema(loss):
    check_vectors(shipped(loss))
    names = [case["id"] for case in shipped(loss)["cases"]]
    assert len(set(names)) == len(names) >= 25
    assert {case["group"] for case in shipped(loss)["cases"]} == set(shipped(loss)["groups"])
    assert set(shipped(loss)["groups"]) == set(GROUPS) - ({"fastemit"} if loss == "ctc" else set())
    assert all("recursion" in case["confirmed_by"] for case in shipped(loss)["cases"])
    assert sum("enumeration" in case["confirmed_by"] for case in shipped(loss)["cases"]) == len(names) - 1
    assert (FOLDER / f"{loss}.json").stat().st_size < 250_000


def test_schemas_describe_every_field():
    """Both are schemas of draft 2020-12; whatever a case has is described, or refers to what is."""
    for name in ("vectors", "results"):
        schema = json.loads((FOLDER / f"{name}.schema.json").read_text(encoding="utf-8"))
        jsonschema.Draft202012Validator.check_schema(schema)
        assert schema["$schema"].endswith("2020-12/schema") and schema["description"]
    vectors = json.loads((FOLDER / "vectors.schema.json").read_text(encoding="utf-8"))
    for part in ("inputs", "outputs"):
        assert all(field["description"] for field in vectors["$defs"][part]["properties"].values())
    assert set(vectors["$defs"]["outputs"]["properties"]) == set(OUTPUTS)


@every_loss
@pytest.mark.parametrize("spoil", [
    lambda d: d.pop("loss"), lambda d: d["cases"][0]["inputs"].pop("blank"),
    lambda d: d["cases"][0]["inputs"]["logits"]["values"].append("infinity"),
    lambda d: d["cases"][0]["outputs"].update(gradient=1), lambda d: d["tolerances"]["float32"].pop("loss"),
    lambda d: d["cases"][0]["inputs"].update(logit_lengths=encoded([3])),
])
def test_the_schema_notices(loss, spoil):
    spoiled = copy.deepcopy(shipped(loss))
    spoil(spoiled)
    with pytest.raises(jsonschema.ValidationError):
        check_vectors(spoiled)


@every_loss
def test_inputs_are_exact(loss):
    """Multiples of 1/64, the same in float32, and where none is large in float16."""
    for case in shipped(loss)["cases"]:
        logits = decoded(case["inputs"]["logits"])
        finite = 64 * logits[np.isfinite(logits)]
        np.testing.assert_array_equal(finite, np.round(finite), err_msg=case["id"])
        np.testing.assert_array_equal(logits.astype(np.float32), logits, err_msg=case["id"])
        if case["group"] != "numerics":
            np.testing.assert_array_equal(logits.astype(np.float16), logits, err_msg=case["id"])


@every_loss
def test_other_numbers_for_others(loss):
    """Variants have the same cases, and other numbers in all but the one that has a choice of none."""
    one, two = (document(loss, "x", problems(loss, np.random.default_rng([8, seed]), long=False)) for seed in (1, 2))
    assert [case["id"] for case in one["cases"]] == [case["id"] for case in two["cases"]]
    same = [a["id"] for a, b in zip(one["cases"], two["cases"], strict=True) if a["inputs"] == b["inputs"]]
    assert same == ([] if loss == "ctc" else ["no alignment/only-node-masked"])
    check_vectors(one)
    check_vectors(answered(one))
    assert unanswered(answered(one)) == one


# --- the answers, by four other ways ---


@every_loss
def test_answers_by_enumeration(loss):
    """All strings of symbols, or all orders of blanks and labels; it shares no code with what made the files."""
    tried = 0
    for case, problem in singles(loss):
        V, T = problem.logits.shape[-1], len(problem.logits)
        if (V**T > 5000 if loss == "ctc" else T > 5) or problem.fastemit_lambda or problem.group == "numerics":
            continue
        found = {name: value_of(value) for name, value in case["outputs"].items()}
        arguments = loss, found["log_probs"], problem.targets, problem.blank
        value, used = loss_and_occupancy(*arguments)
        np.testing.assert_allclose(found["loss"], value, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(found["grad_log_probs"], -used, rtol=0, atol=1e-12)
        value, gradient = loss_and_grad_logits(loss, problem.logits, problem.targets, problem.blank)
        np.testing.assert_allclose(found["grad_logits"], gradient, rtol=0, atol=1e-12)
        for name, mass in (("log_alpha", {"ctc": ctc_alpha, "rnnt": rnnt_alpha}[loss]),
                           ("log_beta", {"ctc": ctc_beta, "rnnt": rnnt_beta}[loss])):
            expected = [mass(*arguments[1:], *place) for place in np.ndindex(found[name].shape)]
            np.testing.assert_allclose(np.exp(found[name]).ravel(), expected, rtol=1e-12, atol=1e-300)
        tried += 1
    assert tried >= 15


@every_loss
def test_a_port_by_autograd(loss):
    """torch differentiates the losses of the package, batches as they are; padding that is NaN, too."""
    function = {"ctc": torch_impl.ctc_loss, "rnnt": torch_impl.rnnt_loss}[loss]
    results = {}
    for case in shipped(loss)["cases"]:
        problem = problem_of(case)
        if problem.fastemit_lambda:
            continue
        logits = torch.tensor(problem.logits if problem.is_batch else problem.logits[None], requires_grad=True)
        targets = torch.tensor(problem.targets if problem.is_batch else problem.targets[None])
        frames = problem.logit_lengths if problem.is_batch else [len(problem.logits)]
        labels = problem.target_lengths if problem.is_batch else [len(problem.targets)]
        losses = function(logits, targets, torch.tensor(frames), torch.tensor(labels), blank=problem.blank,
                          reduction="none", backend="torch")
        gradient, = torch.autograd.grad(losses.sum(), logits)
        gradient = gradient.numpy()[() if problem.is_batch else 0]
        results[case["id"]] = {"loss": losses.tolist() if problem.is_batch else losses.item(), "grad_logits": gradient}
    found = compare(shipped(loss), {"precision": "float64", "results": results})
    assert found.right and set(found.fields) == {"loss", "grad_logits"}, str(found)


def node():
    driver = pytest.importorskip("playwright._impl._driver", reason="playwright brings node along")
    return str(driver.compute_driver_executable()[0])


@every_loss
def test_a_port_to_javascript(loss, tmp_path, capsys):
    """The laboratory's own mathematics, in node: every field, and every case, FastEmit's too."""
    done = subprocess.run([node(), str(PORT), str(FOLDER / f"{loss}.json"), str(tmp_path / "results.json")],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert main(["check", str(tmp_path / "results.json")]) == 0, capsys.readouterr()
    count = len(shipped(loss)["cases"])
    assert f"{count} of {count} cases right: {', '.join(OUTPUTS)}" in capsys.readouterr().out


def in_float32(problem):
    """Every field by plain recursions in float32."""
    f32, targets, blank = np.float32, problem.targets, problem.blank
    logits = problem.logits.astype(f32)
    peak = np.maximum(logits.max(-1, keepdims=True), f32(-1e30))
    mass = np.exp(logits - peak).sum(-1, keepdims=True, dtype=f32)
    log_probs = logits - peak - np.log(np.where(mass == 0, f32(1), mass))
    module = LOSSES[problem.loss]
    alpha, beta, log_z = (f(log_probs, targets, blank=blank, semiring=LOG32)
                          for f in (module.alpha, module.beta, module.Z))
    used = np.zeros(logits.shape, f32)
    if problem.loss == "ctc":
        if log_z > -np.inf:
            for s, symbol in enumerate(ctc.extended_targets(targets, blank=blank)):
                used[:, symbol] += np.exp(alpha[:, s] + beta[:, s] - log_z)
    else:
        U = len(targets)
        if log_z > -np.inf:
            after = np.vstack([beta[1:], np.full_like(beta[:1], -np.inf)])
            after[-1, -1] = 0
            used[..., blank] = np.exp(alpha + log_probs[..., blank] + after - log_z)
            used[:, np.arange(U), targets] = f32(1 + problem.fastemit_lambda) * np.exp(
                alpha[:, :-1] + log_probs[:, np.arange(U), targets] + beta[:, 1:] - log_z)
    return {"log_probs": log_probs, "log_alpha": alpha, "log_beta": beta, "loss": -log_z, "grad_log_probs": -used,
            "grad_logits": np.exp(log_probs) * used.sum(-1, keepdims=True) - used}


def furthest(loss, answer):
    """The largest error of a field that is a logarithm, and of a gradient, as the tolerances measure them."""
    worst = {False: 0.0, True: 0.0}
    for case, problem in singles(loss):
        for field, value in answer(problem).items():
            right = value_of(case["outputs"][field])
            gradient = field.startswith("grad")
            with np.errstate(invalid="ignore"):
                off = np.abs(value - right) / (1 if gradient else 1 + np.abs(right))
            worst[gradient] = max(worst[gradient], np.where(value == right, 0, off).max(initial=0))
    return worst[False], worst[True]


@every_loss
def test_tolerances_are_derived(loss):
    """Ten times what plain recursions are off by, or more; and as the page and document.py say."""
    logarithm, gradient = furthest(loss, in_float32)
    assert 5e-8 < logarithm < 3e-7 and 1e-5 < gradient <= 5e-5
    vectors = unanswered(shipped(loss))
    by_id = {case["id"]: case["outputs"] for case in answered(vectors)["cases"]}
    logarithm, gradient = furthest(loss, lambda p: {n: value_of(v) for n, v in by_id[p.id].items()})
    assert logarithm < 1e-15 and gradient < 5e-13
    tolerances = shipped(loss)["tolerances"]
    assert tolerances["float32"]["loss"]["relative"] >= 30 * 3e-7
    assert tolerances["float32"]["grad_logits"]["absolute"] >= 10 * 5e-5


@every_loss
def test_a_port_in_float32(loss):
    results = {case["id"]: in_float32(problem) for case, problem in singles(loss)}
    results = {name: {field: value.astype(float) for field, value in found.items()} for name, found in results.items()}
    given = {"precision": "float32", "results": results}
    assert compare(shipped(loss), given, without=["batch"]).right
    assert not compare(shipped(loss), {**given, "precision": "float64"}, without=["batch"]).right


def test_exact_answers_notice_a_disagreement(monkeypatch):
    """The ways are compared: with a lattice that has another arc the export stops."""
    problem = Problem("labels", "x", np.zeros((3, 3)), np.array([1, 2]))
    exact_answers(problem)
    from reference_impl.conformance.vectors import exact

    right = exact.ctc_lattice
    monkeypatch.setattr(exact, "ctc_lattice", lambda targets, *more, **named: right(targets[::-1], *more, **named))
    with pytest.raises(ArithmeticError, match="labels/x"):
        exact_answers(Problem("labels", "x", np.arange(9.0).reshape(3, 3) ** 2 / 10, np.array([1, 2])))


# --- wrong results ---


def with_mistake(loss, field, mistake):
    """The right results with a mistake in one field, wherever it has an answer."""
    results = right_results(shipped(loss))
    for case in shipped(loss)["cases"]:
        problem = problem_of(case)
        if field not in case["outputs"]:
            continue
        value = np.zeros(value_of(case["outputs"]["loss" if field == "loss" else "grad_logits"]).shape)
        try:
            with np.errstate(all="ignore"):
                for b, (place, one) in enumerate(problem.utterances()):
                    if not problem.is_batch:
                        value = mistake(one)
                    else:
                        value[b if field == "loss" else place] = mistake(one)
        except (ValueError, IndexError):
            continue
        results["results"][case["id"]][field] = as_json(field, value)
    return results


MISTAKES = [(loss, field, name) for loss in LOSSES for field in OUTPUTS for name in mistakes_of(loss, field)]


@pytest.mark.parametrize("loss, field, name", MISTAKES)
def test_mistakes_are_named(loss, field, name):
    """In every case where it shows, batches too, and by no other name; in float32 it shows as well."""
    results = with_mistake(loss, field, mistakes_of(loss, field)[name])["results"]
    given = {case: {field: value_of(found[field])} for case, found in results.items() if field in found}
    given |= {case: {} for case in results if case not in given}
    found = compare(shipped(loss), {"precision": "float64", "results": given})
    assert set(found.wrong.values()) == {name} and {wrong for _, wrong in found.wrong} == {field}, str(found)
    assert ids(compare(shipped(loss), {"precision": "float32", "results": given}))


def test_there_are_mistakes_enough():
    assert len(MISTAKES) > 80 and all(mistakes_of(loss, field) for loss in LOSSES for field in OUTPUTS)


@pytest.mark.parametrize("change, said", [
    (lambda g: 2 * g, "It is the right gradient, multiplied by 2."),
    (lambda g: g + 0.1, "no known mistake gives this"), (lambda g: g * np.nan, "NaN at [0, 0"),
    (lambda g: g.T, "shape"),
])
@every_loss
def test_what_has_no_name_is_taken_apart(loss, change, said):
    results = right_results(shipped(loss))
    case = results["results"]["labels/three-labels"]
    case["grad_logits"] = as_json("grad_logits", change(decoded(case["grad_logits"])))
    found = compare(shipped(loss), read_results(json.dumps(results)))
    assert list(found.wrong) == [("labels/three-labels", "grad_logits")]
    assert said in found.wrong["labels/three-labels", "grad_logits"]


@every_loss
def test_terms_of_a_gradient(loss):
    """The bank of bugs has none that counts the blank twice; the diagnosis by terms sees it."""
    results = right_results(shipped(loss))
    case = results["results"]["labels/three-labels"]
    value = decoded(case["grad_log_probs"])
    value[..., 0] *= 2
    case["grad_log_probs"] = as_json("grad_log_probs", value)
    found = compare(shipped(loss), read_results(json.dumps(results)))
    assert found.wrong["labels/three-labels", "grad_log_probs"].startswith("blank term: counted twice")


@every_loss
@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("field", OUTPUTS)
def test_a_tolerance_is_what_it_says(loss, precision, field):
    """Half of it is right, twice as much is wrong."""
    tolerance = shipped(loss)["tolerances"][precision][field]
    for factor, right in ((0.5, True), (2, False)):
        results = {**right_results(shipped(loss)), "precision": precision}
        case = results["results"]["numerics/improbable-target"]
        value = value_of(case[field])
        place = np.unravel_index(np.abs(np.where(np.isfinite(value), value, 0)).argmax(), value.shape)
        value[place] += factor * (tolerance["absolute"] + tolerance["relative"] * abs(value[place]))
        case[field] = as_json(field, value)
        assert compare(shipped(loss), read_results(json.dumps(results))).right == right


@every_loss
@pytest.mark.parametrize("field, change, name", [
    ("loss", lambda value, _: value.sum(), "It is one number for the batch; expected one for each utterance."),
    ("grad_logits", lambda value, _: value / len(value),
     "It is divided by the number of utterances; a mean was taken."),
    ("grad_log_probs", lambda value, right: np.where(right == 0, 0.25, value), None),
])
def test_mistakes_of_batches(loss, field, change, name):
    results = right_results(shipped(loss))
    case = results["results"]["batch/finite-padding"]
    case[field] = as_json(field, change(value_of(case[field]), value_of(case[field])))
    found = compare(shipped(loss), read_results(json.dumps(results)))
    assert list(found.wrong) == [("batch/finite-padding", field)]
    assert name is None or found.wrong["batch/finite-padding", field] == name


@every_loss
def test_padding(loss):
    """A gradient in padding, numbers or NaN; a NaN that has come from there."""
    results = right_results(shipped(loss))
    for name, fill in (("batch/finite-padding", 0.25), ("batch/nan-padding", np.nan)):
        problem = problem_of(next(case for case in shipped(loss)["cases"] if case["id"] == name))
        value = np.full(problem.logits.shape, fill)
        for place, _ in problem.utterances():
            value[place] = decoded(results["results"][name]["grad_logits"])[place]
        results["results"][name]["grad_logits"] = as_json("grad_logits", value)
    value = decoded(results["results"]["batch/nan-padding"]["grad_log_probs"])
    results["results"]["batch/nan-padding"]["grad_log_probs"] = as_json("grad_log_probs", value * np.nan)
    found = compare(shipped(loss), read_results(json.dumps(results)))
    for name in ("batch/finite-padding", "batch/nan-padding"):
        assert found.wrong[name, "grad_logits"] == "It is right except in the padding, where the gradient should be 0."
    assert found.wrong["batch/nan-padding", "grad_log_probs"].endswith("a NaN in the padding has come through")


@every_loss
def test_what_is_missing(loss):
    results = right_results(shipped(loss))
    del results["results"]["labels/one-label"], results["results"]["labels/two-labels"]["loss"]
    results["results"]["labels/none"] = {"loss": 1.0}
    found = compare(shipped(loss), read_results(json.dumps(results)))
    assert not found.right and found.missing == ("labels/one-label",) and found.unknown == ("labels/none",)
    assert found.wrong == {("labels/two-labels", "loss"): "It is missing."}
    assert "labels/one-label: no results" in str(found) and "labels/none: there is no such case" in str(found)
    nothing = compare(shipped(loss), {"precision": "float64", "results": {}})
    assert not nothing.right and len(nothing.missing) >= 25


def test_fastemit_is_optional():
    results = right_results(shipped("rnnt"))
    results["results"] = {name: value for name, value in results["results"].items() if not name.startswith("fastemit")}
    assert compare(shipped("rnnt"), read_results(json.dumps(results))).right
    one = {**results["results"], "fastemit/small": right_results(shipped("rnnt"))["results"]["fastemit/small"]}
    found = compare(shipped("rnnt"), read_results(json.dumps({**results, "results": one})))
    assert found.missing == ("fastemit/large", "fastemit/empty-target")


# --- files that somebody wrote ---


@pytest.mark.parametrize("text, said", [
    ("", "There are no results."), ("{", "It is not JSON"), ("[" * 100_000, "It is not JSON"),
    ("1" * 5000, "It is not JSON"), ("[]", "the whole: []; expected type"), ("x" * 2_000_001, "expected at most"),
    ('{"vectors": "a", "precision": "float64"}', "the whole: results missing."),
    ('{"vectors": "a", "precision": "double", "results": {}}', 'precision: "double"; expected enum'),
    ('{"vectors": "a", "precision": "float64", "results": {"x": {"loss": NaN}}}', 'write the string "nan"'),
    ('{"vectors": "a", "precision": "float64", "results": {"x": {"loss": "much"}}}', 'x, loss: "much"; expected a num'),
    ('{"vectors": "a", "precision": "float64", "results": {"x": {"gradient": 1}}}', "'gradient' is none of log_probs"),
    ('{"vectors": "a", "precision": "float64", "results": {"x": {"grad_logits": [1]}}}', "an object with shape and va"),
    ('{"vectors": "a", "precision": "float64", "results": {"x": {"grad_logits": {"shape": [3], "values": [1]}}}}',
     "x, grad_logits: shape = [3]"),
    ('{"vectors": "a", "precision": "float64", "results": {"x": {"loss": 1%s}}}' % ("0" * 400), "too large"),
    ('{"vectors": "a", "precision": "float64", "results": {"x": {"grad_logits": {"shape": [1], "values": [1%s]}}}}'
     % ("0" * 400), "expected numbers that fit"),
])
def test_what_is_no_file_of_results(text, said):
    with pytest.raises(NotResults, match=re.escape(said)):
        read_results(text)


def test_the_command(tmp_path, capsys):
    file = tmp_path / "results.json"

    def run(results, *more):
        file.write_text(results if isinstance(results, str) else json.dumps(results), encoding="utf-8")
        return main(["check", str(file), *more]), *capsys.readouterr()

    right = right_results(shipped("ctc"))
    assert run(right)[0] == 0
    for encoding in ("utf-8-sig", "utf-16", "utf-32"):  # what else editors and shells write
        file.write_text(json.dumps(right), encoding=encoding)
        assert main(["check", str(file)]) == 0, encoding
    file.write_bytes(b"\xff{}")
    assert main(["check", str(file)]) == 2 and "It is not JSON" in capsys.readouterr().err
    wrong = copy.deepcopy(right)
    wrong["results"]["masks/on-the-way"]["loss"] = 1.0
    status, out, _ = run(wrong)
    assert status == 1 and "masks/on-the-way, loss: 1; expected" in out and "28 of 29 cases right" in out
    assert run(wrong, "--without", "masks")[0] == 0
    status, _, err = run(wrong, "--without", "mask")
    assert status == 2 and "without = 'mask'; expected one of labels" in err
    for text, said in (("{", "It is not JSON"), ({**right, "vectors": "mine"}, "use --vectors"),
                       ({**right, "vectors": "ctc 0.1"}, "has 'ctc 1.0.0'"), ({**right, "vectors": "../x 1"}, "../x")):
        status, _, err = run(text)
        assert status == 2 and said in err
    assert main(["check", str(tmp_path / "none")]) == 2
    own = document("rnnt", "mine", problems("rnnt", np.random.default_rng(4), long=False))
    (tmp_path / "own.json").write_text(json.dumps(own), encoding="utf-8")
    assert run(right_results(own), "--vectors", str(tmp_path / "own.json"))[0] == 0
    (tmp_path / "own.json").write_text("{}", encoding="utf-8")
    assert run(right_results(own), "--vectors", str(tmp_path / "own.json"))[0] == 2
    for text in ("{", "[" * 10**5, None):
        (tmp_path / "own.json").unlink()
        if text:
            (tmp_path / "own.json").write_text(text, encoding="utf-8")
        else:
            (tmp_path / "own.json").mkdir()
        status, _, err = run(right, "--vectors", str(tmp_path / "own.json"))
        assert status == 2 and len(err.splitlines()) == 1 and err.startswith(f"check: {tmp_path / 'own.json'}: ")


@pytest.mark.parametrize("options", [
    ["--without", "masks", "FILE"], ["FILE", "--without", "short", "--without", "masks"]])
def test_a_group_that_is_left_out_takes_one_value(options, tmp_path):
    file = tmp_path / "results.json"
    results = right_results(shipped("ctc"))
    results["results"]["masks/on-the-way"]["loss"] = 1.0
    file.write_text(json.dumps(results), encoding="utf-8")
    assert main(["check", *(str(file) if word == "FILE" else word for word in options)]) == 0


def test_vectors_that_cannot_be_written(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert main(["write", "--out", str(tmp_path / "file" / "folder")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("write: ") and "folder" in line


@pytest.mark.parametrize("constant", [0.0, np.nan, 3.5])
def test_one_number_for_everything_is_no_mistake_of_the_recursions(constant):
    found = right_results(shipped("ctc"))
    for answers in found["results"].values():
        for name in ("loss", "grad_logits"):
            answers[name] = as_json(name, np.full(np.shape(value_of(answers[name])), constant))
    said = {*compare(shipped("ctc"), read_results(json.dumps(found))).wrong.values()}
    assert said == {f"It is {'NaN' if np.isnan(constant) else f'{constant:g}'} for everything."}


def test_writing(tmp_path):
    command = [sys.executable, "-m", "reference_impl.conformance.vectors", "write", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT / "src")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "ctc.json").read_bytes() == (FOLDER / "ctc.json").read_bytes()


# --- the page ---


def snippet(language):
    return re.search(rf"```{language}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)[1]


def test_python_on_the_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copy(FOLDER / "ctc.json", tmp_path)
    calls = []

    def my_loss(logits, targets, blank):
        calls.append(blank)
        return ctc.loss(log_softmax(logits), targets, blank=blank) + off

    off = 0.0
    exec(snippet("python"), {"my_loss": my_loss})
    off = 1e-6
    with pytest.raises(AssertionError, match="labels/one-label"):
        exec(snippet("python"), {"my_loss": my_loss})
    assert len(calls) == 25 + 1


def test_javascript_on_the_page(tmp_path):
    """With a loss of its own that knows one frame of one symbol."""
    shutil.copy(FOLDER / "ctc.json", tmp_path)
    loss = "const myLoss = (shape, logits, targets, blank) => logits[0] === -Infinity ? -Infinity : shape[0] + blank;"
    done = subprocess.run([node(), "-e", loss + snippet("javascript")], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = read_results((tmp_path / "results.json").read_text(encoding="utf-8"))
    assert found["vectors"] == "ctc 1.0.0" and found["results"]["blank/last"]["loss"] == 8


def test_c_on_the_page(tmp_path):
    if not shutil.which("cc"):
        pytest.skip("there is no C compiler")
    program = snippet("c") + """
#include <stdio.h>
int main(void) {
    static char text[1000000];
    double values[1000];
    fread(text, 1, sizeof text - 1, stdin);
    size_t count = read_values(strstr(text, "\\"masks/on-the-way\\""), "\\"logits\\"", values);
    for (size_t i = 0; i < count; i++) printf("%.17g\\n", values[i]);
}"""
    (tmp_path / "read.c").write_text(program, encoding="utf-8")
    subprocess.run(["cc", "-Wall", "-Wno-unused-result", "-Werror", "-o", "read", "read.c"], cwd=tmp_path, check=True)
    found = subprocess.run([tmp_path / "read"], input=(FOLDER / "ctc.json").read_text(encoding="utf-8"),
                           capture_output=True, text=True, check=True)
    case = next(case for case in shipped("ctc")["cases"] if case["id"] == "masks/on-the-way")
    np.testing.assert_array_equal([float(x) for x in found.stdout.split()], decoded(case["inputs"]["logits"]).ravel())


def test_numbers_and_output_on_the_page():
    """Counts of cases, and what the command says about a port with a mistake."""
    text = PAGE.read_text(encoding="utf-8")
    for loss in LOSSES:
        assert re.search(rf"`{loss}.json [^|]*\| {len(shipped(loss)['cases'])} \|", text)
    assert all(f"`{group}`" in text for group in GROUPS)
    name = "It skips the blank between two equal labels; there a blank has to be passed."
    results = with_mistake("ctc", "loss", mistakes_of("ctc", "loss")[name])
    for found in results["results"].values():
        for field in set(found) - {"loss"}:
            del found[field]
    assert f"```text\n{compare(shipped('ctc'), read_results(json.dumps(results)))}\n```" in text
    shown = json.loads(snippet("json").replace(', "..."', ""))
    assert shown["results"]["labels/one-label"]["loss"] == 4.177135
