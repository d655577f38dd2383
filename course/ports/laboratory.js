/* A port that passes the test vectors: the mathematics of the book's lattice laboratory, read and written as JSON.

     node course/ports/laboratory.js data/vectors/ctc.json results.json     the results of a file of vectors
     node course/ports/laboratory.js ctc                                    an answer to each line of a checker

   An example for instructors of what assignment 8 asks for; lattice_math.js is the part that a student writes. */
"use strict";

const fs = require("fs");
const LatticeMath = require("../../book/_static/lattice_math.js");

const STRINGS = { inf: Infinity, "-inf": -Infinity, nan: NaN };
const read = (x) => (typeof x === "string" ? STRINGS[x] : x);
const write = (x) => (Number.isFinite(x) ? x : Number.isNaN(x) ? "nan" : x > 0 ? "inf" : "-inf");
const array = (shape, values) => ({ shape, values: values.map(write) });

/* The laboratory's blank is symbol 0, so two columns change places, there and back. */
const exchange = (row, blank) => row.map((x, k) => (k === 0 ? row[blank] : k === blank ? row[0] : x));

/* One utterance: rows of logits, V each. */
function solve(loss, T, rows, target, given) {
  const { blank } = given;
  const renamed = target.map((label) => (label === 0 ? blank : label));
  const logits = rows.map((row) => exchange(row, blank));
  const lambda = given.fastemit_lambda || 0;
  const s = LatticeMath.solve({ loss, T, V: rows[0].length, target: renamed, logits, lambda });
  const back = (table) => table.flatMap((row) => exchange(row, blank));
  const grid = (values) => array([T, s.places], values.filter((_, n) => s.nodes[n].place !== null && s.nodes[n].t < T));
  return {
    loss: 0 - s.logZ, logProbs: back(s.logProbs), toLogProbs: back(s.fieldLogProbs), toLogits: back(s.fieldLogits),
    logAlpha: grid(s.logAlpha), logBeta: grid(s.logBeta),
  };
}

/* One case: an utterance, or a batch, whose padding keeps its zeros. */
function answer(loss, given) {
  const { shape, values } = given.logits;
  const numbers = values.map(read);
  const V = shape[shape.length - 1];
  const batch = given.logit_lengths !== undefined;
  const [T, maxRows] = loss === "ctc" ? [shape[batch ? 1 : 0], 1] : shape.slice(batch ? 1 : 0);
  const U = given.targets.shape[batch ? 1 : 0];
  const frames = batch ? given.logit_lengths.values : [T];
  const losses = [];
  const gradLogProbs = numbers.map(() => 0);
  const gradLogits = numbers.map(() => 0);
  let last;
  frames.forEach((count, b) => {
    const labels = batch ? given.target_lengths.values[b] : U;
    const places = []; // where each row begins
    for (let t = 0; t < count; t += 1) {
      for (let u = 0; u < (loss === "ctc" ? 1 : labels + 1); u += 1) places.push(((b * T + t) * maxRows + u) * V);
    }
    const rows = places.map((place) => numbers.slice(place, place + V));
    last = solve(loss, count, rows, given.targets.values.slice(b * U, b * U + labels), given);
    losses.push(write(last.loss));
    places.forEach((place, r) => {
      for (let k = 0; k < V; k += 1) {
        gradLogProbs[place + k] = last.toLogProbs[r * V + k];
        gradLogits[place + k] = last.toLogits[r * V + k];
      }
    });
  });
  const found = {
    loss: batch ? losses : losses[0], grad_log_probs: array(shape, gradLogProbs), grad_logits: array(shape, gradLogits),
  };
  if (batch) return found;
  return { ...found, log_probs: array(shape, last.logProbs), log_alpha: last.logAlpha, log_beta: last.logBeta };
}

/* What is wrong with the inputs of a loss; empty if nothing is. */
function fault(loss, given) {
  const { shape, values } = given.logits;
  const V = shape[shape.length - 1];
  const batch = given.logit_lengths !== undefined;
  const [B, T] = batch ? shape : [1, shape[0]];
  const U = given.targets.shape[batch ? 1 : 0];
  const rows = loss === "ctc" ? 1 : U + 1;
  for (let b = 0; b < B; b += 1) {
    const frames = batch ? given.logit_lengths.values[b] : T;
    const labels = batch ? given.target_lengths.values[b] : U;
    if (frames > T || frames < 1) return `frames of utterance ${b}: ${frames}; expected 1 to ${T}`;
    if (labels > U || labels < 0) return `target_lengths[${b}] = ${labels}; U = ${U}`;
    const bad = given.targets.values.slice(b * U, b * U + labels).find((k) => k < 0 || k >= V || k === given.blank);
    if (bad !== undefined) return `label ${bad}; expected 0 <= label < V = ${V}, and not the blank`;
    for (let t = 0; t < frames; t += 1) {
      for (let u = 0; u < (loss === "ctc" ? 1 : labels + 1); u += 1) {
        const place = ((b * T + t) * rows + u) * V;
        const score = values.slice(place, place + V).find((x) => x === "nan" || x === "inf");
        if (score !== undefined) return `a logit is ${score}`;
      }
    }
  }
  return "";
}

/* One line of the checker's, and the answer to it; see src/reference_impl/conformance/answering.py. */
function reply(loss, asked) {
  if (asked.ask === "about") {
    const can = ["batch", "alpha", "beta"].concat(loss === "rnnt" ? ["fastemit"] : []);
    return { id: asked.id, name: "lattice_math.js", version: process.version, kind: loss, can };
  }
  const message = fault(loss, asked.inputs);
  if (message) return { id: asked.id, error: { type: "RangeError", message } };
  const { grad_logits: gradient, log_alpha, log_beta, loss: value } = answer(loss, asked.inputs);
  return { id: asked.id, outputs: { loss: value, gradient, log_alpha, log_beta } };
}

const [from, to] = process.argv.slice(2);
if (to === undefined) {
  const lines = require("readline").createInterface({ input: process.stdin });
  lines.on("line", (line) => process.stdout.write(`${JSON.stringify(reply(from, JSON.parse(line)))}\n`));
} else {
  const vectors = JSON.parse(fs.readFileSync(from, "utf8"));
  const results = {};
  for (const { id, inputs } of vectors.cases) results[id] = answer(vectors.loss, inputs);
  const made = `lattice_math.js, node ${process.version}`;
  fs.writeFileSync(to, JSON.stringify({ vectors: vectors.name, precision: "float64", made_by: made, results }));
}
