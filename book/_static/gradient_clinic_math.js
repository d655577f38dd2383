/* What is wrong with a gradient of CTC or RNN-T that somebody dumped: reference_impl.diagnosis in plain JavaScript, with
   the same sentences, on top of lattice_math.js. It draws nothing, reads no text, and knows no page. Arrays are flat
   Float64Arrays; a problem is {loss, shape, scores, target, blank}, shape (T, V) for CTC and (T, U + 1, V) for RNN-T. */
"use strict";

const GradientClinic = ((M) => {
  const TERMS = [
    "softmax times blank posteriors", "softmax times label posteriors", "blank occupancy", "label occupancy",
  ];
  const EXACT = 1e-9; // as in diagnosis.py
  const CLOSE = { float64: EXACT, float32: 1e-4, float16: 3e-2, bfloat16: 1e-1 }; // the others as in identifying.py
  const MISSING = "missing";
  const PRESENT = "present, but it belongs to the gradient with respect to the logits";
  const UNLISTED = "wrong, in a way not on the list";
  const OF_THE_NODE = "beta of the node itself instead of the node after the step";
  const TOO_LOOSE = 0.02; // as in diagnosis.py
  const VARIABLES = ["logits", "log_probs"];
  const CALLED = { logits: "logits", log_probs: "log-probs" };

  /* --- numbers as Python writes them --- */

  /* The digits of a number, rounded half to even where it lies halfway, and its power of ten. */
  function rounded(x, digits) {
    const [mantissa, power] = Math.abs(x).toExponential(100).split("e");
    const all = mantissa.replace(".", "");
    let kept = BigInt(all.slice(0, digits));
    const rest = all.slice(digits);
    const half = `5${"0".repeat(rest.length - 1)}`;
    if (rest > half || (rest === half && kept % 2n === 1n)) kept += 1n;
    const text = kept.toString();
    return text.length > digits ? [text.slice(0, digits), Number(power) + 1] : [text, Number(power)];
  }

  /* f"{x:.{digits}g}" */
  function general(x, digits) {
    if (Number.isNaN(x)) return "nan";
    const sign = x < 0 || Object.is(x, -0) ? "-" : "";
    if (!Number.isFinite(x)) return `${sign}inf`;
    if (x === 0) return `${sign}0`;
    const [text, power] = rounded(x, digits);
    const strip = (number) => (number.includes(".") ? number.replace(/0+$/, "").replace(/\.$/, "") : number);
    if (power < -4 || power >= digits) {
      const raised = String(Math.abs(power)).padStart(2, "0");
      return `${sign}${strip(`${text[0]}.${text.slice(1)}`)}e${power < 0 ? "-" : "+"}${raised}`;
    }
    const plain = power < 0 ? `0.${"0".repeat(-power - 1)}${text}` : `${text.slice(0, power + 1)}.${text.slice(power + 1)}`;
    return sign + strip(plain);
  }

  const tuple = (numbers) => `(${numbers.join(", ")}${numbers.length === 1 ? "," : ""})`;

  function indexOf(i, shape) {
    const index = [];
    for (const size of [...shape].reverse()) {
      index.unshift(i % size);
      i = Math.floor(i / size);
    }
    return index;
  }

  const filled = (n, value) => Float64Array.from({ length: n }, (_, i) => value(i));

  /* --- the lattice of one problem, blank and shape as they are --- */

  /* Scores, targets and sizes that make no problem; "" if they do. Messages are those of _validation.py. */
  function refused({ loss, shape, scores, target, blank }) {
    const V = shape[shape.length - 1];
    if (shape.length !== (loss === "ctc" ? 2 : 3)) {
      const axes = loss === "ctc" ? "2 axes (T, V)" : "3 axes (T, U+1, V)";
      return `scores has shape ${tuple(shape)}; expected ${axes}`;
    }
    if (shape.some((size) => size < 1)) return `scores has shape ${tuple(shape)}; expected no size of 0`;
    if (!Number.isInteger(blank) || blank < 0 || blank >= V) return `blank = ${blank}; expected 0 <= blank < V = ${V}`;
    for (const [u, label] of target.entries()) {
      const place = `targets[${u}] = ${label}`;
      if (!Number.isInteger(label)) return `${place}; expected an integer`;
      if (label < 0 || label >= V) return `${place}; expected 0 <= label < V = ${V}`;
      if (label === blank) return `${place}; expected a label other than blank = ${blank}`;
    }
    if (loss === "rnnt" && shape[1] !== target.length + 1) {
      return `scores has ${shape[1]} rows on its U+1 axis; expected U + 1 = ${target.length + 1}, `
        + `one more than the ${target.length} columns of targets`;
    }
    const bad = scores.findIndex((x) => !(x < Infinity));
    if (bad < 0) return "";
    return `scores[${indexOf(bad, shape).join(", ")}] = ${general(scores[bad], 17)}; `
      + "expected no NaN and no +inf (-inf masks an entry)";
  }

  const cache = new WeakMap();

  function solved(problem, inputs) {
    if (!cache.has(problem)) cache.set(problem, {});
    const both = cache.get(problem);
    both[inputs] = both[inputs] || solve(problem, inputs);
    return both[inputs];
  }

  /* The laboratory's blank is symbol 0, so two columns change places, there and back. */
  function solve(problem, inputs) {
    const { loss, shape, scores, target, blank } = problem;
    const [T, V] = [shape[0], shape[shape.length - 1]];
    const exchange = (k) => (k === 0 ? blank : k === blank ? 0 : k);
    const logits = Array.from({ length: scores.length / V }, (_, row) =>
      Array.from({ length: V }, (__, k) => scores[row * V + exchange(k)]));
    const s = M.solve({ loss, T, V, target: target.map(exchange), logits, inputs });
    const back = (rows) => filled(scores.length, (i) => rows[Math.floor(i / V)][exchange(i % V)]);
    const grid = (values) => Float64Array.from(values.filter((_, n) => s.nodes[n].place !== null && s.nodes[n].t < T));
    return {
      logProbs: back(s.logProbs), probs: back(s.logProbs).map(Math.exp), occupancy: back(s.occupancy), logZ: s.logZ,
      alpha: grid(s.logAlpha), beta: grid(s.logBeta), places: s.places,
    };
  }

  const perRow = (V, i) => Math.floor(i / V);

  function sumsOfRows(array, V) {
    const sums = new Float64Array(array.length / V);
    array.forEach((x, i) => {
      sums[perRow(V, i)] += x;
    });
    return sums;
  }

  /* The four terms, as terms_of in terms.py. */
  function termsOf(problem, inputs) {
    const V = problem.shape[problem.shape.length - 1];
    const { probs, occupancy } = solved(problem, inputs);
    const blanks = occupancy.map((x, i) => (i % V === problem.blank ? x : 0));
    const labels = occupancy.map((x, i) => (i % V === problem.blank ? 0 : x));
    const times = (occupied) => {
      const sums = sumsOfRows(occupied, V);
      return probs.map((y, i) => y * sums[perRow(V, i)]);
    };
    return [times(blanks), times(labels), blanks, labels];
  }

  const isLogits = (variable) => (variable === "logits" ? 1 : 0);

  function combined(terms, multiples) {
    const sum = new Float64Array(terms[0].length);
    terms.forEach((term, j) => {
      const multiple = multiples[j] || 0; // NaN: no such term
      if (multiple) for (let i = 0; i < sum.length; i += 1) sum[i] += multiple * term[i];
    });
    return sum;
  }

  /* The right gradient of -log Z. */
  function expected(problem, variable, inputs = variable) {
    const softmax = isLogits(variable);
    return combined(termsOf(problem, inputs), [softmax, softmax, -1, -1]);
  }

  const lossOf = (problem, inputs) => 0 - solved(problem, inputs).logZ;

  /* --- least squares for the four multiples --- */

  /* The triangle R of columns = Q R, and Q' wanted, by reflections. */
  function triangle(columns, wanted) {
    const size = columns.length;
    const work = [...columns, wanted].map((column) => Float64Array.from(column));
    const n = wanted.length;
    for (let c = 0; c < Math.min(size, n); c += 1) {
      const mirror = work[c].slice(c);
      const length = Math.sqrt(mirror.reduce((sum, x) => sum + x * x, 0));
      if (length === 0) continue;
      mirror[0] += mirror[0] < 0 ? -length : length;
      let square = 0;
      for (let i = 0; i < mirror.length; i += 1) square += mirror[i] * mirror[i];
      for (let d = c; d <= size; d += 1) {
        let along = 0;
        for (let i = 0; i < mirror.length; i += 1) along += mirror[i] * work[d][c + i];
        along *= 2 / square;
        for (let i = 0; i < mirror.length; i += 1) work[d][c + i] -= along * mirror[i];
      }
    }
    const top = work.map((column, c) => Array.from({ length: size }, (_, r) => (r < n && r <= c ? column[r] : 0)));
    return { columns: top.slice(0, size), wanted: top[size] };
  }

  /* Singular values of a small square matrix of columns, turned in place until they are orthogonal (one-sided Jacobi):
     the turns. */
  function orthogonalised(columns) {
    const turned = columns.map((_, a) => columns.map((__, b) => (a === b ? 1 : 0)));
    const dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);
    const turn = (a, b, cosine, sine) => a.forEach((x, i) => {
      [a[i], b[i]] = [cosine * x - sine * b[i], sine * x + cosine * b[i]];
    });
    for (let sweep = 0, moved = true; moved && sweep < 40; sweep += 1) {
      moved = false;
      for (let p = 0; p < columns.length; p += 1) {
        for (let q = p + 1; q < columns.length; q += 1) {
          const [pp, qq, pq] = [dot(columns[p], columns[p]), dot(columns[q], columns[q]), dot(columns[p], columns[q])];
          if (Math.abs(pq) <= 1e-16 * Math.sqrt(pp * qq)) continue;
          moved = true;
          const zeta = (qq - pp) / (2 * pq);
          const tangent = (zeta < 0 ? -1 : 1) / (Math.abs(zeta) + Math.hypot(1, zeta));
          const cosine = 1 / Math.hypot(1, tangent);
          turn(columns[p], columns[q], cosine, cosine * tangent);
          turn(turned[p], turned[q], cosine, cosine * tangent);
        }
      }
    }
    return turned;
  }

  /* Of several solutions the smallest, as NumPy's lstsq. `reach` of a multiple: what an error of 1 in every entry can do
     to it. What is left over: the largest `rest`, and the largest `share` of an entry. */
  function fitted(gradient, terms, entries = null) {
    const places = [...gradient.keys()].filter((i) => entries === null || entries[i]);
    const present = terms.map((_, j) => j).filter((j) => terms[j].some((x) => x !== 0));
    const columns = present.map((j) => Float64Array.from(places, (i) => terms[j][i]));
    const { columns: small, wanted } = triangle(columns, Float64Array.from(places, (i) => gradient[i]));
    const turned = orthogonalised(small);
    const squares = small.map((column) => column.reduce((sum, x) => sum + x * x, 0));
    const least = Math.sqrt(Math.max(0, ...squares)) * Number.EPSILON * Math.max(places.length, columns.length);
    const kept = small.map((_, a) => a).filter((a) => Math.sqrt(squares[a]) > least);
    const [multiples, reach] = [terms.map(() => NaN), terms.map(() => NaN)];
    present.forEach((j, at) => {
      if (!places.length) return;
      const along = kept.map((a) => small[a].reduce((sum, x, i) => sum + x * wanted[i], 0) / squares[a]);
      multiples[j] = kept.reduce((sum, a, b) => sum + turned[a][at] * along[b], 0);
      const weights = present.map((_, other) => kept.reduce((sum, a) => sum + turned[a][at] * turned[a][other] / squares[a], 0));
      reach[j] = 0;
      for (let i = 0; i < places.length; i += 1) {
        let each = 0;
        for (let c = 0; c < columns.length; c += 1) each += weights[c] * columns[c][i];
        reach[j] += Math.abs(each);
      }
    });
    const explained = combined(terms, multiples);
    let [rest, share] = [0, 0];
    for (const i of places) {
      const left = Math.abs(gradient[i] - explained[i]);
      rest = Math.max(rest, left);
      share = Math.max(share, left / (1 + Math.abs(gradient[i])));
    }
    return { multiples, reach, rest, share };
  }

  /* --- the terms one by one, as in diagnosis.py --- */

  function isClose(a, b, entries, tolerance) {
    for (let i = 0; i < a.length; i += 1) {
      if (entries[i] && !(Math.abs(a[i] - b[i]) <= tolerance * (1 + Math.abs(b[i])))) return false;
    }
    return true;
  }

  /* `node` has the occupancy of each row. */
  function softmaxTerm(variable, probs, node, entries, V) {
    const right = probs.map((y, i) => y * node[perRow(V, i)]);
    const zero = new Float64Array(probs.length);
    if (variable === "log_probs") {
      const wrong = [[PRESENT, right]];
      return { name: "softmax term", entries, right: zero, wrong };
    }
    const wrong = [[MISSING, zero], ["wrong sign", right.map((x) => -x)]];
    if (node.every((x) => x === 0)) wrong.push(["not 0, though there is no path", probs]);
    else if (!node.every((x) => Math.abs(x - 1) <= 1e-8 + 1e-5)) {
      wrong.push(["without the node occupancy that it is multiplied by", probs]);
    }
    wrong.push(["without the softmax that it is made of", probs.map((_, i) => node[perRow(V, i)])]);
    return { name: "softmax term", entries, right, wrong };
  }

  function occupancyTerm(name, entries, occupied, probs, logZ, more, tolerance) {
    const [z, zz] = [Math.exp(logZ), Math.exp(2 * logZ)];
    const right = occupied.map((x) => -x);
    const wrong = [
      [MISSING, occupied.map((x) => 0 * x)],
      ["wrong sign", occupied],
      ["counted twice", occupied.map((x) => -2 * x)],
      ["not divided by Z (`- log_z`)", occupied.map((x) => -x * z)],
      ["multiplied by Z instead of divided", occupied.map((x) => -x * zz)],
      ["without the probability of its own step (`+ log_probs`)", occupied.map((x, i) => (probs[i] > 0 ? -x / probs[i] : 0))],
      ["with the probability of its own step counted twice", occupied.map((x, i) => -x * probs[i])],
      ["not divided by Z (`- log_z`), and with the wrong sign", occupied.map((x) => x * z)],
      ...more.map(([said, array]) => [said, array.map((x) => -x)]),
    ];
    return { name, entries, right, wrong: wrong.filter(([, array]) => !isClose(array, right, entries, tolerance)) };
  }

  function ctcTerms(problem, variable, tolerance) {
    const { shape: [T, V], target, blank } = problem;
    const { probs, alpha, beta, logZ, places } = solved(problem, variable);
    const alive = logZ > -Infinity ? 1 : 0;
    const scale = alive ? logZ : 0;
    const symbol = (s) => (s % 2 ? target[(s - 1) / 2] : blank);
    const bySymbol = (logMass, assign = false) => {
      const array = new Float64Array(T * V);
      for (let s = 0; s < places; s += 1) {
        for (let t = 0; t < T; t += 1) {
          const i = t * V + symbol(s);
          array[i] = (assign ? 0 : array[i]) + Math.exp(logMass(t, s) - scale) * alive;
        }
      }
      return array;
    };
    const a = (t, s) => alpha[t * places + s];
    const b = (t, s) => beta[t * places + s];
    const occupied = bySymbol((t, s) => a(t, s) + b(t, s));
    const more = [
      ["states of the same symbol overwrite each other instead of adding up", bySymbol((t, s) => a(t, s) + b(t, s), true)],
      ["alpha alone, without beta", bySymbol(a)],
      ["beta alone, without alpha", bySymbol(b)],
      ["beta of the frame after", bySymbol((t, s) => a(t, s) + (t + 1 < T ? b(t + 1, s) : -Infinity))],
    ];
    const isBlank = probs.map((_, i) => Number(i % V === blank));
    const isLabel = probs.map((_, i) => Number(target.includes(i % V)));
    const neither = probs.map((_, i) => 1 - isBlank[i] - isLabel[i]);
    return [
      softmaxTerm(variable, probs, filled(T, () => alive), neither, V),
      occupancyTerm("blank term", isBlank, occupied, probs, scale, more, tolerance),
      occupancyTerm("label term", isLabel, occupied, probs, scale, more, tolerance),
    ];
  }

  function rnntTerms(problem, variable, tolerance) {
    const { shape: [T, rows, V], target, blank } = problem;
    const U = rows - 1;
    const { logProbs, probs, occupancy, alpha, beta, logZ } = solved(problem, variable);
    const kind = (i) => {
      const k = i % V;
      if (k === blank) return "blank";
      return perRow(V, i) % rows < U && k === target[perRow(V, i) % rows] ? "label" : "other";
    };
    const a = (t, u) => alpha[t * rows + u];
    const b = (t, u) => beta[t * rows + u];
    const afterBlank = (t, u) => (t + 1 < T ? b(t + 1, u) : u === U ? 0 : -Infinity);
    const afterLabel = (t, u) => b(t, u + 1);
    const entriesOf = (ofBlank, ofLabel) => probs.map((_, i) => {
      const node = perRow(V, i);
      const place = [Math.floor(node / rows), node % rows];
      if (kind(i) === "other") return 0;
      return (kind(i) === "blank" ? ofBlank : ofLabel)(...place, i);
    });
    const posterior = (logA, blankAfter, labelAfter) => {
      const of = (after) => (t, u, i) => Math.exp(logA(t, u) + logProbs[i] + after(t, u) - logZ);
      return entriesOf(of(blankAfter), of(labelAfter));
    };
    const nothing = (t, u) => 0 * b(t, u); // NaN where beta is 0, as in NumPy
    const node = (t, u) => Math.exp(a(t, u) + b(t, u) - logZ);
    const more = [
      [OF_THE_NODE, posterior(a, b, b)],
      ["alpha alone, without beta", posterior(a, nothing, nothing)],
      ["beta alone, without alpha", posterior((t, u) => 0 * a(t, u), afterBlank, afterLabel)],
      ["the node occupancy, not that of the arc", entriesOf(node, node)],
      ["with the beta of the other step", posterior(a, (t, u) => (u < U ? b(t, u + 1) : -Infinity), afterBlank)],
    ];
    const leadsNowhere = [
      ["not 0, though this blank would end the utterance with labels missing", posterior(a, nothing, afterLabel)], more[0]];
    const isLabel = entriesOf(() => 0, () => 1);
    const isBlank = entriesOf(() => 1, () => 0);
    const last = entriesOf((t, u) => Number(t === T - 1 && u === U), () => 0);
    const early = entriesOf((t, u) => Number(t === T - 1 && u < U), () => 0);
    const neither = probs.map((_, i) => 1 - isBlank[i] - isLabel[i]);
    const others = [
      ["blank term", isBlank.map((x, i) => x - last[i] - early[i]), more], ["last blank", last, more],
      ["blank of the last frame below the last row", early, leadsNowhere], ["label term", isLabel, more],
    ].filter(([, entries]) => entries.some((x) => x));
    return [
      softmaxTerm(variable, probs, sumsOfRows(occupancy, V), neither, V),
      ...others.map(([name, entries, wrong]) =>
        occupancyTerm(name, entries, occupancy, probs, logZ, wrong, tolerance)),
    ];
  }

  function compared(term, given, base, shape, tolerance) {
    const right = base.map((x, i) => x + term.right[i]);
    if (isClose(given, right, term.entries, tolerance)) return [];
    for (const [said, array] of term.wrong) {
      if (isClose(given, base.map((x, i) => x + array[i]), term.entries, tolerance)) return [`${term.name}: ${said}`];
    }
    const errors = given.map((x, i) => (term.entries[i] ? Math.abs(x - base[i] - term.right[i]) : 0));
    const isNaN = errors.findIndex(Number.isNaN);
    const i = isNaN >= 0 ? isNaN : errors.indexOf(errors.reduce((x, y) => Math.max(x, y)));
    return [`${term.name}: ${UNLISTED}; at entry ${tuple(indexOf(i, shape))} it is ${general(given[i] - base[i], 10)}, `
      + `expected ${general(term.right[i], 10)}`];
  }

  /* --- a softmax term that goes with wrong occupancies: softmax_multiples and _on_other_sums in Python --- */

  function onOtherSums({ shape }, given, probs, softmax, tolerance) {
    const V = shape[shape.length - 1];
    const rowsOf = (value) => sumsOfRows(given.map((x, i) => value(x, i)), V);
    const [along, squares, reach, several] = [(x, y) => x * y, (x, y) => y * y, (x, y) => (1 + Math.abs(x)) * y,
      (x, y) => Number(y > 0)].map((of) => rowsOf((x, i) => (softmax.entries[i] ? of(x, probs[i]) : 0)));
    const timesProbs = (sums) => probs.map((y, i) => y * (sums[perRow(V, i)] || 0));
    const multiples = along.map((x, r) => x / squares[r]);
    if (!given.every(Number.isFinite) || !squares.some((x) => x > 0)
      || !isClose(given, timesProbs(multiples), softmax.entries, tolerance)) return null;
    const allowed = rowsOf((x) => tolerance * (1 + Math.abs(x)));
    const balanced = sumsOfRows(given, V).every((x, r) => Math.abs(x) <= allowed[r]);
    const slack = reach.map((x, r) => (squares[r] > 0 ? tolerance * x / squares[r] : 0));
    const most = (list) => list.reduce((x, y) => Math.max(x, y));
    if ((!balanced && !several.some((n) => n > 1)) || most(slack) > TOO_LOOSE) return null;
    const right = sumsOfRows(softmax.right, V);
    const sums = multiples.map((x, r) => (Number.isNaN(x) ? right[r] : x));
    const found = { base: timesProbs(sums), said: "", look: "look at alpha, beta and log Z", tolerance: tolerance + most(slack) };
    if (!balanced) return found;
    const apart = sums.map((x, r) => Math.abs(x - right[r]));
    const row = apart.findIndex((x) => x >= most(apart) * (1 - 1e-6)); // the first of those that differ by rounding alone
    const place = shape.length === 2 ? `frame ${row}` : `node ${tuple(indexOf(row, shape.slice(0, 2)))}`;
    const off = [...new Set([...apart.keys()].filter((r) => apart[r] > slack[r] + tolerance * (1 + right[r]))
      .map((r) => Math.floor(r * shape[0] / apart.length)))];
    const [first, last] = [off[0], off[off.length - 1]];
    if (off.length && off.length === last - first + 1 && (first === 0) !== (last === shape[0] - 1)) {
      found.look = first ? `all sums before frame ${first} are right: look first at alpha`
        : `all sums after frame ${last} are right: look first at beta`;
    }
    found.said = `the occupancies are wrong, not the softmax: those of ${place} add up to ${general(sums[row] + 0, 6)}, `
      + `expected ${general(right[row], 6)}`;
    return found;
  }

  /* --- what multiplies all terms alike, or those of the labels --- */

  const fine = (tolerance) => tolerance <= EXACT;

  /* A fit as {variable, factor, emphasis, forgotten}; null if the gradient is no such sum. Multiples of numbers with few
     digits are known as well as these digits say: `slack`. */
  function read(fit, problem, tolerance) {
    const factor = -fit.multiples[2];
    // least squares does not make the largest error smallest
    const allowed = (fine(tolerance) ? tolerance : 2 * tolerance) * Math.max(1, Math.abs(factor));
    if (!((fine(tolerance) ? fit.rest : fit.share) <= allowed) || !factor || Number.isNaN(factor)) return null;
    const relative = fit.multiples.map((x) => x / factor);
    const slack = fit.reach.map((x, j) => (fine(tolerance) ? 1e-7
      : Math.max(1e-7, allowed * (x + Math.abs(relative[j]) * fit.reach[2]) / Math.abs(factor))));
    if (slack[2] > 0.25) return null; // too few digits to say
    const labels = problem.target.length > 0;
    const emphasis = labels ? -relative[3] : 1;
    const are = (...wanted) => wanted.every((x, j) =>
      (!labels && j % 2 === 1) || Math.abs(relative[j] - x) <= slack[j]);
    const near = Math.max(1e-7, fine(tolerance) ? 0 : allowed * fit.reach[2]);
    const found = { factor: Math.abs(factor - 1) < near ? 1 : factor, near, emphasis: 1, forgotten: false, slack: slack[3] };
    for (const variable of VARIABLES) {
      const softmax = isLogits(variable);
      if (are(softmax, softmax, -1, -1)) return { ...found, variable };
    }
    if (problem.loss !== "rnnt" || !(emphasis > 1)) return null;
    for (const variable of VARIABLES) {
      const softmax = isLogits(variable);
      if (are(softmax, softmax * emphasis, -1, -emphasis)) return { ...found, variable, emphasis };
      if (are(softmax, softmax, -1, -emphasis)) return { ...found, variable, emphasis, forgotten: true };
    }
    return null;
  }

  /* A fitted number: to six digits, or to as many as are known. */
  function known(x, slack) {
    if (slack <= 1e-7) return general(x, 6);
    const decimals = Math.max(0, Math.floor(-Math.log10(slack)));
    return general(Number(x.toFixed(Math.min(decimals, 12))), 6);
  }

  function factorSaid({ factor, near }, problem) {
    if (Math.abs(factor + 1) < near) return "all entries times -1: the sign?";
    if (Math.abs(factor * Math.LN2 - 1) < near) {
      return "all entries times 1.4427 = 1 / ln 2: bits, where nats are asked for?";
    }
    const power = Math.round(Math.log2(Math.abs(factor)));
    if (power >= 8 && Math.abs(Math.abs(factor) / 2 ** power - 1) < Math.max(1e-6, near / Math.abs(factor))) {
      const scale = `${factor < 0 ? "-" : ""}2^${power}`;
      return `all entries times ${general(Math.sign(factor) * 2 ** power, 10)}, which is ${scale}: loss scaling, or a reduction?`;
    }
    const [T, U] = [problem.shape[0], problem.target.length];
    const sizes = [["T", T], ["U", U], ["(U + 1)", U + 1], ["(T + U)", T + U], ["(T (U + 1))", T * (U + 1)]];
    const same = sizes.find(([, size]) => size > 1 && Math.abs(factor * size - 1) < near * (near > 1e-7 ? size : 1));
    const shown = same && near > 1e-7 ? 1 / same[1] : factor; // few digits pasted
    return `all entries times ${general(shown, 3)}: a reduction?${same ? ` Here it is 1 / ${same[0]}.` : ""}`;
  }

  /* A reading in the sentences of diagnosis.py; nothing for the plain gradient. */
  function readingSaid(reading, problem) {
    const { emphasis, slack } = reading;
    const found = reading.factor === 1 ? [] : [factorSaid(reading, problem)];
    if (emphasis === 1) return found;
    const said = `FastEmit, lambda = ${known(emphasis - 1, slack)}: the posteriors of the labels are multiplied by `
      + `${known(emphasis, slack)}`;
    const forgotten = ", but for those in the softmax term, which have to be as well";
    return [said + (reading.forgotten ? forgotten : ""), ...found];
  }

  /* --- the findings, one sentence each: those of diagnose_values --- */

  const wrongShape = (given, shape) => (given.length === shape.length && given.every((size, i) => size === shape[i])
    ? [] : [`it has shape ${tuple(given)}; expected ${tuple(shape)}`]);

  /* The number that every one of several entries is, in words; "" if they differ. */
  function constantOf(values) {
    if (values.length < 2) return "";
    if (values.every(Number.isNaN)) return "NaN";
    return values.every((x) => x === values[0]) ? general(values[0] + 0, 10) : "";
  }

  /* Findings about a gradient {shape, values} as one with respect to the variable; none if it is right. */
  function findings(problem, gradient, variable, tolerance = EXACT) {
    const { shape } = problem;
    const given = gradient.values;
    const unfit = wrongShape(gradient.shape, shape);
    if (unfit.length) return unfit;
    const right = expected(problem, variable);
    const constant = constantOf(given);
    if (constant && right.some((x) => x !== 0) && !isClose(given, right, given.map(() => 1), tolerance)) {
      return [`it returns ${constant} for everything`];
    }
    const notANumber = given.findIndex(Number.isNaN);
    if (notANumber >= 0) return [`entry ${tuple(indexOf(notANumber, shape))} is NaN: -inf minus -inf, or 0 times inf?`];
    const terms = (problem.loss === "ctc" ? ctcTerms : rnntTerms)(problem, variable, tolerance);
    const [softmax] = terms;
    // the other terms are seen on top of the softmax term that the gradient has, if that one is known
    let base = [softmax.right, ...softmax.wrong.map(([, array]) => array)]
      .find((array) => isClose(given, array, softmax.entries, tolerance));
    let found = compared(softmax, given, new Float64Array(given.length), shape, tolerance);
    const other = base || variable !== "logits" ? null
      : onOtherSums(problem, given, solved(problem, variable).probs, softmax, tolerance);
    if (other) base = other.base;
    if (base) {
      const others = terms.slice(1).flatMap((term) => compared(term, given, base, shape, other ? other.tolerance : tolerance));
      if (other && other.said && others.length) {
        found = [other.said + (others.some((each) => each.includes(UNLISTED)) ? `; ${other.look}` : "")];
      }
      found.push(...others);
    }
    if (!found.length || !given.every(Number.isFinite)) return found;
    const reading = read(fitted(given, termsOf(problem, variable)), problem, tolerance);
    const multiplied = reading && reading.variable === variable ? readingSaid(reading, problem) : [];
    return multiplied.length ? multiplied : found;
  }

  /* --- which conventions a gradient follows, whatever its variable --- */

  /* Fits that explain the gradient: {inputs, variable, factor, emphasis, forgotten, clamp, rest}, one for each meaning of
     the scores that does. A clamp is looked for only where nothing else explains it. */
  function readings(problem, gradient, tolerance = EXACT) {
    const given = gradient.values;
    if (wrongShape(gradient.shape, problem.shape).length || !given.every(Number.isFinite)) return [];
    const fits = (entries, clamp) => VARIABLES.flatMap((inputs) => {
      const terms = termsOf(problem, inputs);
      const fit = fitted(given, terms, entries);
      const reading = read(fit, problem, tolerance);
      if (!reading) return [];
      const whole = combined(terms, fit.multiples);
      if (clamp) {
        const cut = whole.map((x) => Math.max(-clamp, Math.min(clamp, x)));
        if (!isClose(given, cut, given.map(() => 1), 2 * tolerance)) return [];
        if (!whole.some((x) => Math.abs(x) > clamp + 2 * tolerance)) return [];
      }
      return [{ ...reading, inputs, clamp, rest: fit.rest, whole }];
    });
    const plain = fits(null, 0);
    if (plain.length) return plain;
    const limit = given.reduce((most, x) => Math.max(most, Math.abs(x)), 0);
    const entries = given.map((x) => Number(Math.abs(x) < limit - Math.max(1e-6 * limit, fine(tolerance) ? 0 : tolerance)));
    const inside = entries.reduce((sum, x) => sum + x, 0);
    if (!limit || given.length - inside < 2 || inside < 8) return [];
    return fits(entries, limit);
  }

  /* Sums of the rows of probabilities, the smallest and the largest; 1 and 1 if the scores are normalised. */
  function rowSums({ shape, scores }) {
    const sums = sumsOfRows(scores.map(Math.exp), shape[shape.length - 1]).filter((sum) => sum > 0); // 0: all is masked
    if (!sums.length) return [1, 1];
    return [sums.reduce((x, y) => Math.min(x, y)), sums.reduce((x, y) => Math.max(x, y))];
  }

  const isNormalised = (problem, tolerance) =>
    rowSums(problem).every((sum) => Math.abs(sum - 1) <= Math.max(1e-5, Math.min(0.05, 10 * tolerance)));

  /* What the scores are, and what the gradient belongs to, in a sentence or two. */
  function variableSaid({ inputs, variable }, problem, tolerance, open) {
    if (isNormalised(problem, tolerance)) {
      return variable === "logits"
        ? "The scores are log-probs: their rows add up to 1. This is the gradient with respect to the logits that feed their "
          + "log-softmax. Whether the loss applies a log-softmax once more cannot be seen, because it would change nothing."
        : "The scores are log-probs: their rows add up to 1. This is the gradient with respect to these log-probs, each a "
          + "variable of its own. If the loss applies a log-softmax to them, the step back through it is missing.";
    }
    const [least, most] = rowSums(problem).map((x) => general(x, 3));
    const sums = `their rows add up to between ${least} and ${most}, not to 1`;
    if (open) { // a frame's normaliser divides out of CTC's occupancies
      return "This is minus the occupancy: the gradient with respect to log-probs. If the scores are logits, to which the loss "
        + "applies a log-softmax, the step back through it is missing. If the scores are taken as they are, it is right, though "
        + `${sums}. CTC's occupancy is the same in both cases; the loss would tell.`;
    }
    if (inputs === "logits") {
      return variable === "logits"
        ? "The scores are logits: a log-softmax is inside, and this is the gradient with respect to the logits."
        : "A log-softmax is applied to the scores, but this is the gradient with respect to its output, the log-probs: the "
          + "step back through the log-softmax is missing.";
    }
    return variable === "logits"
      ? `The scores are taken as log-probs, without a log-softmax, but ${sums}. The gradient has a softmax term all the same, `
        + "which is right only for scores that come out of a log-softmax: apply one to the scores."
      : `The scores are taken as they are, without a log-softmax, and this is the gradient with respect to them; ${sums}, so `
        + "the loss is not that of a distribution.";
  }

  function clampSaid({ clamp, factor, near }) {
    const interval = (c) => `[-${general(c, 4)}, ${general(c, 4)}]`;
    if (Math.abs(factor - 1) < near) return `The gradient is clamped to ${interval(clamp)}.`;
    return `The gradient is clamped, to ${interval(clamp)} after all entries were multiplied, or to `
      + `${interval(clamp / Math.abs(factor))} before.`;
  }

  /* --- the report --- */

  const QUALITY = { right: 0, explained: 1, named: 2, unknown: 3 };

  function qualityOf(found) {
    if (!found.length) return "right";
    if (found.every((each) => /^(FastEmit|all entries times)/.test(each))) return "explained";
    return found.some((each) => each.includes(UNLISTED)) ? "unknown" : "named";
  }

  /* As one with respect to the variable that fits best; undecided if another fits as well. `meaning` is what the scores
     are to the loss, where that is known. */
  function chosen(problem, gradient, tolerance, meaning) {
    const tried = VARIABLES.map((variable) => {
      const found = findings(problem, gradient, variable, tolerance);
      return { variable, found, quality: qualityOf(found) };
    });
    const [logits, logProbs] = tried;
    const difference = QUALITY[logits.quality] - QUALITY[logProbs.quality];
    const sure = tried.find((each) => each.variable === meaning && each.quality !== "unknown");
    if (sure) return sure;
    const [best] = tried.filter(({ quality }) => QUALITY[quality] === Math.min(...tried.map((each) => QUALITY[each.quality])));
    if (difference !== 0) return best;
    if (best.quality === "right") return { ...best, undecided: true };
    if (best.quality === "named" && logProbs.found.length !== logits.found.length) {
      return logProbs.found.length < logits.found.length ? logProbs : logits;
    }
    // symbols that are neither blank nor label have a gradient with respect to logits only
    const V = problem.shape[problem.shape.length - 1];
    const others = gradient.values.filter((_, i) => i % V !== problem.blank && !problem.target.includes(i % V));
    return others.length && others.every((x) => Math.abs(x) <= tolerance) ? logProbs : logits;
  }

  /* Other symbols that explain the gradient if they are the blank. */
  function otherBlanks(problem, gradient, tolerance) {
    const V = problem.shape[problem.shape.length - 1];
    const symbols = V * gradient.values.length <= 1e6 ? Array.from({ length: V }, (_, k) => k) : [0, V - 1];
    return symbols.filter((blank) => blank !== problem.blank && !problem.target.includes(blank)
      && readings({ ...problem, blank }, gradient, tolerance).length);
  }

  /* Everything about one gradient {shape, values}. With a variable, the findings are the sentences of diagnose_values
     for it; without, the one that fits best is taken. `meaning`: what the scores are to the loss, logits or log_probs, if
     its value has told. The verdict is right, explained (by what multiplies the terms, or cuts the gradient), named (all
     that is wrong has a name), shape (it is not that of the scores) or unknown. */
  function report(problem, gradient, { variable = "", tolerance = EXACT, meaning = "" } = {}) {
    const shapes = wrongShape(gradient.shape, problem.shape);
    const nothing = { said: "", clamp: "", reading: null, blanks: [], noPath: false, unexplained: false, tolerance };
    if (shapes.length) return { ...nothing, verdict: "shape", variable: variable || "logits", findings: shapes };
    const choice = variable ? { variable, found: findings(problem, gradient, variable, tolerance) }
      : chosen(problem, gradient, tolerance, meaning);
    const noPath = VARIABLES.every((inputs) => lossOf(problem, inputs) === Infinity);
    const fits = noPath ? [] : readings(problem, gradient, variable ? tolerance : Math.max(tolerance, 2 * EXACT));
    const wanted = meaning || choice.variable;
    const away = (fit) => (fit.inputs === wanted ? 0 : 1) + (fit.variable === choice.variable ? 0 : 2);
    const quality = qualityOf(choice.found);
    const itself = { inputs: choice.variable, variable: choice.variable, factor: 1, near: tolerance, emphasis: 1, clamp: 0 };
    const [reading = quality === "right" && !noPath ? itself : null] = fits.sort((a, b) => away(a) - away(b));
    const plain = reading ? readingSaid(reading, problem) : [];
    const mixed = reading !== null && reading.inputs !== reading.variable && !isNormalised(problem, tolerance);
    const reread = !variable && reading && (mixed ? quality === "unknown"
      : (quality === "named" || quality === "unknown") && (plain.length > 0 || reading.clamp > 0));
    const judged = reread && mixed ? reading.inputs : choice.variable;
    const softmax = `softmax term: ${judged === "logits" ? MISSING : PRESENT}`;
    const open = !meaning && fits.length > 1 && fits.every((fit) => fit.variable === "log_probs");
    let said = "";
    if (noPath) said = "No alignment exists: Z = 0, the loss is infinite, and the gradient is 0 by definition.";
    else if (choice.undecided) said = "At this tolerance the gradients with respect to logits and to log-probs cannot be told apart.";
    else if (reading) said = variableSaid(reading, problem, tolerance, open);
    else if (!variable && !constantOf(gradient.values)) said = `It was judged as a gradient with respect to the ${CALLED[choice.variable]}, which it fits best.`;
    return {
      ...nothing, said, reading, noPath, variable: judged,
      findings: reread ? [...(mixed ? [softmax] : []), ...plain] : choice.found,
      verdict: reread ? (mixed ? "named" : "explained") : quality,
      clamp: reading && reading.clamp ? clampSaid(reading) : "",
      unexplained: !reading && !noPath && quality === "unknown",
    };
  }

  /* --- tolerances --- */

  /* How far the right gradient moves when each score is moved by its own rounding, up or down: the largest of some tries. */
  function movedBy(problem, halfUnits, tries = 4) {
    if (halfUnits.every((x) => x === 0)) return 0;
    const random = M.randomNumbers(1);
    const exact = VARIABLES.map((variable) => expected(problem, variable));
    let most = 0;
    for (let n = 0; n < tries; n += 1) {
      const scores = problem.scores.map((x, i) => x + (random() < 0.5 ? -1 : 1) * halfUnits[i]);
      VARIABLES.forEach((variable, v) => expected({ ...problem, scores }, variable).forEach((x, i) => {
        most = Math.max(most, Math.abs(x - exact[v][i]));
      }));
    }
    return most;
  }

  /* Tolerances to try, finest first, each with its reason. `given` and `scores` are arrays as read, {values, halfUnits,
     digits, type}; a type is only known if it was printed, or seen in the numbers. */
  function tolerances(problem, given, scores) {
    const own = 1.01 * given.halfUnits.reduce((most, unit, i) =>
      Math.max(most, unit / (1 + (Number.isFinite(given.values[i]) ? Math.abs(given.values[i]) : 0))), 0);
    const moved = 2 * movedBy(problem, scores.halfUnits);
    const ladder = [{ tolerance: EXACT, because: "the numbers are taken as exact", digits: own <= EXACT && moved <= EXACT }];
    const gradientSaid = `the gradient is given ${given.digits}`;
    if (own > EXACT) ladder.push({ tolerance: own, because: gradientSaid, digits: moved <= 0.1 * own });
    if (moved > Math.max(EXACT, 0.1 * own)) {
      const scoresSaid = `the scores ${scores.digits}, which moves the right gradient by up to ${general(moved / 2, 2)}`;
      const because = own > EXACT ? `${gradientSaid}, and ${scoresSaid}` : scoresSaid.replace("the scores", "the scores are given");
      ladder.push({ tolerance: Math.max(own, EXACT) + moved, because, digits: true });
    }
    const types = [given.type, scores.type];
    const arithmetic = ["bfloat16", "float16"].find((type) => types.includes(type)) || "float32";
    if (arithmetic === "float32" && given.type === "float64") return ladder;
    const { tolerance: last } = ladder[ladder.length - 1];
    const loose = arithmetic === "float32" ? inFloat32(problem) : CLOSE[arithmetic];
    if (loose > last) ladder.push({ tolerance: loose, because: `${arithmetic} arithmetic may be as far off`, digits: false });
    return ladder;
  }

  /* Logarithms of the size of log Z, rounded in each step of a path, and errors that add up like a random walk. */
  function inFloat32(problem) {
    const steps = problem.shape[0] + problem.target.length;
    const sizes = VARIABLES.map((inputs) => Math.abs(lossOf(problem, inputs))).filter(Number.isFinite);
    return Math.min(1e-3, 4 * 2 ** -24 * Math.sqrt(steps) * Math.max(1, ...sizes));
  }

  /* The report at the finest tolerance at which all that is found has a name; if there is none, that which follows from
     the digits. A tolerance of the size of the gradient itself would find it missing. */
  function reportOf(problem, given, scores, { variable = "", tolerance = 0, meaning = "" } = {}) {
    const ladder = tolerance ? [{ tolerance, because: "you chose it", digits: true }] : tolerances(problem, given, scores);
    const size = given.values.reduce((most, x) => Math.max(most, Math.abs(x)), 0);
    let last = null;
    for (const { tolerance: each, because, digits } of ladder) {
      if (size > 0 && size <= 8 * each && !digits) continue;
      const found = { ...report(problem, given, { variable, tolerance: each, meaning }), because };
      if (found.verdict !== "unknown") return found;
      if (digits) last = found;
    }
    if (!last.unexplained) return last;
    const loosest = ladder.map((step) => step.tolerance).filter((each) => size > 8 * each).pop() || EXACT;
    const blanks = [last.tolerance, loosest].map((each) => otherBlanks(problem, given, each)).find((found) => found.length);
    return { ...last, blanks: blanks || [] };
  }

  /* --- the loss --- */

  /* How exactly a pasted loss is known: by its own digits, those of the scores, and the arithmetic of the gradient. */
  function lossTolerance(problem, given, scores, tolerance) {
    const moved = VARIABLES.map((variable) => expected(problem, variable)
      .reduce((sum, x, i) => sum + Math.abs(x) * scores.halfUnits[i], 0));
    return 1.01 * (Math.max(...given.halfUnits, 0) + Math.max(...moved)) + tolerance;
  }

  /* What a loss is: -log Z of the scores in one of their meanings, times a factor with a name; null if it is not. */
  function lossFound(problem, given, tolerance) {
    const [T, U] = [problem.shape[0], problem.target.length];
    const factors = [
      [", in nats", 1], [", in bits", 1 / Math.LN2], [", with the other sign: it is log Z", -1],
      [", divided by U, the number of labels", 1 / U], [", divided by T, the number of frames", 1 / T],
      [", divided by U + 1", 1 / (U + 1)], [", divided by T + U", 1 / (T + U)],
      [", divided by T (U + 1), the number of nodes", 1 / (T * (U + 1))],
    ].filter(([, factor], n, all) => Number.isFinite(factor) && all.findIndex(([, other]) => other === factor) === n);
    const normalised = isNormalised(problem, tolerance);
    const fitting = factors.flatMap(([called, factor]) => (normalised ? ["log_probs"] : VARIABLES).map((inputs) =>
      ({ called, factor, inputs, normalised, right: factor * lossOf(problem, inputs) })));
    return fitting.find(({ right }) => Number.isFinite(right) && Math.abs(given - right) <= tolerance * (1 + Math.abs(right)))
      || null;
  }

  /* The same in a sentence. `reading` is that of the gradient, which should be the derivative of this loss. */
  function lossSaid(problem, given, tolerance, reading = null) {
    const values = VARIABLES.map((inputs) => lossOf(problem, inputs));
    if (values.every((x) => x === Infinity)) {
      return given === Infinity ? "The loss is inf, as it should be where no alignment exists."
        : `No alignment exists, so the loss should be inf. It is ${general(given, 7)}.`;
    }
    const found = lossFound(problem, given, tolerance);
    if (!found) {
      const minus = isNormalised(problem, tolerance) ? general(values[1], 7)
        : `${general(values[0], 7)} if the scores are logits, and ${general(values[1], 7)} if they are log-probs`;
      return `The loss is ${general(given, 7)}, and -log Z is ${minus}. No ratio of the two has a name here.`;
    }
    const { inputs, factor, called, normalised } = found;
    const of = { logits: "the logits, after a log-softmax", log_probs: "the scores as they are, without a log-softmax" };
    const said = `The loss is -log Z of ${normalised ? "the log-probs" : of[inputs]}${called}.`;
    if (!reading || reading.clamp) return said;
    if (!normalised && reading.inputs !== inputs) {
      return `${said} The gradient takes the scores as ${CALLED[reading.inputs]}, so it is not that of this loss.`;
    }
    const ratio = reading.factor / factor;
    return Math.abs(ratio - 1) <= Math.max(1e-6, reading.near / Math.abs(reading.factor)) ? said
      : `${said} The gradient is ${general(ratio, 3)} times that of this loss.`;
  }

  /* --- where the book derives what a finding is about --- */

  /* Labels of equations and sections, each a link on the page. */
  const LINKS = [
    [/^softmax term/, { ctc: ["eq-ctc-grad-logits"], rnnt: ["eq-rnnt-grad-logits"] }],
    [/own step/, { ctc: ["why-log-probs"], rnnt: ["why-log-probs"] }],
    [/divided|multiplied by Z/, { ctc: ["eq-gradient-theorem"], rnnt: ["eq-gradient-theorem"] }],
    [/^last blank/, { rnnt: ["why-last-blank"] }],
    [/^(blank|label) (term|of)|^the occupancies/, { ctc: ["def-ctc-occupancy"], rnnt: ["eq-rnnt-blank-arc", "eq-rnnt-label-arc"] }],
    [/^FastEmit.*have to be as well/, { rnnt: ["eq-fastemit-forgotten"] }],
    [/^FastEmit/, { rnnt: ["eq-fastemit-logits"] }],
    [/^all entries times/, { ctc: ["ctc-reductions"], rnnt: ["ctc-reductions"] }],
    [/is NaN/, { ctc: ["no-alignment", "masks"], rnnt: ["masks"] }],
    [/clamped/, { ctc: ["clamping"], rnnt: ["clamping"] }],
    [/^(?!It was judged).*respect to the logits/, { ctc: ["eq-ctc-grad-logits"], rnnt: ["eq-rnnt-grad-logits"] }],
    [/respect to (its output|these log-probs|them)/, { ctc: ["eq-ctc-grad-log-probs"], rnnt: ["eq-rnnt-grad-log-probs"] }],
    [/log-softmax is missing|apply one/, { ctc: ["eq-log-softmax-vjp"], rnnt: ["eq-log-softmax-vjp"] }],
    [/^No alignment/, { ctc: ["no-alignment"] }],
  ];

  const labelsOf = (sentence, loss) => [...new Set(LINKS.flatMap(([about, labels]) =>
    (about.test(sentence) ? labels[loss] || [] : [])))];

  const allLabels = () => [...new Set(LINKS.flatMap(([, labels]) => Object.values(labels).flat()))];

  return {
    CALLED, CLOSE, EXACT, TERMS, allLabels, expected, findings, fitted, general, indexOf, isNormalised, labelsOf, lossOf,
    lossFound, lossSaid, lossTolerance, movedBy, readings, refused, report, reportOf, termsOf, tolerances, tuple,
  };
})(typeof require === "function" ? require("./lattice_math.js") : LatticeMath);

if (typeof module !== "undefined") module.exports = GradientClinic;
