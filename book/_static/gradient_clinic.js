/* The kernel clinic: puts its form into <div class="gradient-clinic">, and a report below it. It reads by
   pasted_numbers.js and judges by gradient_clinic_math.js, stores nothing and asks no server for anything. */
"use strict";

(() => {
  const C = GradientClinic;
  const P = PastedNumbers;
  const [LONG, MOST] = [5000, 100000]; // numbers that take a while, and that are too many
  const SVG = "http://www.w3.org/2000/svg";
  const [ROWS, SYMBOLS, CELLS] = [8, 30, 400]; // of the table, of the picture, of the table of all numbers
  const DRAWN = ["svg", "g", "rect", "text", "title"];

  function make(tag, attributes = {}, ...children) {
    const element = DRAWN.includes(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (value !== null && value !== false) element.setAttribute(name, value === true ? "" : value);
    }
    element.append(...children.flat(Infinity).filter((child) => child !== null));
    return element;
  }

  const number = (x, digits = 4) => C.general(x, digits).replace(/-/g, "−");
  const largest = (values) => values.reduce((most, x) => Math.max(most, Math.abs(x)), 0);

  /* --- examples: computed here, and written as people paste them --- */

  function nested(values, shape, write) {
    if (shape.length === 0) return write(values[0]);
    const size = values.length / shape[0];
    const parts = Array.from({ length: shape[0] }, (_, i) =>
      nested(values.slice(i * size, (i + 1) * size), shape.slice(1), write));
    return `[${parts.join(shape.length === 1 ? ", " : `,${"\n".repeat(shape.length - 1)}`)}]`;
  }

  const asLists = (values, shape) => nested([...values], shape, (x) => String(Number(x.toFixed(12))));
  const asTensor = (values, shape) => `tensor(${nested([...values], shape, (x) => x.toFixed(4).padStart(7))})`;
  const asArray = (values, shape) => `array(${nested([...values], shape, (x) => x.toFixed(8).padStart(11))})`;

  function drawn(loss, shape, target, blank, seed) {
    const random = LatticeMath.randomNumbers(seed);
    const scores = Float64Array.from({ length: shape.reduce((a, b) => a * b, 1) }, () =>
      Number((3 * (random() + random() - 1)).toFixed(4)));
    return { loss, shape, scores, target, blank };
  }

  function normalised(problem) {
    const V = problem.shape[problem.shape.length - 1];
    const rows = Array.from({ length: problem.scores.length / V }, (_, r) =>
      LatticeMath.logSoftmax([...problem.scores.slice(r * V, (r + 1) * V)]));
    return { ...problem, scores: Float64Array.from(rows.flat()) };
  }

  const EXAMPLES = {
    "a right gradient": () => {
      const problem = drawn("ctc", [5, 4], [1, 2], 0, 1);
      return { problem, gradient: C.expected(problem, "logits"), write: asLists, value: C.lossOf(problem, "logits") };
    },
    "what torch's ctc_loss returns": () => { // the gradient of the logits, for log-probs
      const problem = normalised(drawn("ctc", [5, 4], [1, 1], 0, 2));
      return { problem, gradient: C.expected(problem, "logits"), write: asTensor, value: C.lossOf(problem, "log_probs") };
    },
    "FastEmit, divided by 3": () => {
      const problem = drawn("rnnt", [4, 4, 5], [1, 3, 1], 0, 3);
      const [y0, y1, blanks, labels] = C.termsOf(problem, "logits");
      const gradient = y0.map((x, i) => (x + 1.3 * y1[i] - blanks[i] - 1.3 * labels[i]) / 3);
      return { problem, gradient, write: asTensor, value: C.lossOf(problem, "logits") };
    },
    "last blank missing": () => {
      const problem = normalised(drawn("rnnt", [3, 3, 4], [0, 2], 3, 4));
      const gradient = C.expected(problem, "log_probs");
      gradient[gradient.length - 1] = 0; // node (T - 1, U), and the blank is the last symbol
      return { problem, gradient, write: asArray, value: null };
    },
  };

  /* --- the clinic --- */

  const VERDICTS = {
    right: "Right.",
    explained: "Every term is there. What was done to them has a name:",
    named: "Wrong, and the mistake has a name:",
    shape: "Wrong: the shapes of gradient and scores differ.",
    unknown: "Wrong, in a way that is not on the list:",
  };

  class Clinic {
    constructor(root, index) {
      this.root = root;
      this.id = `clinic-${index}`;
      this.build();
    }

    build() {
      const field = (label, control, ...more) => {
        control.id = `${this.id}-${label.replace(/\W+/g, "-").toLowerCase()}`;
        return make("span", { class: "clinic-field" }, make("label", { for: control.id }, label), control, ...more);
      };
      const choice = (options) => make("select", { onchange: () => this.again() },
        Object.entries(options).map(([value, text]) => make("option", { value }, text)));
      const group = (label, ...children) => make("div", { class: "clinic-group", role: "group", "aria-label": label }, children);
      const line = (attributes) => make("input", { type: "text", autocomplete: "off", spellcheck: "false", ...attributes });
      const area = (label, hint) => {
        const box = make("textarea", {
          id: `${this.id}-${label}`, rows: 8, spellcheck: "false", autocomplete: "off", wrap: "off",
          "aria-describedby": `${this.id}-${label}-read`, oninput: () => this.told(label),
          onkeydown: (event) => {
            if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.examine();
          },
        });
        this[label] = box;
        this[`${label}Read`] = make("p", { class: "clinic-read", id: `${this.id}-${label}-read` }, hint);
        this[`${label}Hint`] = hint;
        return make("div", { class: "clinic-area" }, make("label", { for: box.id }, label), box, this[`${label}Read`]);
      };

      this.loss = choice({ ctc: "CTC", rnnt: "RNN-T" });
      this.targets = line({ size: 12, placeholder: "1 2 2" });
      this.blank = make("input", { type: "number", min: 0, value: 0 });
      this.variable = choice({ "": "find out", logits: "logits", log_probs: "log-probs" });
      this.precision = choice({ "": "by its digits", float64: "float64", float32: "float32", float16: "float16", bfloat16: "bfloat16" });
      this.value = line({ size: 12 });
      this.message = make("p", { class: "clinic-verdict", role: "status" });
      this.report = make("div", { class: "clinic-report" });
      this.root.replaceChildren(
        group("Examples", make("span", {}, "Try it with:"), Object.keys(EXAMPLES).map((name) =>
          make("button", { type: "button", onclick: () => this.example(name) }, name))),
        group("Problem", field("loss", this.loss), field("targets", this.targets), field("blank", this.blank)),
        make("div", { class: "clinic-areas" },
          area("scores", "Logits or log-probs, (T, V) for CTC, (T, U + 1, V) for RNN-T: an array as printed, nested lists, or a table."),
          area("gradient", "The gradient with respect to the scores, of the same shape.")),
        group("Judgement", field("gradient with respect to", this.variable), field("tolerance", this.precision),
          field("loss value (optional)", this.value)),
        group("Examination", make("button", { type: "button", class: "clinic-go", onclick: () => this.examine() }, "Examine")),
        this.message, this.report);
      this.root.classList.add("clinic-ready");
    }

    /* What was read of a text area, below it. */
    told(label) {
      const output = this[`${label}Read`];
      const text = this[label].value;
      this[label].removeAttribute("aria-invalid");
      output.classList.remove("clinic-wrong");
      if (!text.trim()) {
        output.textContent = this[`${label}Hint`];
        return;
      }
      try {
        const { shape, digits } = P.read(text);
        output.textContent = `Read: ${shape.join(" × ") || "one number"}, ${digits}.`;
      } catch (error) {
        this.refuse(label, error);
      }
    }

    refuse(label, error) {
      if (!(error instanceof P.NotRead)) throw error;
      this[label].setAttribute("aria-invalid", "true");
      this[`${label}Read`].textContent = error.message;
      this[`${label}Read`].classList.add("clinic-wrong");
    }

    example(name) {
      const { problem, gradient, write, value } = EXAMPLES[name]();
      this.loss.value = problem.loss;
      this.targets.value = problem.target.join(" ");
      this.blank.value = problem.blank;
      this.scores.value = write(problem.scores, problem.shape);
      this.gradient.value = write(gradient, problem.shape);
      this.value.value = value === null ? "" : number(value, 6).replace("−", "-");
      [this.variable.value, this.precision.value] = ["", ""];
      this.told("scores");
      this.told("gradient");
      this.examine();
    }

    /* After a choice: anew, if there is a report. */
    again() {
      if (this.scores.value.trim() && this.gradient.value.trim()) this.examine();
    }

    /* What is pasted, as a problem and a gradient. */
    input() {
      const named = (label, action) => {
        try {
          return action();
        } catch (error) {
          if (!(error instanceof P.NotRead)) throw error;
          throw new P.NotRead(`${label}: ${error.message}`);
        }
      };
      const loss = this.loss.value;
      const target = named("targets", () => P.readLabels(this.targets.value));
      const scores = named("scores", () => P.fit(P.read(this.scores.value), loss, target.length));
      const given = named("gradient", () => P.read(this.gradient.value));
      const many = scores.array.values.length;
      if (many > MOST) throw new P.NotRead(`scores: ${many} numbers; expected at most ${MOST}.`);
      const problem = {
        loss, target, shape: scores.array.shape, scores: scores.array.values,
        blank: this.blank.value.trim() === "" ? NaN : Number(this.blank.value),
      };
      const refused = C.refused(problem);
      if (refused) throw new P.NotRead(`${refused}.`);
      let gradient = { array: given, note: "" };
      if (given.values.length === scores.array.values.length && given.shape.filter((size) => size > 1).length < 2) {
        const note = `The ${given.values.length} numbers of the gradient were put into the shape of the scores.`;
        gradient = { array: { ...given, shape: problem.shape }, note: given.shape.join() === problem.shape.join() ? "" : note };
      } else if (given.shape.join() !== problem.shape.join()) {
        try {
          gradient = P.fit(given, loss, target.length);
        } catch (error) { // its shape is a finding
          if (!(error instanceof P.NotRead)) throw error;
        }
      }
      const value = this.value.value.trim() ? named("loss value", () => P.readNumber(this.value.value)) : null;
      return { problem, scores: scores.array, given: gradient.array, value, notes: [scores.note, gradient.note].filter((x) => x) };
    }

    examine() {
      let input;
      try {
        input = this.input();
      } catch (error) {
        if (!(error instanceof P.NotRead)) throw error;
        this.message.textContent = error.message;
        this.message.dataset.verdict = "unread";
        this.report.replaceChildren();
        return;
      }
      if (input.problem.scores.length < LONG) {
        this.judge(input);
        return;
      }
      this.message.textContent = "Examining …";
      window.setTimeout(() => this.judge(input), 30);
    }

    judge(input) {
      const { problem, scores, given, value } = input;
      const exactness = value ? C.lossTolerance(problem, value, scores, 1e-6) : 0;
      const meant = value ? C.lossFound(problem, value.values[0], exactness) : null;
      const report = C.reportOf(problem, given, scores, {
        variable: this.variable.value, tolerance: C.CLOSE[this.precision.value] || 0,
        meaning: meant && !meant.normalised ? meant.inputs : "",
      });
      const lossSaid = value ? C.lossSaid(problem, value.values[0],
        C.lossTolerance(problem, value, scores, Math.max(1e-6, report.tolerance)), report.reading) : "";
      this.tell(input, report, lossSaid);
    }

    /* --- the report --- */

    tell({ problem, given, notes }, report, lossSaid) {
      const { verdict, findings, said, clamp, blanks, tolerance, because, variable } = report;
      const right = verdict === "right" ? `${VERDICTS.right.slice(0, -1)}, as the gradient with respect to the ${C.CALLED[variable]}.`
        : VERDICTS[verdict];
      this.message.textContent = verdict === "right" && report.noPath ? VERDICTS.right : right;
      this.message.dataset.verdict = verdict;
      const sentence = (text) => (/[.?!]$/.test(text) ? text : `${text}.`);
      const item = (text) => make("li", {}, sentence(text), this.linksOf(text, problem.loss));
      const list = [...findings, clamp].filter((text) => text);
      const blank = blanks.length ? `With blank = ${blanks.join(" or ")} instead of ${problem.blank} the gradient is explained: `
        + "is that the blank of the loss?" : "";
      const close = `Numbers count as equal within ${C.general(tolerance, 2)} (times 1 + their size): ${because}.`;
      const fits = given.shape.join() === problem.shape.join();
      this.report.replaceChildren(...[
        list.length ? make("ul", { class: "clinic-findings" }, list.map(item)) : null,
        said ? make("p", {}, said, this.linksOf(said, problem.loss)) : null,
        blank ? make("p", {}, blank) : null,
        lossSaid ? make("p", { class: "clinic-loss" }, lossSaid) : null,
        fits ? null : this.shapeHint(given, problem),
        ...notes.map((text) => make("p", { class: "clinic-note" }, text)),
        fits ? make("p", { class: "clinic-note clinic-tolerance" }, close) : null,
        fits ? this.numbers(problem, given, report) : null,
      ].filter((each) => each !== null));
    }

    shapeHint(given, { shape, loss }) {
      const turned = given.shape.length === shape.length && [...given.shape].sort().join() === [...shape].sort().join();
      if (!turned) return null;
      return make("p", {}, `Its axes are in another order. Transpose it to ${loss === "ctc" ? "(T, V)" : "(T, U + 1, V)"} first.`);
    }

    /* Links to equations and sections, taken from those that the page has. */
    linksOf(text, loss) {
      const links = C.labelsOf(text, loss).map((label) => {
        const [link] = [`#equation-${label}`, `#${label}`].map((end) => document.querySelector(`.clinic-places a[href$="${end}"]`))
          .filter((each) => each);
        if (!link) return null;
        const name = link.textContent.trim();
        return make("a", { href: link.getAttribute("href") }, /^\(/.test(name) ? `equation\u00a0${name}` : name);
      }).filter((link) => link);
      return links.length ? make("span", { class: "clinic-links" }, ...links.flatMap((link, n) => [n ? ", " : " → ", link])) : "";
    }

    /* What an entry is. */
    kindOf(i, { shape, target, blank, loss }) {
      const index = C.indexOf(i, shape);
      const k = index[index.length - 1];
      if (k === blank) return "blank";
      if (loss === "ctc") return target.includes(k) ? "label" : "other symbol";
      return k === target[index[1]] ? "next label" : "other symbol";
    }

    /* The numbers: where given and expected differ most, a picture, and all in a table. */
    numbers(problem, given, report) {
      const { variable, reading, verdict } = report;
      const inputs = reading ? reading.inputs : variable;
      const right = C.expected(problem, variable, reading && verdict !== "unknown" ? inputs : variable);
      const whole = reading && verdict === "explained" && reading.whole
        ? reading.whole.map((x) => (reading.clamp ? Math.max(-reading.clamp, Math.min(reading.clamp, x)) : x)) : null;
      const names = { right: `the gradient of -log Z with respect to the ${C.CALLED[variable]}` };
      if (whole) names.whole = "what the report says it is";
      const against = make("select", { id: `${this.id}-against` }, Object.entries(names).map(([value, text]) =>
        make("option", { value }, text)));
      const rows = make("div", { class: "clinic-wide", tabindex: 0, role: "region", "aria-label": "Largest differences" });
      const picture = make("div", {});
      const all = make("div", { class: "clinic-wide", tabindex: 0, role: "region", "aria-label": "All numbers" });
      const show = () => {
        const expected = against.value === "whole" ? whole : right;
        const differences = given.values.map((x, i) => x - expected[i]);
        const bad = differences.map((x) => (Number.isNaN(x) ? Infinity : Math.abs(x)));
        const order = [...bad.keys()].sort((a, b) => bad[b] - bad[a] || a - b);
        const table = (caption, entries) => make("table", {}, make("caption", {}, caption),
          make("thead", {}, make("tr", {}, ["entry", "what it is", "score", "given", "expected", "difference"].map((text) =>
            make("th", { scope: "col" }, text)))),
          make("tbody", {}, entries.map((i) => make("tr", {},
            make("th", { scope: "row" }, C.tuple(C.indexOf(i, problem.shape))), make("td", {}, this.kindOf(i, problem)),
            [problem.scores[i], given.values[i], expected[i], differences[i]].map((x) => make("td", {}, number(x)))))));
        // of a right gradient only rounding errors would be shown
        rows.replaceChildren(verdict === "right" ? make("p", {}, `No entry differs from ${names[against.value]}.`)
          : table(`The largest differences from ${names[against.value]}`, order.slice(0, ROWS)));
        const some = bad.length > CELLS;
        all.replaceChildren(table(some ? `The ${CELLS} entries of ${bad.length} that differ most` : "All entries",
          some ? order.slice(0, CELLS) : [...bad.keys()]));
        const arrays = { ...(verdict === "right" ? {} : { difference: differences }), given: given.values, expected };
        picture.replaceChildren(...this.picture(problem, arrays, differences, report.tolerance));
      };
      against.addEventListener("change", show);
      show();
      return make("div", {},
        whole ? make("div", { class: "clinic-group", role: "group", "aria-label": "Comparison" },
          make("span", { class: "clinic-field" }, make("label", { for: against.id }, "compare with"), against)) : null,
        rows, picture, make("details", {}, make("summary", {}, "All numbers as a table"), all));
    }

    /* A heat map: for CTC frames across and symbols down, for RNN-T frames across and rows u upwards. */
    picture(problem, arrays, differences, floor) {
      const { shape, loss } = problem;
      const V = shape[shape.length - 1];
      const options = (pairs) => pairs.map(([value, text]) => make("option", { value }, text));
      const what = make("select", { id: `${this.id}-picture` }, options(Object.keys(arrays).map((name) => [name, name])));
      const symbol = make("select", { id: `${this.id}-symbol` }, options([["", "largest of each node"],
        ...Array.from({ length: Math.min(V, 200) }, (_, k) => [k, `${k}${k === problem.blank ? ", the blank" : ""}`])]));
      const field = (label, select) => make("span", { class: "clinic-field" }, make("label", { for: select.id }, label), select);
      const heat = make("div", { class: "clinic-wide", tabindex: 0, role: "region", "aria-label": "Heat map" });
      const legend = make("p", { class: "clinic-note", "aria-live": "polite" });
      const show = () => {
        const values = arrays[what.value];
        const { cells, down, left, note } = loss === "ctc" ? ctcCells(problem, values, differences)
          : rnntCells(problem, values, symbol.value);
        const most = Math.max(largest(cells.map((cell) => cell.value).filter(Number.isFinite)), floor);
        const [worst] = [...cells].sort((a, b) => Math.abs(b.value) - Math.abs(a.value));
        const label = `Heat map, ${what.value}: ${shape[0]} frames from left to right, ${down.length} ${left} from top to bottom. `
          + `The largest is ${number(worst.value)} at entry ${C.tuple(worst.index)}.`;
        heat.replaceChildren(drawHeat(cells, shape[0], down, most, label));
        legend.textContent = `${note} Blue is negative and orange positive; the strongest colour is ${number(most, 3)}.`.trim();
      };
      what.addEventListener("change", show);
      symbol.addEventListener("change", show);
      show();
      const controls = [field("picture of", what), loss === "rnnt" ? field("symbol", symbol) : null];
      return [make("div", { class: "clinic-group", role: "group", "aria-label": "Picture" }, controls), heat, legend];
    }
  }

  function ctcCells({ shape: [T, V], target, blank }, values, differences) {
    const first = [...new Set([blank, ...target])];
    const worst = (k) => Array.from({ length: T }, (_, t) => Math.abs(differences[t * V + k])).reduce((a, b) => Math.max(a, b), 0);
    const others = Array.from({ length: V }, (_, k) => k).filter((k) => !first.includes(k)).sort((a, b) => worst(b) - worst(a));
    const shown = [...first, ...others].slice(0, SYMBOLS).sort((a, b) => a - b);
    const cells = shown.flatMap((k, row) => Array.from({ length: T }, (_, t) =>
      ({ column: t, row, value: values[t * V + k], index: [t, k] })));
    const note = shown.length < V ? `${shown.length} of ${V} symbols: the blank, labels, and those that differ most.` : "";
    return { cells, down: shown.map((k) => (k === blank ? `${k} ∅` : String(k))), left: "symbols", note };
  }

  function rnntCells({ shape: [T, rows, V] }, values, symbol) {
    const cells = [];
    for (let u = 0; u < rows; u += 1) {
      for (let t = 0; t < T; t += 1) {
        const at = (t * rows + u) * V;
        let k = Number(symbol);
        if (symbol === "") {
          k = 0;
          for (let j = 1; j < V; j += 1) if (!(Math.abs(values[at + j]) <= Math.abs(values[at + k]))) k = j;
        }
        cells.push({ column: t, row: rows - 1 - u, value: values[at + k], index: [t, u, k] });
      }
    }
    return { cells, down: Array.from({ length: rows }, (_, r) => `u = ${rows - 1 - r}`), left: "rows", note: "" };
  }

  function drawHeat(cells, columns, down, most, label) {
    const numbered = cells.length <= 150;
    const [width, height, left] = [numbered ? 46 : 16, numbered ? 26 : 16, 52];
    const size = { width: left + columns * width + 4, height: down.length * height + 22 };
    const svg = make("svg", { viewBox: `0 0 ${size.width} ${size.height}`, ...size, role: "img", "aria-label": label });
    down.forEach((text, row) => svg.append(make("text", { x: left - 6, y: (row + 0.5) * height + 4, "text-anchor": "end" }, text)));
    const step = numbered ? 1 : 10;
    for (let t = 0; t < columns; t += step) {
      svg.append(make("text", { x: left + (t + 0.5) * width, y: size.height - 6, "text-anchor": "middle" }, numbered ? `t = ${t}` : String(t)));
    }
    for (const { column, row, value, index } of cells) {
      const [x, y] = [left + column * width, row * height];
      const share = Number.isFinite(value) ? Math.abs(value) / most : 1;
      svg.append(make("rect", {
        x, y, width: width - 1, height: height - 1, class: value > 0 ? "clinic-rises" : "clinic-falls", style: `--share: ${share.toFixed(3)}`,
      }, make("title", {}, `${C.tuple(index)}: ${number(value)}`)));
      if (numbered) svg.append(make("text", { x: x + width / 2, y: y + height / 2 + 4, "text-anchor": "middle" }, short(value, most)));
    }
    return svg;
  }

  /* A number for the inside of a cell: two digits of the largest, "0" for what is far smaller. */
  function short(x, most) {
    if (!Number.isFinite(x)) return number(x);
    if (Math.abs(x) < 0.005 * most) return "0";
    if (most >= 1000 || most < 0.01) return number(x, 1);
    return x.toFixed(most >= 10 ? 0 : most >= 0.1 ? 2 : 3).replace("-", "−").replace(/^(−?)0\./, "$1.");
  }

  const begin = () => document.querySelectorAll(".gradient-clinic").forEach((root, i) => new Clinic(root, i + 1));
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", begin);
  else begin();
})();
