/* What a reader has done, kept in this browser: chapters marked as read, and results of quizzes. It sends nothing anywhere.
   It also draws the button at the end of a chapter, and fills the table of the page "Your progress". */
"use strict";

const BookProgress = (() => {
  const VERSION = 1;
  const KEY = "ctc-and-rnnt-differentiated:progress:1"; // the address may be shared with other sites of the same host
  const NAME = /^[\w/.-]{1,100}$/;
  let memory = null; // where the browser keeps nothing: until the page is left

  const empty = () => ({ version: VERSION, read: {}, quizzes: {} });

  /* What is right in some data, and nothing else; null if it is no progress of this version. */
  function cleaned(data) {
    const isMap = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
    if (!isMap(data) || data.version !== VERSION || !isMap(data.read) || !isMap(data.quizzes)) return null;
    const kept = empty();
    for (const [page, value] of Object.entries(data.read)) if (NAME.test(page) && value === true) kept.read[page] = true;
    for (const [name, value] of Object.entries(data.quizzes)) {
      if (!NAME.test(name) || !isMap(value) || typeof value.first !== "boolean" || typeof value.last !== "boolean") continue;
      kept.quizzes[name] = { first: value.first, last: value.last };
    }
    return kept;
  }

  function load() {
    if (memory) return memory;
    try {
      return cleaned(JSON.parse(localStorage.getItem(KEY))) ?? empty();
    } catch {
      return empty();
    }
  }

  /* Tells whether the browser keeps it. */
  function save(data) {
    try {
      localStorage.setItem(KEY, JSON.stringify(data));
      memory = null;
      return true;
    } catch {
      memory = data;
      return false;
    }
  }

  function clear() {
    memory = null;
    try {
      localStorage.removeItem(KEY);
    } catch { /* nothing was kept */ }
  }

  function keeps() {
    try {
      localStorage.setItem(`${KEY}:try`, "1");
      localStorage.removeItem(`${KEY}:try`);
      return true;
    } catch {
      return false;
    }
  }

  function answered(name, right) {
    const data = load();
    data.quizzes[name] = { first: data.quizzes[name]?.first ?? right, last: right };
    return save(data);
  }

  function markRead(page, read) {
    const data = load();
    if (read) data.read[page] = true;
    else delete data.read[page];
    return save(data);
  }

  const make = (tag, attributes = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  };

  /* --- the button at the end of a chapter --- */

  function drawButton(place) {
    const button = make("button", { type: "button", "aria-pressed": "false" }, "I have read this chapter");
    const said = make("span", { role: "status" });
    const page = place.dataset.chapter;
    const show = () => button.setAttribute("aria-pressed", String(load().read[page] === true));
    button.addEventListener("click", () => {
      const read = load().read[page] !== true;
      const kept = markRead(page, read);
      show();
      said.textContent = !kept ? "This browser keeps nothing; the mark is lost with the page."
        : read ? "Kept in this browser." : "The mark is taken back.";
    });
    show();
    place.append(button, " ", said);
  }

  /* --- the page "Your progress" --- */

  function drawTable(place) {
    const said = make("p", { role: "status", class: "progress-said" });

    function fill() {
      const data = load();
      const all = { read: 0, first: 0, last: 0, quizzes: 0, chapters: 0 };
      for (const row of place.querySelectorAll("tr[data-chapter]")) {
        const cell = (name) => row.querySelector(`.progress-${name}`);
        const names = [...row.querySelectorAll("a[data-quiz]")].map((link) => link.dataset.quiz);
        const done = names.map((name) => data.quizzes[name]).filter(Boolean);
        const read = data.read[row.dataset.chapter] === true;
        const [first, last] = ["first", "last"].map((which) => done.filter((each) => each[which]).length);
        cell("read").textContent = read ? "yes" : "–";
        cell("first").textContent = names.length ? `${first} of ${names.length}` : "–";
        cell("last").textContent = names.length ? `${last} of ${names.length}` : "–";
        all.read += read;
        all.first += first;
        all.last += last;
        all.quizzes += names.length;
        all.chapters += 1;
        for (const link of row.querySelectorAll("a[data-quiz]")) {
          const result = data.quizzes[link.dataset.quiz];
          const state = !result ? "not answered" : result.last ? "right" : "wrong";
          link.setAttribute("aria-label", `quiz ${link.textContent}: ${state}`);
        }
      }
      sum.textContent = `${all.read} of ${all.chapters} chapters read. Of ${all.quizzes} quizzes, ${all.first} answered right at first, ${all.last} at last.`;
    }

    const button = (text, action) => {
      const made = make("button", { type: "button" }, text);
      made.addEventListener("click", action);
      return made;
    };
    const sum = make("p", { class: "progress-sum" });
    const file = make("input", { type: "file", accept: "application/json,.json", "aria-label": "File to import", hidden: "" });
    const doClear = () => {
      if (!window.confirm("Clear your progress? It cannot be brought back, unless you have exported it.")) return;
      clear();
      fill();
      said.textContent = "Cleared.";
    };
    const doExport = () => {
      const url = URL.createObjectURL(new Blob([`${JSON.stringify(load(), null, 2)}\n`], { type: "application/json" }));
      make("a", { href: url, download: "ctc-and-rnnt-progress.json" }).click();
      setTimeout(() => URL.revokeObjectURL(url), 10_000);
      said.textContent = "Exported as ctc-and-rnnt-progress.json.";
    };
    file.addEventListener("change", async () => {
      if (!file.files.length) return;
      let data = null;
      try {
        data = cleaned(JSON.parse(await file.files[0].text()));
      } catch { /* it is said below */ }
      file.value = "";
      if (data === null) {
        said.textContent = "That file holds no progress of this book; nothing was changed.";
        return;
      }
      const kept = save(data);
      fill();
      said.textContent = kept ? "Imported: it has replaced what was here." : "Imported, but this browser keeps nothing.";
    });
    const controls = make("div", { class: "progress-controls" },
      button("Export as JSON", doExport), button("Import", () => file.click()), button("Clear", doClear), file);
    place.append(sum, controls, said);
    if (!keeps()) said.textContent = "This browser keeps nothing for this page, so the table starts empty each time.";
    fill();
    window.addEventListener("storage", fill); // answers given in another tab
    window.addEventListener("pageshow", fill);
  }

  for (const place of document.querySelectorAll(".chapter-read")) drawButton(place);
  for (const place of document.querySelectorAll("[data-progress]")) drawTable(place);

  return { load, answered, make };
})();
