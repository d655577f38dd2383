/* The speech player: puts controls into each <div class="speech-player">, which holds a recording, a picture, a table and
   data (reference_impl.speech.player makes it), and shows what a network hears while the recording plays. What it says
   and lights up is from speech_player_math.js. It stores nothing and asks no server for anything. */
"use strict";

(() => {
  const P = SpeechPlayer;
  const SVG = "http://www.w3.org/2000/svg";
  const SPEEDS = { 1: "normal", 0.5: "half", 0.25: "a quarter" };
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  const players = [];

  function make(tag, attributes = {}, ...children) {
    const element = ["rect", "line"].includes(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (value !== null && value !== false) element.setAttribute(name, value === true ? "" : value);
    }
    element.append(...children.flat());
    return element;
  }

  class Player {
    constructor(root, index) {
      this.root = root;
      this.data = JSON.parse(root.querySelector("script[type='application/json']").textContent);
      this.frames = P.frameCount(this.data);
      this.state = this.data.states.length - 1;
      this.time = null; // nothing was played or sought: everything is shown
      this.build(`speech-player-${index}`);
      this.choose(this.state);
      root.classList.add("player-ready");
    }

    get seconds() {
      return this.data.seconds;
    }

    build(name) {
      const { root, data } = this;
      this.audio = root.querySelector("audio");
      this.audio.controls = false;
      this.audio.hidden = true;
      this.audio.addEventListener("play", () => this.started());
      this.audio.addEventListener("pause", () => this.stopped());
      this.audio.addEventListener("error", () => this.silent());
      this.picture = root.querySelector(".player-picture");
      this.picture.tabIndex = -1; // a click brings the keyboard here; Tab does not need to
      this.picture.addEventListener("click", (event) => this.touched(event));
      this.plot = this.picture.querySelector(".player-plot");
      this.names = [...this.picture.querySelectorAll(".player-name")];
      this.drawn = [...this.plot.querySelectorAll(".player-state")];
      const bottom = this.plot.querySelector(".player-sound");
      const height = Number(bottom.getAttribute("y")) + Number(bottom.getAttribute("height"));
      this.veil = make("rect", { class: "player-veil", y: 0, height, display: "none" });
      this.head = make("line", { class: "player-head", y1: 0, y2: height, display: "none" });
      this.plot.append(this.veil, this.head);

      const field = (...parts) => make("label", { class: "player-field" }, parts);
      this.button = make("button", { type: "button", class: "player-button", onclick: () => this.toggle() }, "Play");
      this.slider = make("input", { type: "range", min: 0, max: this.frames - 1, step: 1, value: 0,
        "aria-label": "time", oninput: () => this.seek(Number(this.slider.value)) });
      this.now = make("span", { class: "player-now" });
      this.speed = make("select", { onchange: () => this.pace() },
        Object.entries(SPEEDS).sort(([a], [b]) => b - a).map(([value, text]) => make("option", { value }, text)));
      this.live = make("p", { class: "player-live", "aria-live": "polite" });
      this.text = make("p", { class: "player-text" });
      const states = make("fieldset", { class: "player-states" }, make("legend", {}, "Network"),
        data.states.map((state, i) => field(make("input", { type: "radio", name, value: i, checked: i === this.state,
          onchange: () => this.choose(i, true) }), state.name)));
      if (data.states.length > 1) this.audio.before(states);
      this.audio.before(make("div", { class: "player-controls" }, this.button, this.slider, this.now,
        field("speed", this.speed)), this.text);
      root.append(this.live);
      root.addEventListener("keydown", (event) => this.pressed(event));
    }

    /* --- the recording --- */

    toggle() {
      if (!this.audio.paused) {
        this.audio.pause();
        return;
      }
      if (this.time === null || this.time >= this.seconds) this.audio.currentTime = 0;
      const playing = this.audio.play();
      if (playing) playing.catch((error) => error.name === "AbortError" || this.silent());
    }

    started() {
      for (const other of players) if (other !== this) other.audio.pause();
      this.button.textContent = "Pause";
      this.live.textContent = "";
      this.pace();
      const tick = () => {
        if (this.audio.paused) return;
        this.show(this.audio.currentTime);
        requestAnimationFrame(tick);
      };
      tick();
    }

    stopped() {
      this.button.textContent = "Play";
      if (this.before) return; // the page is being printed
      this.show(this.audio.ended ? this.seconds : this.audio.currentTime, true);
      this.announce(this.audio.ended ? "The end." : `Paused at ${this.time.toFixed(2)} s.`);
    }

    silent() {
      this.announce("This browser does not play the recording. The slider still moves through it.", false);
      this.live.classList.add("player-trouble");
    }

    pace() {
      this.audio.playbackRate = Number(this.speed.value);
    }

    seek(frame) {
      const time = Math.max(0, Math.min(this.frames - 1, frame)) * this.data.step;
      this.audio.currentTime = time;
      this.show(time, true);
    }

    frame() {
      return this.time === null ? null : P.frameAt(this.time, this.data.step, this.frames);
    }

    /* --- mouse and keyboard --- */

    touched(event) {
      const box = this.plot.getBoundingClientRect();
      if (event.clientX < box.left) return;
      this.seek(P.frameAt(((event.clientX - box.left) / box.width) * this.seconds, this.data.step, this.frames));
    }

    pressed(event) {
      if (event.ctrlKey || event.altKey || event.metaKey || event.shiftKey) return;
      const { target } = event;
      if (event.key === " " && !target.matches("button, select, summary, input[type=radio]:not(:checked)")) {
        event.preventDefault();
        this.toggle();
      }
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!by || target.matches("select, input") || !this.audio.paused) return; // the slider steps by itself
      event.preventDefault();
      const frame = this.frame();
      this.seek(frame === null ? 0 : frame + by);
      this.announce(this.now.textContent, false);
    }

    /* --- what is seen and said --- */

    choose(state, aloud = false) {
      this.state = state;
      this.read = P.readOf(this.data.states[state], this.data.blank);
      this.drawn.forEach((each, i) => each.setAttribute("display", i === state ? "inline" : "none"));
      this.marks = [...this.drawn[state].querySelectorAll(".player-marks text")];
      this.letters = this.read.map(({ row }) => make("span", {}, this.data.letters[row]));
      this.text.replaceChildren(make("span", { class: "player-reads" }, "reads"), " ",
        make("span", { class: "player-letters" }, this.letters.length ? this.letters : "nothing"));
      this.show(this.time, true);
      if (aloud) this.announce("");
    }

    /* Show a time. Where motion is unwelcome, and unless it must, only when another label is read. */
    show(time, must = false) {
      this.time = time;
      const { data } = this;
      const frame = this.frame();
      const count = P.litCount(this.read, frame);
      if (!must && still.matches && count === this.shown) return;
      this.shown = count;
      const share = time === null ? 1 : Math.min(1, time / this.seconds);
      for (const each of [this.veil, this.head]) each.setAttribute("display", time === null ? "none" : "inline");
      this.veil.setAttribute("x", `${100 * share}%`);
      this.veil.setAttribute("width", `${100 * (1 - share)}%`);
      this.head.setAttribute("x1", `${100 * share}%`);
      this.head.setAttribute("x2", `${100 * share}%`);
      this.letters.forEach((each, i) => each.classList.toggle("player-lit", i < count));
      this.marks.forEach((each, i) => each.classList.toggle("player-lit", i < count));
      const rows = frame === null ? [] : P.heardIn(data.states[this.state], data.blank, frame).rows;
      this.names.forEach((each, row) => each.classList.toggle("player-heard", rows.includes(row)));
      this.slider.value = frame ?? 0;
      this.now.textContent = time === null ? "not started" : P.said(data, data.states[this.state], time);
      if (this.audio.paused) this.slider.setAttribute("aria-valuetext", this.now.textContent);
    }

    /* For who does not see the page: now and then, never while the recording speaks. */
    announce(words, more = true) {
      const text = P.textOf(this.read, this.data.letters, P.litCount(this.read, this.frame()));
      this.live.classList.remove("player-trouble");
      const all = [words, this.data.states[this.state].name, `${P.reads(text)}.`];
      this.live.textContent = more ? all.filter((each) => each).join(" ") : words;
    }

    /* Paper shows everything, and the table. */
    print() {
      this.audio.pause();
      const table = this.root.querySelector("details");
      this.before = { time: this.time, open: table.open };
      table.open = true;
      this.show(null, true);
    }

    printed() {
      if (!this.before) return;
      this.root.querySelector("details").open = this.before.open;
      this.show(this.before.time, true);
      this.before = null;
    }
  }

  addEventListener("beforeprint", () => players.forEach((each) => each.before || each.print()));
  addEventListener("afterprint", () => players.forEach((each) => each.printed()));
  const begin = () => document.querySelectorAll(".speech-player").forEach((root, i) => players.push(new Player(root, i + 1)));
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", begin);
  else begin();
})();
