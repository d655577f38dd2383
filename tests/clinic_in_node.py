"""The kernel clinic's JavaScript, run in node: what a line of it returns for each of many inputs. It judges nothing.

Node is the one that playwright brings along. `C` is gradient_clinic_math.js and `P` pasted_numbers.js.
"""

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
STATIC = ROOT / "book" / "_static"

HEAD = f"""
const C = require({json.dumps(str(STATIC / "gradient_clinic_math.js"))});
const P = require({json.dumps(str(STATIC / "pasted_numbers.js"))});
const NAMED = {{ inf: Infinity, "-inf": -Infinity, nan: NaN }};
const numbers = (list) => Float64Array.from(list, (x) => (typeof x === "string" ? NAMED[x] : x));
const problem = (each) => ({{ ...each, scores: numbers(each.scores) }});
const array = ({{ shape, values }}) => ({{ shape, values: numbers(values) }});
const plain = (key, x) => {{
  if (typeof x === "number" && !Number.isFinite(x)) return String(x).replace("Infinity", "inf").toLowerCase();
  return ArrayBuffer.isView(x) ? [...x] : x;
}};
const given = JSON.parse(require("fs").readFileSync(0, "utf8"));
const answer = (each) => {{ ANSWER }};
console.log(JSON.stringify(given.map(answer), plain));
"""


def node(answer, given):
    """What a line of JavaScript returns for each of the given."""
    driver = pytest.importorskip("playwright._impl._driver", reason="playwright brings node along")
    done = subprocess.run([str(driver.compute_driver_executable()[0]), "-e", HEAD.replace("ANSWER", answer)],
                          input=json.dumps(given), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def listed(array):
    return [x if np.isfinite(x) else str(x) for x in np.asarray(array, dtype=np.float64).ravel().tolist()]


def problem(loss, scores, targets, blank=0):
    return {"loss": loss, "shape": list(np.shape(scores)), "scores": listed(scores),
            "target": [int(label) for label in targets], "blank": int(blank)}


def array(values):
    return {"shape": list(np.shape(values)), "values": listed(values)}


def full(x):
    """Every digit, as JSON."""
    return json.dumps(np.asarray(x).tolist())


def pasted(loss, scores, gradient, targets, *, value=None, blank=0, **options):
    """What a reader pastes, for :data:`REPORT`; arrays with all digits, and text as it is."""
    scores, gradient = (x if isinstance(x, str) else full(x) for x in (scores, gradient))
    return {"loss": loss, "scores": scores, "gradient": gradient, "targets": str(list(targets)), "blank": blank,
            "value": value if value is None else str(value), "options": options}


#: From text to the report, as the page does it.
REPORT = """
const target = P.readLabels(each.targets);
const scores = P.fit(P.read(each.scores), each.loss, target.length).array;
const given = P.fit(P.read(each.gradient), each.loss, target.length).array;
const p = { loss: each.loss, shape: scores.shape, scores: scores.values, target, blank: each.blank };
const value = each.value === null ? null : P.readNumber(each.value);
const meant = value && C.lossFound(p, value.values[0], C.lossTolerance(p, value, scores, 1e-6));
const meaning = meant && !meant.normalised ? meant.inputs : "";
const report = C.reportOf(p, given, scores, { ...each.options, meaning });
const exactness = value && C.lossTolerance(p, value, scores, Math.max(1e-6, report.tolerance));
return { ...report, loss: value ? C.lossSaid(p, value.values[0], exactness, report.reading) : "" };
"""
