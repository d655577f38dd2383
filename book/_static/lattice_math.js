/* Lattices of CTC and RNN-T in plain JavaScript: log alpha, log beta, arc posteriors, occupancy and both gradients of
   one small utterance, by the book's theorem. It draws nothing and knows no page; the tests compare it with NumPy. */
"use strict";

const LatticeMath = (() => {
  const BLANK = 0;

  /* Numbers of a reproducible sequence in [0, 1): a multiplicative congruential generator. */
  function randomNumbers(seed) {
    let state = 1 + (Math.abs(Math.trunc(seed)) % 2147483646);
    const next = () => {
      state = (48271 * state) % 2147483647;
      return state / 2147483647;
    };
    for (let i = 0; i < 8; i += 1) next(); // small seeds begin alike
    return next;
  }

  function logAddExp(a, b) {
    const larger = Math.max(a, b);
    return larger === -Infinity ? larger : larger + Math.log1p(Math.exp(Math.min(a, b) - larger));
  }

  function logSoftmax(row) {
    const norm = row.reduce(logAddExp, -Infinity);
    return norm === -Infinity ? row : row.map((x) => x - norm);
  }

  /* One row of V numbers for each frame (CTC) or node (RNN-T, row t (U + 1) + u). */
  function rowCount(problem) {
    return problem.loss === "ctc" ? problem.T : problem.T * (problem.target.length + 1);
  }

  /* Fewest frames in which the target has an alignment. */
  function framesNeeded(problem) {
    const { loss, target } = problem;
    if (loss === "rnnt") return 1;
    return target.length + target.filter((label, u) => u > 0 && label === target[u - 1]).length;
  }

  /* Nodes and arcs. A node: {name, t, place, label} with place = state s or row u; start and end have no place. An
     arc: {from, to, row, symbol, kind}; row is -1 for an arc that uses no entry. Every arc leads to a later node. */
  function lattice(problem) {
    return problem.loss === "ctc" ? ctcLattice(problem) : rnntLattice(problem);
  }

  function ctcLattice({ T, target }) {
    const states = 2 * target.length + 1;
    const symbol = (s) => (s % 2 ? target[(s - 1) / 2] : BLANK);
    const nodes = [{ name: "start", t: -1, place: null, front: 0 }];
    const id = (t, s) => 1 + t * states + s;
    const arcs = [];
    for (let t = 0; t < T; t += 1) {
      for (let s = 0; s < states; s += 1) {
        nodes.push({ name: `(${t}, ${s})`, t, place: s, symbol: symbol(s), front: t + 1 });
        const enter = (from, kind) => arcs.push({ from, to: id(t, s), row: t, symbol: symbol(s), kind });
        if (t === 0) {
          if (s < 2) enter(0, "begin");
          continue;
        }
        enter(id(t - 1, s), "stay");
        if (s > 0) enter(id(t - 1, s - 1), "step");
        if (s > 1 && s % 2 && symbol(s) !== symbol(s - 2)) enter(id(t - 1, s - 2), "skip");
      }
    }
    nodes.push({ name: "end", t: T, place: null, front: T + 1 });
    for (let s = Math.max(states - 2, 0); s < states; s += 1) {
      arcs.push({ from: id(T - 1, s), to: nodes.length - 1, row: -1, symbol: null, kind: "end" });
    }
    return { nodes, arcs, fronts: T + 2, places: states };
  }

  function rnntLattice({ T, target }) {
    const rows = target.length + 1;
    const nodes = [];
    const arcs = [];
    const id = (t, u) => t * rows + u;
    for (let t = 0; t < T; t += 1) {
      for (let u = 0; u < rows; u += 1) {
        nodes.push({ name: `(${t}, ${u})`, t, place: u, symbol: null, front: t + u });
        const leave = (to, symbol, kind) => arcs.push({ from: id(t, u), to, row: id(t, u), symbol, kind });
        if (t + 1 < T) leave(id(t + 1, u), BLANK, "blank");
        else if (u + 1 === rows) leave(T * rows, BLANK, "last blank");
        if (u + 1 < rows) leave(id(t, u + 1), target[u], "label");
      }
    }
    nodes.push({ name: "end", t: T, place: rows - 1, symbol: null, front: T + rows - 1 });
    return { nodes, arcs, fronts: T + rows, places: rows };
  }

  /* Everything of one problem {loss, T, V, target, logits, lambda}; lambda is FastEmit's, 0 for the loss itself. With
     inputs: "log_probs" the scores are taken as they are, normalised or not. */
  function solve(problem) {
    const { nodes, arcs, fronts, places } = lattice(problem);
    const logProbs = problem.inputs === "log_probs" ? problem.logits : problem.logits.map(logSoftmax);
    const weight = arcs.map((arc) => (arc.row < 0 ? 0 : logProbs[arc.row][arc.symbol]));
    const order = nodes.map((_, i) => i).sort((i, j) => nodes[i].front - nodes[j].front);
    const into = nodes.map(() => []);
    const outOf = nodes.map(() => []);
    arcs.forEach((arc, i) => {
      into[arc.to].push(i);
      outOf[arc.from].push(i);
    });

    const logAlpha = nodes.map(() => -Infinity);
    const logBeta = nodes.map(() => -Infinity);
    logAlpha[order[0]] = 0;
    logBeta[nodes.length - 1] = 0;
    for (const n of order) {
      for (const i of into[n]) logAlpha[n] = logAddExp(logAlpha[n], logAlpha[arcs[i].from] + weight[i]);
    }
    for (const n of [...order].reverse()) {
      for (const i of outOf[n]) logBeta[n] = logAddExp(logBeta[n], weight[i] + logBeta[arcs[i].to]);
    }
    const logZ = logAlpha[nodes.length - 1];
    const share = (x) => (logZ === -Infinity ? 0 : Math.exp(x - logZ));
    const posterior = arcs.map((arc, i) => share(logAlpha[arc.from] + weight[i] + logBeta[arc.to]));
    const gamma = nodes.map((_, n) => share(logAlpha[n] + logBeta[n]));

    const zeros = () => logProbs.map((row) => row.map(() => 0));
    const occupancy = zeros();
    const field = zeros(); // what FastEmit returns for the log-probs; minus the occupancy where lambda is 0
    arcs.forEach((arc, i) => {
      if (arc.row < 0) return;
      occupancy[arc.row][arc.symbol] += posterior[i];
      field[arc.row][arc.symbol] -= posterior[i] * (arc.kind === "label" ? 1 + (problem.lambda || 0) : 1);
    });
    const toLogits = (rows) => rows.map((row, r) => {
      const total = row.reduce((a, b) => a + b, 0);
      return row.map((x, k) => x - Math.exp(logProbs[r][k]) * total);
    });
    return {
      nodes, arcs, fronts, places, into, outOf, weight, logProbs, logAlpha, logBeta, logZ, posterior, gamma, occupancy,
      gradLogProbs: occupancy.map((row) => row.map((x) => 0 - x)),
      gradLogits: toLogits(occupancy.map((row) => row.map((x) => 0 - x))),
      fieldLogProbs: field,
      fieldLogits: toLogits(field),
    };
  }

  /* -log Z alone. */
  function loss(problem) {
    return 0 - solve(problem).logZ;
  }

  function nudged(problem, row, symbol, by) {
    const logits = problem.logits.map((x) => [...x]);
    logits[row][symbol] += by;
    return { ...problem, logits };
  }

  /* (L(a + h) - L(a - h)) / 2h in one logit. */
  function centralDifference(problem, row, symbol, h) {
    return (loss(nudged(problem, row, symbol, h)) - loss(nudged(problem, row, symbol, -h))) / (2 * h);
  }

  /* The heaviest path, as arcs; through a node, if one is given. Null if there is none. */
  function bestPath(solved, through = null) {
    const { nodes, arcs, into, outOf, weight } = solved;
    const order = nodes.map((_, i) => i).sort((i, j) => nodes[i].front - nodes[j].front);
    const walk = (sequence, first, arcsOf, next) => {
      const best = nodes.map(() => -Infinity);
      const by = nodes.map(() => -1);
      best[first] = 0;
      for (const n of sequence) {
        for (const i of arcsOf[n]) {
          const value = best[next(arcs[i])] + weight[i];
          if (value > best[n]) [best[n], by[n]] = [value, i];
        }
      }
      return { best, by };
    };
    const forth = walk(order, order[0], into, (arc) => arc.from);
    const back = walk([...order].reverse(), nodes.length - 1, outOf, (arc) => arc.to);
    const middle = through === null ? nodes.length - 1 : through;
    if (forth.best[middle] + back.best[middle] === -Infinity) return null;
    const path = [];
    for (let n = middle; forth.by[n] >= 0; n = arcs[forth.by[n]].from) path.unshift(forth.by[n]);
    for (let n = middle; back.by[n] >= 0; n = arcs[back.by[n]].to) path.push(back.by[n]);
    return path;
  }

  /* A path drawn from the posterior: each step by the share of its arc in what is left. */
  function samplePath(solved, random) {
    const { nodes, arcs, outOf, weight, logBeta, logZ } = solved;
    if (logZ === -Infinity) return null;
    const path = [];
    let n = nodes.findIndex((node) => node.front === 0);
    while (n !== nodes.length - 1) {
      let rest = random();
      const choices = outOf[n].filter((i) => logBeta[arcs[i].to] > -Infinity && weight[i] > -Infinity);
      let chosen = choices[choices.length - 1];
      for (const i of choices) {
        rest -= Math.exp(weight[i] + logBeta[arcs[i].to] - logBeta[n]);
        if (rest < 0) {
          chosen = i;
          break;
        }
      }
      path.push(chosen);
      n = arcs[chosen].to;
    }
    return path;
  }

  function logProbOfPath(solved, path) {
    return path.reduce((sum, i) => sum + solved.weight[i], 0);
  }

  return {
    BLANK, bestPath, centralDifference, framesNeeded, lattice, logAddExp, logProbOfPath, logSoftmax, loss, nudged,
    randomNumbers, rowCount, samplePath, solve,
  };
})();

if (typeof module !== "undefined") module.exports = LatticeMath;
