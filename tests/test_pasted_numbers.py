"""What the kernel clinic reads: prints of NumPy and torch made here and now, and everything else that people paste."""

import csv
import io
import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest
import torch
from clinic_in_node import ROOT, node

READ = """try { return P.read(each); } catch (error) {
    if (!(error instanceof P.NotRead)) throw error;
    return error.message;
}"""
RNG = np.random.default_rng(20)
ARRAYS = {
    "matrix": RNG.normal(size=(3, 4)), "grid": RNG.normal(size=(2, 3, 4)), "row": RNG.normal(size=(1, 5)),
    "wide": RNG.normal(size=(2, 40)), "small": RNG.normal(size=(3, 4)) * 1e-5,
    "spread": RNG.normal(size=(3, 4)) * 10.0 ** RNG.integers(-6, 6, (3, 4)), "whole": RNG.integers(-3, 3, (3, 4)) * 1.0,
    "masked": np.array([[0.5, -np.inf, np.nan], [np.inf, -1.25, 3e-7]]), "scalar": np.array(12.345678),
    "vector": RNG.normal(size=7), "zeros": np.zeros((2, 3)),
}


def parsed(answers):
    for answer in answers:
        assert isinstance(answer, dict), answer
        yield np.array(answer["values"], dtype=float).reshape(answer["shape"]), answer


def check(array, read, answer):
    """The numbers, to within half a unit as the reader found it."""
    array = np.asarray(array, dtype=np.float64)
    assert read.shape == array.shape
    np.testing.assert_array_equal(np.isfinite(read), np.isfinite(array))
    np.testing.assert_array_equal(read[~np.isfinite(read)], array[~np.isfinite(array)])
    finite = np.isfinite(array)
    half_units = np.array(answer["halfUnits"]).reshape(array.shape)
    errors = np.abs(read[finite] - array[finite])
    assert (errors <= half_units[finite] * (1 + 1e-6) + 1e-15 * np.abs(array[finite])).all()
    assert (half_units >= 0).all() and (half_units[~finite] == 0).all()


@pytest.mark.parametrize("options", [
    {}, {"precision": 3}, {"precision": 17}, {"suppress": True}, {"floatmode": "fixed"}, {"floatmode": "unique"},
    {"linewidth": 40}, {"sign": "+"}, {"precision": 5, "suppress": True, "linewidth": 200}, {"legacy": "1.13"},
], ids=str)
@pytest.mark.parametrize("write", [str, repr, lambda x: repr(x.astype(np.float32))], ids=["str", "repr", "repr32"])
def test_prints_of_numpy(options, write):
    with np.printoptions(**{"threshold": 10**6, **options}):
        texts = [write(array) for array in ARRAYS.values()]
    for (name, array), (read, answer) in zip(ARRAYS.items(), parsed(node(READ, texts)), strict=True):
        if options.get("suppress") and name in ("small", "spread", "masked"):
            continue  # what was suppressed is lost: the next test
        is_float32 = "float32" in texts[0]
        check(array.astype(np.float32) if is_float32 else array, read, answer)
        assert answer["type"] == "float32" if is_float32 else answer["type"] != "float64"


@pytest.mark.parametrize(("precision", "half_unit"), [(2, 5e-3), (4, 5e-5), (8, 5e-9)])
def test_half_units_are_those_of_the_digits(precision, half_unit):
    """No larger than the last digit says, whatever the numbers are."""
    matrix = np.abs(ARRAYS["matrix"]) + 1 / 3
    with np.printoptions(precision=precision, suppress=True):
        texts = [str(matrix), repr(matrix), "\n".join(" ".join(f"{x:.{precision}f}" for x in row) for row in matrix)]
    texts.append(str([[f"{x:.{precision}e}" for x in row] for row in matrix]).replace("'", ""))
    for text, (_, answer) in zip(texts, parsed(node(READ, texts)), strict=True):
        scale = 10.0 ** np.floor(np.log10(matrix)).ravel() if "e" in text.replace("array", "") else 1.0
        np.testing.assert_allclose(answer["halfUnits"], half_unit * scale * np.ones(matrix.size), rtol=1e-9, atol=0)


@pytest.mark.parametrize("options", [
    {}, {"precision": 8}, {"precision": 2}, {"sci_mode": True}, {"sci_mode": False, "precision": 10}, {"linewidth": 40},
], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str)
def test_prints_of_torch(options, dtype):
    torch.set_printoptions(threshold=10**6, **options)
    try:
        tensors = {name: torch.tensor(array, dtype=dtype) for name, array in ARRAYS.items()}
        texts = {name: str(tensor) for name, tensor in tensors.items()}
        texts |= {f"{name} of a graph": str(tensor.clone().requires_grad_().log_softmax(-1))
                  for name, tensor in tensors.items() if tensor.ndim > 1}
        tensors |= {f"{name} of a graph": tensor.log_softmax(-1) for name, tensor in tensors.items() if tensor.ndim > 1}
    finally:
        torch.set_printoptions(profile="default", sci_mode=None)
    assert "grad_fn=<LogSoftmaxBackward0>" in texts["matrix of a graph"]
    for name, (read, answer) in zip(texts, parsed(node(READ, list(texts.values()))), strict=True):
        exact = tensors[name].double().numpy()
        if options.get("sci_mode") is False and np.abs(exact[np.isfinite(exact)]).min(initial=1.0) < 1e-6:
            continue
        check(exact, read, answer)
        assert answer["type"] == ("" if dtype == torch.float32 else str(dtype).removeprefix("torch.")) or (
            dtype == torch.float32 and answer["type"] in ("float32", "float16", "bfloat16"))


def test_prints_of_torch_from_cpp(tmp_path):
    """What std::cout shows of a tensor, as TorchScript prints it: slices, columns in groups, factors."""
    code = """
import torch
@torch.jit.script
def show(x: torch.Tensor):
    print(x)
torch.manual_seed(0)
for tensor in (torch.randn(2, 3), torch.randn(2, 2, 3) * 1e-3, torch.randn(2, 14, dtype=torch.float64),
               torch.randn(2, 2, 25), torch.tensor([1.0, -float("inf"), float("nan")]), torch.tensor(0.5),
               torch.randn(2, 3) * torch.tensor([1e-6, 1, 1e3]), torch.tensor([[1.0, 2.0], [3.0, 4.0]]),
               torch.randn(2, 3).half()):
    print("@", tensor.double().tolist(), flush=True)
    show(tensor)
"""
    (tmp_path / "show.py").write_text(code)  # TorchScript reads its own source
    done = subprocess.run([sys.executable, "-W", "ignore", tmp_path / "show.py"], capture_output=True, text=True,
                          check=True, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    pairs = [part.split("\n", 1) for part in done.stdout.split("@ ")[1:]]
    arrays = [np.array(eval(line, {"nan": np.nan, "inf": np.inf})) for line, _ in pairs]  # noqa: S307
    assert len(arrays) == 9 and any("Columns 11 to" in text for _, text in pairs) and any(" *\n" in t for _, t in pairs)
    for array, (_, text), (read, answer) in zip(arrays, pairs, parsed(node(READ, [t for _, t in pairs])), strict=True):
        check(array, read, answer)
        assert answer["type"] == {"F": "float32", "D": "float64", "H": "float16"}[re.search(r"CPU(\w)", text)[1]]


def tables(array):
    """The same matrix as people write it."""
    rows = array.tolist()
    saved, sheet = io.StringIO(), io.StringIO()
    with np.printoptions(precision=17):
        arrays = str(list(array))
    np.savetxt(saved, array, header="scores")
    csv.writer(sheet).writerows(rows)
    braces = "{" + ", ".join("{" + ", ".join(f"{x!r}f" for x in row) + "}" for row in rows) + "}"
    return {
        "json": json.dumps(rows), "indented": json.dumps(rows, indent=1), "tuples": str(tuple(map(tuple, rows))),
        "assigned": f"x.grad[0] = {rows}", "keyword": f"scores={rows}", "savetxt": saved.getvalue(),
        "csv": sheet.getvalue(),
        "tabs": "\n".join("\t".join(map(repr, row)) for row in rows), "semicolons": ";\n".join(
            " ".join(map(repr, row)) for row in rows), "windows": "\r\n".join(" ".join(map(repr, row)) for row in rows),
        "minus": json.dumps(rows).replace("-", "−"), "rows": "\n".join(map(str, rows)),
        "numpy numbers": str([list(row) for row in array]), "rows of arrays": arrays,
        "rows of tensors": f"[{', '.join(f'tensor({row}, device=' + repr('cuda:0') + ')' for row in rows)}]",
        "jax": f"Array({rows}, dtype=float64)", "c++": f"const float scores[{len(array)}][4] = {braces};",
        "tensorflow": f"<tf.Tensor: shape=(3, 4), dtype=float64, numpy=\narray({rows})>",
        "parameter": f"Parameter containing:\ntensor({rows}, requires_grad=True)",
        "printf": "\n".join(" ".join(f"{x:.17g}" for x in row) for row in rows),
    }


def test_what_else_people_paste():
    texts = tables(ARRAYS["matrix"])
    for name, (read, answer) in zip(texts, parsed(node(READ, list(texts.values()))), strict=True):
        np.testing.assert_allclose(read, ARRAYS["matrix"], rtol=1e-15, atol=0, err_msg=name)
        assert max(answer["halfUnits"]) == 0 and answer["digits"] == "in float64", name


def test_names_of_what_is_no_number():
    texts = ["[NaN, Infinity, -Infinity]", "nan inf -inf", "[-nan, 1.0, INF]", "nan(ind) 1 2"]
    for text, (read, _) in zip(texts, parsed(node(READ, texts)), strict=True):
        assert read.shape == (3,) and not np.isfinite(read[0]), text


def test_blocks_of_a_table_are_an_axis():
    text = "\n\n".join("\n".join(" ".join(map(repr, row)) for row in block) for block in ARRAYS["grid"].tolist())
    ((read, _),) = parsed(node(READ, [f"# frame 0\n{text}\n"]))
    np.testing.assert_array_equal(read, ARRAYS["grid"])


def test_types_are_seen_in_the_numbers():
    kinds = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
    texts = [str(torch.tensor(ARRAYS["matrix"], dtype=dtype).tolist()) for dtype in kinds]
    for dtype, answer in zip(kinds, node(READ, texts), strict=True):
        name = str(dtype).removeprefix("torch.")
        assert answer["type"] == ("" if name == "float64" else name) and answer["digits"] == f"in {name}"


@pytest.mark.parametrize(("text", "said"), [
    ("", "Nothing is pasted."), ("  \n", "Nothing is pasted."),
    ("[]", None), ("hello", "Line 1: “hello” is not a number."),
    ("[[1, 2], [3]]", "The rows differ: row 1 has 1 number, and row 0 has 2 numbers."),
    ("1 2 3\n4 5\n", "The rows differ: row 1 has 2 numbers, and row 0 has 3 numbers."),
    ("[[1, 2], [3, x]]", "Line 1: “x” is not a number."), ("[1, null]", "Line 1: “null” is not a number."),
    ("[[1, 2], [3, 4]", "A bracket “]” is missing at the end. Was all of it copied?"),
    ("[[1, 2], 3, 4]]", None), ("[1, 2]]", "Line 1: “]” closes no bracket. Was all of it copied?"),
    ("loss 3.5 [1, 2]", "Line 1: there is a number outside the brackets. Paste one array at a time."),
    ("a,b\n1,2", "Line 1: “a” is not a number."), ("[0x1f]", "Line 1: “0x1f” is not a number."),
])
def test_what_cannot_be_read_is_said(text, said):
    (answer,) = node(READ, [text])
    if said is None:
        assert not isinstance(answer, str) or answer.endswith((".", "?"))
    else:
        assert answer == said


def test_abbreviated_prints():
    """Of both libraries, as they abbreviate by themselves."""
    texts = [str(np.zeros((50, 50))), repr(np.zeros((2, 3, 2000))), str(torch.zeros(100, 100)), "[[1, 2, …]]"]
    assert all("..." in text or "…" in text for text in texts)
    for answer in node(READ, texts):
        assert answer.startswith("The print is abbreviated (...).") and "set_printoptions" in answer


FIT = """try {
    const { array, note } = P.fit({ shape: each[0], values: [] }, each[1], each[2]);
    return [array.shape, note];
} catch (error) { return error.message; }"""


@pytest.mark.parametrize(("shape", "loss", "labels", "fits"), [
    ((5, 4), "ctc", 2, [5, 4]), ((1, 5, 4), "ctc", 2, [5, 4]), ((5, 1, 4), "ctc", 2, [5, 4]), ((4,), "ctc", 1, [1, 4]),
    ((2, 5, 4), "ctc", 2, "The shape is (2, 5, 4); expected (T, V)."), ((5, 3, 4), "rnnt", 2, [5, 3, 4]),
    ((1, 5, 3, 4), "rnnt", 2, [5, 3, 4]), ((15, 4), "rnnt", 2, [5, 3, 4]), ((1, 3, 4), "rnnt", 2, [1, 3, 4]),
    ((5, 4), "rnnt", 0, [5, 1, 4]), ((14, 4), "rnnt", 2, "a table needs a multiple of U + 1 = 3 rows"),
    ((2, 5, 3, 4), "rnnt", 2, "The shape is (2, 5, 3, 4); expected (T, U + 1, V)."),
    ((), "ctc", 1, "The shape is (); expected (T, V)."), ((), "rnnt", 1, "The shape is (); expected (T, U + 1, V)."),
])
def test_shapes_are_made_to_fit(shape, loss, labels, fits):
    (answer,) = node(FIT, [[list(shape), loss, labels]])
    if isinstance(fits, str):
        assert fits in answer
    else:
        assert answer[0] == fits and bool(answer[1]) == (len(shape) != len(fits) and len(shape) > 1)


@pytest.mark.parametrize(("text", "labels"), [
    ("", []), ("[]", []), ("tensor([], dtype=torch.int64)", []), ("1 2 2", [1, 2, 2]), ("1,2,2", [1, 2, 2]),
    ("[3]", [3]), ("3", [3]), ("tensor([1, 2, 2])", [1, 2, 2]), ("[[1, 2]]", [1, 2]), ("array([4, 5])", [4, 5]),
    ("1.5 2", "1.5 is no label; expected whole numbers, such as 1 2 2."), ("a b", "Line 1: “a” is not a number."),
])
def test_labels(text, labels):
    (answer,) = node("try { return P.readLabels(each); } catch (error) { return error.message; }", [text])
    assert answer == labels


@pytest.mark.parametrize(("text", "value"), [
    ("12.5", 12.5), ("tensor(12.5, grad_fn=<MeanBackward0>)", 12.5), ("loss = 12.5", 12.5), ("loss: 12.5", 12.5),
    ("np.float64(12.5)", 12.5), ("[12.5]", 12.5), ("inf", np.inf), ("1 2", "2 numbers; expected one, the loss"),
])
def test_a_loss(text, value):
    (answer,) = node("try { return P.readNumber(each).values[0]; } catch (error) { return error.message; }", [text])
    assert answer.startswith(value) if isinstance(value, str) and isinstance(answer, str) else float(answer) == value


def test_the_snippets_of_the_page_print_what_is_read():
    """Those for torch and NumPy, taken from the page and run."""
    page = (ROOT / "book" / "clinic.md").read_text(encoding="utf-8")
    for_torch, for_numpy = (code for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL))
    scores = torch.tensor(RNG.normal(size=(2, 6, 5)), dtype=torch.float32, requires_grad=True)
    (scores**2).sum().backward()
    printed = []
    names = {"torch": torch, "np": np, "sys": sys, "b": 1, "T": 4, "print": lambda x: printed.append(str(x))}
    options = np.get_printoptions()
    try:
        exec(for_torch, names | {"scores": scores})  # noqa: S102
        exec(for_numpy, names | {"scores": np.pi * np.ones((3, 400)), "gradient": -np.ones((3, 400)) / 3})  # noqa: S102
    finally:
        torch.set_printoptions(profile="default")
        np.set_printoptions(**options)
    exact = [scores[1, :4].detach(), scores.grad[1, :4], np.pi * np.ones((3, 400)), -np.ones((3, 400)) / 3]
    for array, (read, _) in zip(exact, parsed(node(READ, printed)), strict=True):
        np.testing.assert_allclose(read, array, rtol=1e-6 if read.shape == (4, 5) else 1e-16, atol=1e-10)
