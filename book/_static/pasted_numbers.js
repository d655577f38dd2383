/* Numbers as people paste them: prints of PyTorch (Python and C++), NumPy and JAX, nested lists, JSON, C++ braces, and
   tables. It reads text and says what it could not read; it knows no loss and no page. */
"use strict";

const PastedNumbers = (() => {
  const ABBREVIATED = "The print is abbreviated (...). Print all of it: after torch.set_printoptions(profile=\"full\"), or "
    + "np.set_printoptions(threshold=sys.maxsize).";
  const NUMBER = /[+-]?(?:inf(?:inity)?|nan|(?:\d[\d_]*\.?\d*|\.\d+)(?:e[+-]?\d+)?[fl]?)(?![\w.])/iy;
  const PARTS = /^[+-]?([\d_]*)\.?(\d*)(?:e([+-]?\d+))?/i;
  const WORD = /[A-Za-z_][\w.]*/y;
  // what a print says about its numbers: dtype=torch.float64, device='cuda:0', grad_fn=<CloneBackward0>, size=(0, 4)
  const ABOUT = /([A-Za-z_]\w*)\s*=\s*(?:'[^']*'|"[^"]*"|<[^>]*>|\([^()]*\)|[\w.:]+)/y;
  const NAME = /[A-Za-z_][\w.]*(?: +[\w.]+)*(?:\[[\w:, -]*\])*\s*=(?!=)/y; // grad = , x.grad[0] = , float scores[2][3] =
  const CLOSES = { "[": "]", "(": ")", "{": "}" };

  class NotRead extends Error {}

  const tuple = (numbers) => `(${numbers.join(", ")}${numbers.length === 1 ? "," : ""})`;

  function lineOf(text, at) {
    return text.slice(0, at).split("\n").length;
  }

  /* A number of the text, with its digits after the point and its power of ten. */
  function token(word) {
    const text = word.toLowerCase().replace(/[fl]$/, (end) => (/inf/i.test(word) ? end : "")).replace(/_/g, "");
    if (text.includes("nan")) return { value: NaN };
    if (text.includes("inf")) return { value: text.startsWith("-") ? -Infinity : Infinity };
    const [, whole, fraction, power] = text.match(PARTS);
    const digits = (whole + fraction).replace(/^0+/, "").length;
    return {
      value: Number(text), decimals: fraction.length, power: power === undefined ? null : Number(power), digits, scale: 1,
    };
  }

  function numberAt(text, at) {
    NUMBER.lastIndex = at;
    const found = NUMBER.exec(text);
    return found && { ...token(found[0]), end: NUMBER.lastIndex };
  }

  function wordAt(text, at, pattern) {
    pattern.lastIndex = at;
    const found = pattern.exec(text);
    return found && { word: found[0], name: found[1], end: pattern.lastIndex };
  }

  function refuse(text, at) {
    const [word] = text.slice(at).match(/^[^\s,;\])}]{1,20}|^\S/);
    throw new NotRead(`Line ${lineOf(text, at)}: “${word}” is not a number.`);
  }

  /* --- nested brackets, with the words around them --- */

  function readBrackets(text) {
    const root = { children: [], call: true };
    const open = [root];
    let about = "";
    let at = 0;
    const inside = () => open[open.length - 1];
    while (at < text.length) {
      const character = text[at];
      const number = numberAt(text, at);
      const word = number ? null : wordAt(text, at, WORD);
      const isCall = word && /^\s*\(/.test(text.slice(word.end));
      const fact = word && inside().call ? wordAt(text, at, ABOUT) : null;
      const said = fact && (open.length > 1 || /^(shape|dtype)$/.test(fact.name)) ? fact : null;
      const name = word && open.length === 1 ? wordAt(text, at, NAME) : null;
      if (/[\s,;]/.test(character)) at += 1;
      else if (number && open.length === 1) {
        throw new NotRead(`Line ${lineOf(text, at)}: there is a number outside the brackets. Paste one array at a time.`);
      } else if (number) {
        inside().children.push(number);
        at = number.end;
      } else if (said) {
        about += ` ${said.word}`;
        at = said.end;
      } else if (name) at = name.end;
      else if (isCall) {
        about += ` ${word.word}(`;
        at = text.indexOf("(", word.end) + 1;
        open.push({ children: [], call: true, closes: ")" });
      } else if (character in CLOSES) {
        open.push({ children: [], call: false, closes: CLOSES[character] });
        at += 1;
      } else if (/[\])}]/.test(character)) {
        if (open.length === 1 || inside().closes !== character) {
          throw new NotRead(`Line ${lineOf(text, at)}: “${character}” closes no bracket. Was all of it copied?`);
        }
        const closed = open.pop();
        if (closed.call) inside().children.push(...closed.children);
        else inside().children.push(closed);
        at += 1;
      } else if (open.length === 1 && word) at = word.end;
      else if (open.length === 1 && /[=:<>.*'"#]/.test(character)) at += 1;
      else refuse(text, at);
    }
    if (open.length > 1) throw new NotRead(`A bracket “${inside().closes}” is missing at the end. Was all of it copied?`);
    const [first, ...more] = root.children;
    if (first === undefined) throw new NotRead("There is no number.");
    return { root: more.length ? { children: root.children } : first, about };
  }

  /* Shape and numbers of nested lists; rows have to be equally long. */
  function flat(node) {
    if (!node.children) return { shape: [], tokens: [node] };
    const parts = node.children.map(flat);
    const odd = parts.findIndex(({ shape }) => shape.join() !== parts[0].shape.join());
    if (odd >= 0) {
      const sizes = [parts[0], parts[odd]].map(({ shape, tokens }) =>
        (shape.length > 1 ? `the shape ${tuple(shape)}` : shape.length ? `${tokens.length} number${tokens.length === 1 ? "" : "s"}` : "no brackets"));
      throw new NotRead(`The rows differ: row ${odd} has ${sizes[1]}, and row 0 has ${sizes[0]}.`);
    }
    return { shape: [parts.length, ...(parts.length ? parts[0].shape : [])], tokens: parts.flatMap(({ tokens }) => tokens) };
  }

  /* --- tables: a row on each line, and an empty line between blocks --- */

  function readTable(text) {
    const blocks = [[]];
    let start = 0;
    for (const line of text.split("\n")) {
      const plain = line.replace(/(#|\/\/).*$/, "");
      const row = [];
      let at = 0;
      while (at < plain.length) {
        const number = numberAt(plain, at);
        const word = row.length ? null : wordAt(plain, at, /([A-Za-z_][\w. ]*)[=:]/y);
        if (/[\s,;|]/.test(plain[at])) at += 1;
        else if (number) {
          row.push(number);
          at = number.end;
        } else if (word && text.trim().split("\n").length === 1) at = word.end; // loss = 12.5
        else refuse(text, start + at);
      }
      if (row.length) blocks[blocks.length - 1].push(row);
      else if (!line.trim() && blocks[blocks.length - 1].length) blocks.push([]);
      start += line.length + 1;
    }
    const full = blocks.filter((block) => block.length);
    if (!full.length) throw new NotRead("There is no number.");
    const nested = full.map((block) => ({ children: block.map((row) => ({ children: row })) }));
    const { shape, tokens } = flat({ children: nested });
    const [blockCount, rows, columns] = shape;
    if (blockCount > 1) return { shape, tokens };
    return { shape: rows > 1 ? [rows, columns] : columns > 1 ? [columns] : [], tokens };
  }

  /* --- what C++ prints of a torch tensor: slices, columns in groups, factors, and a last line with type and shape --- */

  const CPP = /\[ *(?:Variable\[)?[A-Z]+[a-z]*?(Float|Double|Half|BFloat16|Long|Int)Type\]?\{([\d, ]*)\} *\]/;
  const CPP_TYPES = { Float: "float32", Double: "float64", Half: "float16", BFloat16: "bfloat16" };

  function readCpp(text, found) {
    const shape = found[2].split(",").filter((size) => size.trim()).map(Number);
    const slices = text.slice(0, found.index).split(/^\s*\([\d., ]*\)\s*=\s*$/m).filter((slice) => slice.trim());
    const tokens = slices.flatMap((slice) => {
      const groups = slice.split(/^\s*Columns \d+ to \d+(?=[ -])/m).filter((group) => group.trim());
      let scale = 1;
      const parts = groups.map((group) => readTable(group.replace(/^\s*([\d.e+-]+) *\*\s*$/m, (_, factor) => {
        scale = Number(factor);
        return "";
      })));
      const rows = shape.length > 1 ? shape[shape.length - 2] : parts[0].tokens.length;
      const wide = (part) => part.tokens.length / rows;
      const inOrder = Array.from({ length: rows }, (_, r) =>
        parts.flatMap((part) => part.tokens.slice(r * wide(part), (r + 1) * wide(part)))).flat();
      return inOrder.map((each) => ({ ...each, value: each.value * scale, scale }));
    });
    const size = shape.reduce((a, b) => a * b, 1);
    if (tokens.length !== size) {
      throw new NotRead(`The last line says ${tuple(shape)}, which is ${size} numbers, and there are ${tokens.length}.`);
    }
    return { shape, tokens, type: CPP_TYPES[found[1]] || "" };
  }

  /* --- how exact the numbers are --- */

  const view = new DataView(new ArrayBuffer(4));

  /* The narrowest type that holds every number as it is. */
  function typeOf(values) {
    const finite = values.filter((x) => Number.isFinite(x) && x !== 0);
    const isHalf = (x) => Math.abs(x) <= 65504
      && Number.isInteger(x / 2 ** (Math.max(Math.floor(Math.log2(Math.abs(x))), -14) - 10));
    const isBrain = (x) => {
      view.setFloat32(0, x);
      return view.getFloat32(0) === x && view.getUint16(2) === 0;
    };
    if (!finite.length || !finite.every((x) => Math.fround(x) === x)) return "";
    return finite.every(isBrain) ? "bfloat16" : finite.every(isHalf) ? "float16" : "float32";
  }

  const ROUNDING = { float32: 2 ** -24, float16: 2 ** -11, bfloat16: 2 ** -8 }; // relative, half a unit

  /* Half a unit of the last digit of each number. Prints have the same number of digits everywhere; those that drop zeros
     at the end are as exact as the longest. Whole numbers, and numbers with 15 digits or more, are exact, up to the
     rounding of their type, where it is known: as `said` by the print, or as all numbers are of that type. */
  function precision(tokens, said) {
    const numbers = tokens.filter(({ value }) => Number.isFinite(value));
    const most = (list, of) => list.reduce((best, each) => Math.max(best, of(each)), 0);
    const fixed = numbers.filter(({ power }) => power === null);
    const raised = numbers.filter(({ power }) => power !== null);
    const [decimals, mantissa] = [most(fixed, (x) => x.decimals), most(raised, (x) => x.decimals)];
    const significant = most(numbers, (x) => x.digits);
    const narrowest = typeOf(numbers.map(({ value }) => value));
    const seen = significant >= (narrowest === "float32" ? 9 : 5) ? narrowest : ""; // fewer digits fit by chance
    const type = said || seen;
    const exact = seen || significant >= 15 || (!raised.length && decimals === 0);
    const halfUnits = Float64Array.from(tokens, ({ value, power, scale }) => {
      if (!Number.isFinite(value)) return 0;
      const printed = exact ? 0 : 0.5 * scale * 10 ** (power === null ? -decimals : power - mantissa);
      return Math.max(printed, Math.abs(value) * (ROUNDING[type] || 0));
    });
    const count = (n, unit) => `with ${n} ${unit}${n === 1 ? "" : "s"}`;
    const inWords = raised.length > fixed.length ? count(mantissa + 1, "significant digit") : count(decimals, "decimal");
    return { halfUnits, digits: exact ? `in ${type || "float64"}` : inWords, type };
  }

  /* The array that a text holds: {shape, values, halfUnits, digits, type}. `type` is what the print says, or what only
     numbers of that type can be; "" if neither tells. Throws NotRead, with a sentence. */
  function read(text) {
    const plain = text.replace(/−/g, "-").replace(/[\u00a0\ufeff]/g, " ").replace(/\r\n?/g, "\n")
      .replace(/nan\((?:ind|snan)\)/gi, "nan");
    if (!plain.trim()) throw new NotRead("Nothing is pasted.");
    if (/\.\.\.|…/.test(plain)) throw new NotRead(ABBREVIATED);
    const cpp = plain.match(CPP);
    let found;
    if (cpp) found = readCpp(plain, cpp);
    else if (/[[({]/.test(plain)) {
      const { root, about } = readBrackets(plain);
      const dtype = about.match(/dtype=(?:\w+\.)?["']?(bfloat16|float16|float32|float64|half|double)/);
      const empty = about.match(/(?:size|shape)=\(([\d, ]*)\)/);
      found = { ...flat(root), type: dtype ? dtype[1].replace("half", "float16").replace("double", "float64") : "" };
      if (!found.tokens.length && empty) found.shape = empty[1].split(",").filter((x) => x.trim()).map(Number);
    } else found = readTable(plain);
    const { shape, tokens, type } = found;
    return { shape, values: Float64Array.from(tokens, ({ value }) => value), ...precision(tokens, type) };
  }

  /* The same array with the axes that a loss wants: axes of one utterance taken away, a table of RNN-T cut into frames.
     {array, note}; throws NotRead if that cannot be. */
  function fit(array, loss, labels) {
    let { shape } = array;
    const wanted = loss === "ctc" ? 2 : 3;
    const axes = loss === "ctc" ? "(T, V)" : "(T, U + 1, V)";
    let note = "";
    while (shape.length > wanted && shape.includes(1)) {
      const axis = shape.indexOf(1);
      note = `An axis of size 1 was left out of the shape ${tuple(array.shape)}.`;
      shape = shape.filter((_, i) => i !== axis);
    }
    if (shape.length > wanted) {
      throw new NotRead(`The shape is ${tuple(array.shape)}; expected ${axes}. Paste one utterance, without padding.`);
    }
    if (loss === "ctc" && shape.length === 1) shape = [1, ...shape];
    if (loss === "rnnt" && shape.length < 3) {
      const [rows, V] = shape.length === 2 ? shape : [1, shape[0]];
      if (shape.length === 0 || rows % (labels + 1)) {
        throw new NotRead(`The shape is ${tuple(array.shape)}; expected ${axes}. With ${labels} labels, a table needs a `
          + `multiple of U + 1 = ${labels + 1} rows.`);
      }
      shape = [rows / (labels + 1), labels + 1, V];
      note = `The ${rows} rows of the table are ${shape[0]} frames with U + 1 = ${labels + 1} rows each.`;
    }
    if (shape.length < wanted) throw new NotRead(`The shape is ${tuple(array.shape)}; expected ${axes}.`);
    return { array: { ...array, shape }, note };
  }

  /* Labels: whole numbers, in any brackets; nothing at all is an empty target. */
  function readLabels(text) {
    if (!/[\d.…A-Za-z]/.test(text)) return [];
    if (/^\s*[A-Za-z_.]*\(?\s*\[\s*\]/.test(text)) return [];
    const values = [...read(text).values];
    const wrong = values.find((x) => !Number.isInteger(x));
    if (wrong !== undefined) throw new NotRead(`${wrong} is no label; expected whole numbers, such as 1 2 2.`);
    return values;
  }

  /* A single number. */
  function readNumber(text) {
    const array = read(text);
    if (array.values.length !== 1) throw new NotRead(`${array.values.length} numbers; expected one, the loss of this utterance.`);
    return array;
  }

  return { NotRead, fit, read, readLabels, readNumber, tuple };
})();

if (typeof module !== "undefined") module.exports = PastedNumbers;
