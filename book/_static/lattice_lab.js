/* The lattice laboratory: puts a lattice, its numbers and its controls into each <div class="lattice-lab">. It computes
   nothing by itself (lattice_math.js does), stores nothing and asks no server for anything. */
"use strict";

(() => {
  const M = LatticeMath;
  const LETTERS = ["∅", "a", "b", "c"];
  const [MAX_T, MAX_U] = [8, 4];
  const [STEP, LIMIT] = [0.05, 8];
  const FINE = 0.0005; // of the scores in a link
  const STEPS = [1, 0.1, 0.01, 1e-3, 1e-4, 1e-5];

  /* --- small things --- */

  const SVG = "http://www.w3.org/2000/svg";

  function make(tag, attributes = {}, ...children) {
    const drawn = ["svg", "g", "line", "path", "circle", "text", "title", "defs", "marker"].includes(tag);
    const element = drawn ? document.createElementNS(SVG, tag) : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (value !== null && value !== false) element.setAttribute(name, value === true ? "" : value);
    }
    element.append(...children.flat().filter((child) => child !== null));
    return element;
  }

  const SUPERSCRIPT = "⁰¹²³⁴⁵⁶⁷⁸⁹";

  function number(x) {
    if (Number.isNaN(x)) return "undefined";
    if (!Number.isFinite(x)) return x > 0 ? "∞" : "−∞";
    if (x === 0) return "0";
    const size = Math.abs(x);
    if (size >= 1e-3 && size < 1e4) return x.toPrecision(4).replace("-", "−");
    const [digits, power] = x.toExponential(2).split("e");
    const raised = [...String(Math.abs(Number(power)))].map((d) => SUPERSCRIPT[d]).join("");
    return `${digits}·10${Number(power) < 0 ? "⁻" : ""}${raised}`.replace("-", "−");
  }

  const round = (x) => Math.max(-LIMIT, Math.min(LIMIT, Math.round(x / STEP) * STEP));

  function parseTarget(text, V) {
    const letters = [...text.replace(/[\s,]/g, "").toLowerCase()];
    const wrong = letters.find((letter) => LETTERS.slice(0, V).indexOf(letter) < 1);
    if (wrong !== undefined) return { error: `“${wrong}” is no label; expected letters from a to ${LETTERS[V - 1]}.` };
    if (letters.length > MAX_U) return { error: `${letters.length} labels; expected at most ${MAX_U}.` };
    return { target: letters.map((letter) => LETTERS.indexOf(letter)) };
  }

  /* --- presets: logits for a problem --- */

  const PRESETS = {
    start: "random start",
    trained: "trained, in doubt about the frame",
    peaky: "peaky: sure of one frame for each label",
    wrong: "trained, but one frame is wrong",
    uniform: "all scores equal",
    tiny: "the example of the short way",
  };

  function preset(name, problem, seed) {
    const { loss, T, V, target } = problem;
    const random = M.randomNumbers(seed);
    const noise = () => (random() + random() + random() - 1.5) * (name === "start" ? 0.6 : 0.4);
    const frame = (u) => Math.min(T - 1, Math.floor(((u + 0.5) * T) / Math.max(1, target.length)));
    const rows = loss === "ctc" ? 1 : target.length + 1;
    const logits = [];
    for (let row = 0; row < M.rowCount(problem); row += 1) {
      const [t, u] = [Math.floor(row / rows), row % rows];
      if (name === "tiny") { // reference_impl.examples: every score 0, but one of each row log 2
        const strong = (loss === "ctc" ? row : 2 * row) % 3;
        logits.push(Array.from({ length: V }, (_, k) => (k === strong ? Math.LN2 : 0)));
        continue;
      }
      const scores = Array.from({ length: V }, () => (name === "uniform" ? 0 : noise()));
      if (name !== "start" && name !== "uniform") {
        const sharp = name === "peaky";
        scores[M.BLANK] += sharp ? 5 : 2;
        target.forEach((label, j) => {
          if (loss === "rnnt" && j !== u) return;
          const away = Math.abs(t - frame(j)) * (loss === "rnnt" && t > frame(j) ? 0.5 : 1);
          const lift = sharp ? (away === 0 ? 9 : 0) : 4 - 1.5 * away;
          scores[label] += Math.max(0, lift);
        });
        if (name === "wrong" && t === Math.floor(T / 2)) {
          const other = [3, 2, 1].find((k) => k < V && !target.includes(k)) || V - 1;
          scores[other] += 6;
        }
      }
      logits.push(scores.map(round));
    }
    return logits;
  }

  /* --- a state as text, for a link --- */

  function encode(state) {
    const letters = state.target.map((label) => LETTERS[label]).join("");
    const scores = state.logits.flat().map((x) => Math.round((x + LIMIT) / FINE).toString(36).padStart(3, "0")).join("");
    const fields = [state.loss, state.T, letters, Math.round(100 * state.lambda), state.selected, state.show, scores];
    return fields.join("~");
  }

  function decode(text) {
    const [loss, T, letters, lambda, selected, show, scores] = text.split("~");
    const { target } = parseTarget(letters || "", LETTERS.length);
    if (!["ctc", "rnnt"].includes(loss) || !(T >= 1 && T <= MAX_T) || !target || !(show in SHOWN) || !scores) return null;
    const rows = M.rowCount({ loss, T: Number(T), target });
    const [V, digits, step] = [[3, 3, FINE], [4, 3, FINE], [4, 2, STEP]] // the last: links from before scores were finer
      .find(([count, length]) => scores.length === count * length * rows) || [];
    if (!V || target.some((label) => label >= V)) return null;
    const values = scores.match(new RegExp(`.{${digits}}`, "g")).map((x) => Math.round(1e4 * (parseInt(x, 36) * step - LIMIT)) / 1e4);
    if (values.some((x) => !(Math.abs(x) <= LIMIT))) return null;
    const logits = Array.from({ length: rows }, (_, row) => values.slice(V * row, V * row + V));
    return { loss, T: Number(T), V, target, logits, lambda: Number(lambda) / 100 || 0, selected: Number(selected) || 0, show };
  }

  const SHOWN = {
    gamma: "occupancy γ", alpha: "α, forward mass", beta: "β, backward mass",
    gradLogProbs: "gradient, ∂L/∂log y", gradLogits: "gradient, ∂L/∂logit",
  };

  /* --- the laboratory --- */

  class Laboratory {
    constructor(root, index) {
      this.root = root;
      this.id = root.id || `lattice-lab-${index}`;
      const given = root.dataset;
      const V = Number(given.symbols) || LETTERS.length;
      const { target } = parseTarget(given.target || "ab", V);
      this.seed = Number(given.seed) || 1;
      this.presetName = given.preset in PRESETS ? given.preset : "trained";
      this.state = {
        loss: given.loss === "ctc" ? "ctc" : "rnnt", T: Number(given.frames) || 4, V, target: target || [1, 2],
        lambda: Number(given.lambda) || 0, show: given.show in SHOWN ? given.show : "gamma",
      };
      this.state.logits = preset(this.presetName, this.state, this.seed);
      this.state.selected = named(this.state, given.node) ?? inDoubt(this.state);
      this.symbol = this.symbolOf(this.state.selected, M.BLANK);
      this.sweep = null; // number of steps made of a sweep that is being played; null: everything is shown
      this.path = null;
      this.pathKind = "none";
      this.readLink();
      this.build();
      this.refresh();
      window.addEventListener("hashchange", () => {
        if (this.readLink()) this.rebuild();
      });
    }

    readLink() {
      const prefix = `#${this.id}=`;
      if (!window.location.hash.startsWith(prefix)) return false;
      const state = decode(decodeURIComponent(window.location.hash.slice(prefix.length)));
      if (state === null) return false;
      this.state = state;
      this.symbol = this.symbolOf(state.selected, M.BLANK);
      this.presetName = "";
      this.path = null;
      this.pathKind = "none";
      return true;
    }

    get letters() {
      return LETTERS.slice(0, this.state.V);
    }

    /* Number of rows of scores for each frame. */
    get rows() {
      return this.state.loss === "ctc" ? 1 : this.state.target.length + 1;
    }

    get node() {
      return this.solved.nodes[this.state.selected];
    }

    /* The row of scores that belongs to the selected node. */
    get row() {
      const t = Math.max(0, Math.min(this.state.T - 1, this.node.t));
      return this.state.loss === "ctc" ? t : t * this.rows + Math.min(this.node.place ?? 0, this.rows - 1);
    }

    nameOf(n) {
      return this.solved.nodes[n].name;
    }

    /* --- controls, made once --- */

    build() {
      const { state } = this;
      const on = (handler) => (event) => handler.call(this, event.target.value, event.target);
      const field = (label, control, ...rest) => {
        control.id = `${this.id}-${label.replace(/\W+/g, "-")}`;
        return make("span", { class: "lab-field" }, make("label", { for: control.id }, label), control, rest);
      };
      const choice = (label, options, value, handler) => {
        const select = make("select", { onchange: on(handler) });
        for (const [key, text] of Object.entries(options)) {
          select.append(make("option", { value: key, selected: key === String(value) }, text));
        }
        return field(label, select);
      };
      const button = (text, handler, label = null) =>
        make("button", { type: "button", onclick: () => handler.call(this), "aria-label": label }, text);

      this.targetInput = make("input", {
        type: "text", value: state.target.map((k) => LETTERS[k]).join(""), size: 6, spellcheck: "false",
        autocapitalize: "none", autocomplete: "off", "aria-describedby": `${this.id}-problem`, oninput: on(this.setTarget),
      });
      const frames = make("input", {
        type: "number", min: 1, max: MAX_T, value: state.T, oninput: on(this.setFrames),
        "aria-describedby": `${this.id}-problem`,
      });
      this.lambdaInput = make("input", {
        type: "range", min: 0, max: 1, step: 0.05, value: state.lambda, oninput: on(this.setLambda),
      });
      this.lambdaText = make("output", {});
      this.lambdaField = field("FastEmit λ", this.lambdaInput, this.lambdaText);
      this.presetSelect = choice("scores", { "": "by hand", ...PRESETS }, this.presetName, this.setPreset);
      this.problem = make("p", { class: "lab-problem", id: `${this.id}-problem`, role: "status" });
      this.playButton = button("play", this.play);
      this.status = make("p", { class: "lab-status", role: "status" });
      this.picture = make("div", { class: "lab-picture" });
      this.formulas = make("div", { class: "lab-formulas", "aria-live": "polite" });
      this.editor = make("div", { class: "lab-editor" });
      this.difference = make("div", { class: "lab-difference" });
      this.fastemit = make("div", { class: "lab-fastemit" });
      this.pathText = make("p", { class: "lab-path", "aria-live": "polite" });
      this.tables = make("div", { class: "lab-tables" });
      this.link = make("input", { type: "text", readonly: true, hidden: true, class: "lab-link", "aria-label": "Link to this state" });
      this.linkDone = make("span", { role: "status" });
      this.pathSelect = choice("path", {
        none: "none", best: "the heaviest", through: "the heaviest through the node", sampled: "one drawn by chance",
      }, this.pathKind, this.setPath);

      this.symbolSelect = choice("of symbol", { ...this.letters }, this.symbol, this.setSymbol);
      this.againButton = button("draw again", () => this.setPath("sampled"));

      const group = (label, ...children) => make("div", { class: "lab-group", role: "group", "aria-label": label }, children);
      this.root.replaceChildren(
        group("Problem",
          choice("loss", { ctc: "CTC", rnnt: "RNN-T" }, state.loss, this.setLoss),
          field("frames", frames),
          field("target", this.targetInput),
          this.presetSelect,
          button("other random numbers", this.reseed)),
        this.problem,
        group("View",
          choice("nodes show", SHOWN, state.show, this.setShow),
          this.symbolSelect,
          this.pathSelect,
          this.againButton,
          this.lambdaField),
        group("Sweep",
          button("start", () => this.setSweep(0), "start: before the first step"),
          button("◀", () => this.move(-1), "one step back"),
          button("▶", () => this.move(1), "one step on"),
          this.playButton,
          button("all", () => this.setSweep(null), "show everything")),
        this.status,
        this.picture,
        this.pathText,
        this.editor,
        make("div", { class: "lab-columns" }, this.formulas, this.difference),
        this.fastemit,
        make("details", {}, make("summary", {}, "All numbers as tables"), this.tables),
        group("Link", button("link to this state", this.share), this.link, this.linkDone));
      this.root.classList.add("lab-ready");
    }

    rebuild() {
      this.stop();
      this.build();
      this.refresh();
    }

    /* --- what the controls do --- */

    newProblem(change) {
      this.stop();
      Object.assign(this.state, change);
      if (this.presetName === "") [this.presetName, this.presetSelect.lastChild.value] = ["trained", "trained"];
      this.state.logits = preset(this.presetName, this.state, this.seed);
      this.state.selected = inDoubt(this.state);
      this.nudge(this.symbolOf(this.state.selected));
      this.sweep = null;
      this.refresh();
    }

    setLoss(loss) {
      this.newProblem({ loss });
    }

    setFrames(text) {
      const T = Number(text);
      if (!Number.isInteger(T) || T < 1 || T > MAX_T) {
        this.problem.textContent = `frames = ${text || "nothing"}; expected a whole number from 1 to ${MAX_T}.`;
        return;
      }
      this.newProblem({ T });
    }

    setTarget(text) {
      const { target, error } = parseTarget(text, this.state.V);
      if (error) this.problem.textContent = error;
      else this.newProblem({ target });
    }

    setPreset(name) {
      this.presetName = name;
      if (name !== "") this.state.logits = preset(name, this.state, this.seed);
      this.refresh();
    }

    reseed() {
      this.seed += 1;
      this.setPreset(this.presetName || "start");
      this.presetSelect.lastChild.value = this.presetName = this.presetName || "start";
    }

    setShow(show) {
      this.state.show = show;
      this.refresh();
    }

    setLambda(text) {
      this.state.lambda = Number(text);
      this.refresh();
    }

    setPath(kind) {
      this.pathKind = kind;
      this.path = null;
      this.refresh();
    }

    setSymbol(text) {
      this.nudge(Number(text));
      this.refresh(true);
    }

    /* The symbol whose logit the difference quotients move, and whose gradient RNN-T nodes show. */
    nudge(k) {
      this.symbol = k;
      this.symbolSelect.lastChild.value = String(k);
    }

    /* A CTC node has a symbol of its own; at a node of RNN-T it is the reader's choice, the blank until then. */
    symbolOf(n, otherwise = this.symbol) {
      return M.lattice(this.state).nodes[n]?.symbol ?? otherwise;
    }

    select(n, focus = false) {
      this.state.selected = n;
      this.nudge(this.symbolOf(n));
      if (this.pathKind === "through") this.path = null;
      this.refresh();
      if (focus) this.picture.querySelector(`[data-node="${n}"]`).focus();
    }

    setLogit(row, k, value) {
      this.state.logits[row][k] = round(value);
      this.nudge(k);
      [this.presetName, this.presetSelect.lastChild.value] = ["", ""];
      this.refresh(true);
    }

    share() {
      const state = `#${this.id}=${encodeURIComponent(encode(this.state))}`;
      window.history.replaceState(null, "", state);
      this.link.value = window.location.href;
      this.link.hidden = false;
      this.link.select();
      const copied = () => {
        this.linkDone.textContent = "copied";
      };
      this.linkDone.textContent = "in the address bar, too";
      if (navigator.clipboard) navigator.clipboard.writeText(this.link.value).then(copied, () => {});
    }

    /* --- sweeps: steps 1..F are fronts forward, F+1..2F fronts backward --- */

    setSweep(sweep) {
      this.stop();
      this.sweep = sweep;
      this.refresh();
    }

    move(by) {
      const last = 2 * this.solved.fronts;
      const from = this.sweep === null ? (by > 0 ? 0 : last + 1) : this.sweep;
      this.sweep = Math.max(0, from + by);
      if (this.sweep > last) this.setSweep(null);
      else this.refresh();
    }

    play() {
      if (this.timer) {
        this.stop();
        return;
      }
      if (this.sweep === null) this.sweep = 0;
      this.playButton.textContent = "pause";
      this.timer = window.setInterval(() => this.move(1), 900);
      this.refresh();
    }

    stop() {
      window.clearInterval(this.timer);
      this.timer = null;
      this.playButton.textContent = "play";
    }

    /* Whether alpha, or beta, of a node is known at this point of the sweep; and whether its front is just computed. */
    known(what, node) {
      const { fronts } = this.solved;
      if (this.sweep === null) return true;
      return what === "alpha" ? node.front < this.sweep : fronts - 1 - node.front < this.sweep - fronts;
    }

    current(node) {
      const { fronts } = this.solved;
      if (this.sweep === null || this.sweep === 0) return false;
      return this.sweep <= fronts ? node.front === this.sweep - 1 : node.front === 2 * fronts - this.sweep;
    }

    get shown() {
      if (this.sweep === null) return this.state.show;
      return this.sweep <= this.solved.fronts ? "alpha" : "beta";
    }

    /* --- drawing --- */

    refresh(editing = false) {
      this.solved = M.solve(this.state);
      this.state.selected = Math.min(this.state.selected, this.solved.nodes.length - 1);
      this.findPath();
      this.lambdaField.hidden = this.state.loss === "ctc";
      this.symbolSelect.hidden = this.state.loss === "ctc" || !this.shown.startsWith("grad");
      this.againButton.hidden = this.pathKind !== "sampled";
      this.link.hidden = true;
      this.lambdaText.textContent = this.state.lambda.toFixed(2);
      this.tellProblem();
      this.tellSweep();
      this.draw();
      this.tellPath();
      this.tellNode();
      this.drawEditor(editing);
      this.tellDifference();
      this.tellFastEmit();
      this.fillTables();
      this.linkDone.textContent = "";
    }

    findPath() {
      const kind = this.pathKind;
      const through = this.state.selected;
      if (kind === "none") this.path = null;
      else if (kind === "best") this.path = M.bestPath(this.solved);
      else if (kind === "through") this.path = M.bestPath(this.solved, through);
      else {
        const fits = this.path !== null && this.path.every((i) => this.solved.arcs[i]) && this.pathLattice === this.shape;
        if (!fits) this.path = M.samplePath(this.solved, Math.random);
      }
      this.pathLattice = this.shape;
    }

    get shape() {
      return `${this.state.loss} ${this.state.T} ${this.state.target}`;
    }

    tellProblem() {
      const { logZ } = this.solved;
      const needed = M.framesNeeded(this.state);
      if (logZ > -Infinity) {
        this.problem.textContent = `Loss −log Z = ${number(0 - logZ)} nats; Z = ${number(Math.exp(logZ))}.`;
        return;
      }
      this.problem.textContent = `No path: this target needs ${needed} frames, and there are ${this.state.T}. `
        + "Z = 0, the loss is ∞, and the gradient is 0 by definition.";
    }

    tellSweep() {
      const { nodes, fronts } = this.solved;
      if (this.sweep === null) {
        this.status.textContent = "";
        return;
      }
      if (this.sweep === 0) {
        this.status.textContent = "Nothing is known yet.";
        return;
      }
      const letter = this.shown === "alpha" ? "α" : "β";
      const names = nodes.filter((node) => this.current(node)).map((node) => node.name).join(", ");
      const count = this.sweep <= fronts ? this.sweep : this.sweep - fronts;
      this.status.textContent = `${this.shown === "alpha" ? "Forward" : "Backward"}, step ${count} of ${fronts}: `
        + `${letter} of ${names}.`;
    }

    position(node) {
      const { places } = this.solved;
      const ctc = this.state.loss === "ctc";
      const [dx, dy] = ctc ? [64, 40] : [78, 62];
      const place = node.place ?? (places - 1) / 2;
      const x = ctc ? 46 + dx * (node.t + 1) : 58 + dx * node.t;
      const y = ctc ? 22 + dy * place : 34 + dy * (places - 1 - place);
      return { x, y };
    }

    /* A node's number and the darkness that it is drawn with. */
    valueOf(n) {
      const { logAlpha, logBeta, gamma, logZ } = this.solved;
      const node = this.solved.nodes[n];
      const what = this.shown;
      if (what === "gamma") return { value: gamma[n], dark: gamma[n] };
      if (what.startsWith("grad")) return this.gradientAt(n, what);
      if (!this.known(what, node)) return { value: null, dark: 0 };
      const log = what === "alpha" ? logAlpha[n] : logBeta[n];
      const lowest = Math.min(-8, logZ === -Infinity ? -8 : logZ);
      return { value: Math.exp(log), dark: log === -Infinity ? 0 : Math.max(0.08, 1 - log / lowest) };
    }

    /* The gradient in the entry that belongs to a node: CTC, its own symbol; RNN-T, the chosen one. */
    gradientAt(n, what) {
      const node = this.solved.nodes[n];
      const ctc = this.state.loss === "ctc";
      if (node.t < 0 || node.t >= this.state.T) return { value: null, dark: 0 };
      const field = what === "gradLogits" ? this.solved.fieldLogits : this.solved.fieldLogProbs;
      const value = ctc ? field[node.t][node.symbol] : field[node.t * this.rows + node.place][this.symbol];
      return { value, dark: Math.min(1, Math.abs(value)), rises: value > 0 };
    }

    draw() {
      const { nodes, arcs, posterior, places } = this.solved;
      const ctc = this.state.loss === "ctc";
      const width = this.position(nodes[nodes.length - 1]).x + 44;
      const height = ctc ? 40 * places + 26 : 62 * places + 16;
      const onPath = new Set(this.path || []);
      const focused = this.picture.contains(document.activeElement);
      const left = this.picture.scrollLeft;
      const svg = make("svg", {
        viewBox: `0 0 ${width} ${height}`, role: "group", width, height,
        "aria-label": "The lattice. Arrow keys move from node to node.",
      });

      const axis = (x, y, text, anchor = "middle") =>
        svg.append(make("text", { x, y, class: "lab-axis", "text-anchor": anchor, "aria-hidden": "true" }, text));
      for (let t = 0; t < this.state.T; t += 1) axis(this.position({ t, place: 0 }).x, height - 4, `t = ${t}`);
      for (let place = 0; place < places; place += 1) {
        const label = ctc ? LETTERS[place % 2 ? this.state.target[(place - 1) / 2] : M.BLANK] : `u = ${place}`;
        axis(ctc ? 20 : 2, this.position({ t: 0, place }).y + 4, label, ctc ? "end" : "start");
      }

      const radius = ctc ? 15 : 19;
      arcs.forEach((arc, i) => {
        const [a, b] = [this.position(nodes[arc.from]), this.position(nodes[arc.to])];
        const length = Math.hypot(b.x - a.x, b.y - a.y);
        const cut = (radius + 2) / length;
        const line = {
          x1: a.x + (b.x - a.x) * cut, y1: a.y + (b.y - a.y) * cut, x2: b.x - (b.x - a.x) * cut,
          y2: b.y - (b.y - a.y) * cut, class: onPath.has(i) ? "lab-arc lab-on-path" : "lab-arc", "aria-hidden": "true",
          style: `--share: ${posterior[i].toFixed(3)}`,
        };
        svg.append(make("line", line));
        if (!ctc && this.sweep === null) {
          const flat = Math.abs(b.y - a.y) < 1;
          const text = arc.kind === "label" ? LETTERS[arc.symbol] : "∅";
          svg.append(make("text", {
            x: (a.x + b.x) / 2 + (flat ? 0 : 9), y: (a.y + b.y) / 2 + (flat ? -6 : 4), class: "lab-arc-name",
            "text-anchor": "middle", "aria-hidden": "true",
          }, text));
        }
      });

      nodes.forEach((node, n) => {
        const { x, y } = this.position(node);
        const { value, dark, rises } = this.valueOf(n);
        const selected = n === this.state.selected;
        const classes = ["lab-node", selected && "lab-selected", this.current(node) && "lab-current",
          rises && "lab-rises", dark > 0.55 && "lab-dark"].filter(Boolean).join(" ");
        const waits = this.sweep === null ? "no number" : "not known yet";
        const text = value === null ? "" : short(value);
        const said = value === null ? waits : `${SHOWN[this.shown].split(",")[0]} = ${number(value)}`;
        svg.append(make("g", {
          class: classes, role: "button", tabindex: selected ? 0 : -1, "data-node": n, "aria-pressed": String(selected),
          "aria-label": `node ${node.name}: ${said}`, onclick: () => this.select(n, true),
          onkeydown: (event) => this.onKey(event, n), onpointerenter: () => this.tellNode(n), style: `--dark: ${dark.toFixed(3)}`,
        }, make("circle", { cx: x, cy: y, r: radius }), make("text", {
          x, y: y + 3.5, class: text.length > 4 ? "lab-long" : "", "text-anchor": "middle", "aria-hidden": "true",
        }, text)));
        if (node.place === null) axis(x, y + radius + 12, node.name);
      });
      svg.addEventListener("pointerleave", () => this.tellNode());
      this.picture.replaceChildren(svg);
      this.picture.scrollLeft = left;
      if (focused) this.picture.querySelector(`[data-node="${this.state.selected}"]`).focus({ preventScroll: true });
    }

    onKey(event, n) {
      const { nodes } = this.solved;
      const up = this.state.loss === "ctc" ? -1 : 1;
      const moves = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowUp: [0, up], ArrowDown: [0, -up] };
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        this.select(n, true);
      }
      if (!(event.key in moves)) return;
      event.preventDefault();
      const [dt, dp] = moves[event.key];
      const here = nodes[n];
      const near = (node) => node.place === null || here.place === null || node.place === here.place + dp;
      const place = here.place ?? 0;
      const candidates = nodes
        .map((node, i) => ({ node, i }))
        .filter(({ node, i }) => i !== n && node.t === here.t + dt && near(node));
      candidates.sort((a, b) => Math.abs((a.node.place ?? 0) - place) - Math.abs((b.node.place ?? 0) - place));
      if (candidates.length) this.select(candidates[0].i, true);
    }

    /* --- texts --- */

    tellPath() {
      if (this.pathKind === "none") {
        this.pathText.textContent = "";
        return;
      }
      if (this.path === null) {
        this.pathText.textContent = "There is no such path.";
        return;
      }
      const { arcs, logZ } = this.solved;
      const symbols = this.path.filter((i) => arcs[i].row >= 0).map((i) => LETTERS[arcs[i].symbol]).join(" ");
      const log = M.logProbOfPath(this.solved, this.path);
      this.pathText.textContent = `Path ${symbols}: probability ${number(Math.exp(log))}, which is `
        + `${number(Math.exp(log - logZ))} of Z.`;
    }

    /* Formulas of a node, numbers filled in; of the selected one if none is pointed at. */
    tellNode(n = this.state.selected) {
      const { nodes, arcs, into, outOf, weight, logAlpha, logBeta, logZ, gamma } = this.solved;
      const node = nodes[n];
      const ctc = this.state.loss === "ctc";
      const at = (letter, i) => {
        const { t, place, name } = nodes[i];
        if (place === null || i === nodes.length - 1) return `${letter}(${name})`;
        return ctc ? `${letter}${subscript(t)}(${place})` : `${letter}(${t}, ${place})`;
      };
      const entry = (arc) => {
        if (arc.row < 0) return "1";
        if (ctc) return `y${subscript(arc.row)}(${LETTERS[arc.symbol]})`;
        const { t, place } = nodes[arc.from];
        return `${arc.kind === "label" ? "y" : "∅"}(${t}, ${place})`;
      };
      const line = (left, terms, result) => {
        const box = make("p", { class: "lab-formula" }, `${left} = ${terms.map((term) => term[0]).join(" + ") || "0"}`);
        if (terms.length) box.append(make("br"), ` = ${terms.map((term) => term[1]).join(" + ")}`);
        box.append(make("br"), make("strong", {}, ` = ${number(result)}`));
        return box;
      };
      const lines = [make("p", { class: "lab-head" }, `Node ${node.name}`)];
      const waiting = [];
      if (this.known("alpha", node)) {
        const terms = into[n].map((i) => [
          `${at("α", arcs[i].from)}·${entry(arcs[i])}`,
          `${number(Math.exp(logAlpha[arcs[i].from]))}·${number(Math.exp(weight[i]))}`,
        ]);
        lines.push(node.front === 0 ? make("p", { class: "lab-formula" }, `${at("α", n)} = 1, where every path begins`)
          : line(at("α", n), terms, Math.exp(logAlpha[n])));
      } else waiting.push("α");
      if (this.known("beta", node)) {
        const terms = outOf[n].map((i) => [
          `${entry(arcs[i])}·${at("β", arcs[i].to)}`,
          `${number(Math.exp(weight[i]))}·${number(Math.exp(logBeta[arcs[i].to]))}`,
        ]);
        lines.push(n === nodes.length - 1 ? make("p", { class: "lab-formula" }, `${at("β", n)} = 1, where every path ends`)
          : line(at("β", n), terms, Math.exp(logBeta[n])));
      } else waiting.push("β");
      if (waiting.length) lines.push(make("p", {}, `${waiting.join(" and ")}: the sweep has not come here yet.`));
      else if (logZ > -Infinity) {
        const terms = [[`${at("α", n)}·${at("β", n)} / Z`,
          `${number(Math.exp(logAlpha[n]))}·${number(Math.exp(logBeta[n]))} / ${number(Math.exp(logZ))}`]];
        lines.push(line(at("γ", n), terms, gamma[n]));
      }
      this.formulas.replaceChildren(...lines);
    }

    /* The scores of the selected node's row, each with a slider. Sliders stay in place while one is dragged. */
    drawEditor(editing) {
      const { row, solved, state } = this;
      const ctc = state.loss === "ctc";
      const t = Math.floor(row / this.rows);
      const u = row % this.rows;
      const where = ctc ? `frame ${t}` : `node (${t}, ${u})`;
      const cells = (k) => [solved.logProbs[row][k], solved.occupancy[row][k], solved.fieldLogProbs[row][k],
        solved.fieldLogits[row][k]].map((x, i) => number(i === 0 ? Math.exp(x) : x));
      if (editing && this.editorRow === row && this.editor.firstChild) {
        for (let k = 0; k < state.V; k += 1) {
          const line = this.editor.querySelector(`[data-symbol="${k}"]`);
          line.querySelector("output").textContent = state.logits[row][k].toFixed(2).replace("-", "−");
          [...line.querySelectorAll("td.lab-number")].forEach((cell, i) => {
            cell.textContent = cells(k)[i];
          });
        }
        return;
      }
      this.editorRow = row;
      const fast = state.lambda > 0 && !ctc;
      const head = ["symbol", "logit z", "y", "E", fast ? "field, log y" : "∂L/∂log y", fast ? "field, z" : "∂L/∂z"];
      const body = this.letters.map((name, k) => {
        const output = make("output", {}, state.logits[row][k].toFixed(2).replace("-", "−"));
        const slider = make("input", {
          type: "range", min: -LIMIT, max: LIMIT, step: STEP, value: state.logits[row][k],
          "aria-label": `logit of ${k === M.BLANK ? "the blank" : name} at ${where}`,
          oninput: (event) => this.setLogit(row, k, Number(event.target.value)),
          onfocus: () => this.setSymbol(String(k)),
        });
        return make("tr", { "data-symbol": k }, make("th", { scope: "row" }, name),
          make("td", { class: "lab-slider" }, slider, output),
          cells(k).map((text) => make("td", { class: "lab-number" }, text)));
      });
      this.editor.replaceChildren(make("div", { class: "lab-wide", tabindex: 0, role: "region", "aria-label": `Scores of ${where}` },
        make("table", {}, make("caption", {}, `Scores of ${where}; drag them`),
          make("thead", {}, make("tr", {}, head.map((text) => make("th", { scope: "col" }, text)))),
          make("tbody", {}, body))));
    }

    tellDifference() {
      const { row, symbol, state, solved } = this;
      if (solved.logZ === -Infinity) {
        this.difference.replaceChildren();
        return;
      }
      const exact = solved.gradLogits[row][symbol];
      const lines = STEPS.map((h) => {
        const estimate = M.centralDifference(state, row, symbol, h);
        return make("tr", {}, make("td", {}, String(h)), make("td", {}, estimate.toFixed(7).replace("-", "−")),
          make("td", {}, number(estimate - exact)));
      });
      const name = `Nudge the logit of ${LETTERS[symbol]}`;
      this.difference.replaceChildren(make("div", { class: "lab-wide", tabindex: 0, role: "group", "aria-label": name },
        make("table", {},
          make("caption", {}, `${name} by ±h: (L₊ − L₋) / 2h, and its distance from ∂L/∂z = ${number(exact)}`),
          make("thead", {}, make("tr", {}, ["h", "difference quotient", "distance"].map((text) => make("th", { scope: "col" }, text)))),
          make("tbody", {}, lines))));
    }

    tellFastEmit() {
      const { state, solved } = this;
      if (state.loss === "ctc" || state.lambda === 0 || solved.logZ === -Infinity) {
        this.fastemit.replaceChildren();
        return;
      }
      const total = (rows) => rows.flat().reduce((a, b) => a + b, 0);
      const steps = state.T + state.target.length;
      const worst = solved.fieldLogits.flat().reduce((most, x, i) =>
        Math.max(most, Math.abs(x - solved.gradLogits.flat()[i])), 0);
      const sums = Math.max(...solved.fieldLogits.map((row) => Math.abs(row.reduce((a, b) => a + b, 0))));
      this.fastemit.replaceChildren(
        make("p", { class: "lab-head" }, `FastEmit, λ = ${state.lambda.toFixed(2)}: what holds and what breaks`),
        make("ul", {},
          make("li", {}, `The loss does not change: ${number(0 - solved.logZ)} nats.`),
          make("li", {}, `Over a node the field for the logits still adds up to 0 (largest sum ${sums.toExponential(0)}).`),
          make("li", {}, `The field for the log-probs adds up to ${number(total(solved.fieldLogProbs))}, not to `
            + `−(T + U) = −${steps}: each label counts ${(1 + state.lambda).toFixed(2)} times.`),
          make("li", {}, `It is off from the gradient with respect to the logits by up to ${number(worst)}; the difference `
            + "quotients above go to the gradient, not to it."),
          make("li", {}, `Its Jacobian is off from symmetric by up to ${number(asymmetry(state))}: `
            + "no loss at all has this gradient, unless that is 0.")));
    }

    fillTables() {
      const { nodes, logAlpha, logBeta, gamma, logProbs, occupancy, fieldLogProbs, fieldLogits } = this.solved;
      const ctc = this.state.loss === "ctc";
      const fast = this.state.lambda > 0 && !ctc;
      const table = (caption, head, lines) => make("div", { class: "lab-wide", tabindex: 0, role: "region", "aria-label": caption },
        make("table", {}, make("caption", {}, caption),
          make("thead", {}, make("tr", {}, head.map((text) => make("th", { scope: "col" }, text)))),
          make("tbody", {}, lines.map(([first, ...rest]) => make("tr", {}, make("th", { scope: "row" }, first),
            rest.map((text) => make("td", {}, text)))))));
      const nodeLines = nodes.map((node, n) => [node.name, number(Math.exp(logAlpha[n])), number(Math.exp(logBeta[n])),
        number(gamma[n])]);
      const entryLines = logProbs.flatMap((row, r) => row.map((x, k) => [
        ctc ? `(${r}, ${LETTERS[k]})` : `(${Math.floor(r / this.rows)}, ${r % this.rows}, ${LETTERS[k]})`,
        this.state.logits[r][k].toFixed(2).replace("-", "−"), number(Math.exp(x)), number(occupancy[r][k]),
        number(fieldLogProbs[r][k]), number(fieldLogits[r][k])]));
      const name = fast ? "field" : "∂L/∂";
      this.tables.replaceChildren(
        table("Nodes", [ctc ? "(t, s)" : "(t, u)", "α", "β", "γ"], nodeLines),
        table("Entries", [ctc ? "(t, k)" : "(t, u, k)", "logit", "y", "E", `${name}${fast ? ", " : ""}log y`,
          `${name}${fast ? ", " : ""}z`], entryLines));
    }
  }

  /* A number for the inside of a node. */
  function short(x) {
    if (x < 0) return `−${short(-x)}`;
    if (x === 0) return "0";
    if (x >= 0.995) return x.toFixed(x < 1.005 ? 0 : 1);
    if (x >= 0.005) return x.toFixed(2).replace(/^0/, "");
    return x.toExponential(0).replace("e-", "e−");
  }

  /* The node that a page asks for as "t, place"; undefined if it asks for none. */
  function named(problem, text) {
    if (text === undefined) return undefined;
    const found = M.lattice(problem).nodes.findIndex((node) => node.name === `(${text})`);
    if (found >= 0) return found;
    console.error(`node = ${text}; expected a node of this lattice`);
    return undefined;
  }

  /* The node whose occupancy is nearest to one half: there is most to see. */
  function inDoubt(problem) {
    const distance = M.solve(problem).gamma.map((x) => Math.abs(x - 0.5));
    return distance.indexOf(Math.min(...distance));
  }

  const subscript = (t) => [...String(t)].map((digit) => "₀₁₂₃₄₅₆₇₈₉"[digit] ?? digit).join("");

  /* The largest |J - J^T| of the field for the logits, by central differences. */
  function asymmetry(state) {
    const h = 1e-4;
    const { V } = state;
    const size = state.logits.length * V;
    const columns = Array.from({ length: size }, (_, i) => {
      const [row, k] = [Math.floor(i / V), i % V];
      const [up, down] = [h, -h].map((by) => M.solve(M.nudged(state, row, k, by)).fieldLogits.flat());
      return up.map((x, j) => (x - down[j]) / (2 * h));
    });
    let most = 0;
    for (let i = 0; i < size; i += 1) {
      for (let j = 0; j < i; j += 1) most = Math.max(most, Math.abs(columns[i][j] - columns[j][i]));
    }
    return most < 1e-7 ? 0 : most;
  }

  const begin = () => document.querySelectorAll(".lattice-lab").forEach((root, i) => new Laboratory(root, i + 1));
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", begin);
  else begin();
})();
