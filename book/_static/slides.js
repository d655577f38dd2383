/* Starts reveal.js on a page of slides, once the formulas are set and the laboratories drawn. It asks no server for anything. */
"use strict";

(() => {
  const root = document.documentElement;
  const paper = /print-pdf|view=print/i.test(location.search);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const still = matchMedia("(prefers-reduced-motion: reduce)");

  // the reader's choice on the site's pages, else the system's; paper is light
  function theme() {
    let mode = null;
    try {
      mode = localStorage.getItem("mode");
    } catch {
      // storage is refused: the system decides
    }
    const chosen = mode === "light" || mode === "dark" ? mode : dark.matches ? "dark" : "light";
    root.dataset.theme = paper ? "light" : chosen;
  }

  // keys belong to the laboratory while it has the focus; Escape gives them back
  function keysMoveSlides() {
    return !document.activeElement?.closest(".lattice-lab");
  }

  function escape(event) {
    if (event.key === "Escape" && !keysMoveSlides()) {
      document.activeElement.blur();
      event.stopPropagation();
    }
  }

  // the speaker's window has notes without the style that hides MathJax's second, spoken copy of a formula
  function plainNotes() {
    for (const copy of document.querySelectorAll("aside.notes mjx-assistive-mml")) copy.remove();
  }

  // MathJax comes when it comes; before that window.MathJax has its settings only
  async function formulas() {
    const script = document.querySelector("script[src*='tex-svg-full']");
    if (script && !window.MathJax?.startup?.promise) {
      await new Promise((done) => ["load", "error"].forEach((what) => script.addEventListener(what, done)));
    }
    await window.MathJax?.startup?.promise;
  }

  // reveal.js hides the other slides from eyes only: the Tab key has to stay on this one
  function oneSlide() {
    const all = paper || Reveal.isOverview();
    for (const slide of document.querySelectorAll(".slides > section")) slide.inert = !all && slide !== Reveal.getCurrentSlide();
  }

  async function begin() {
    theme();
    dark.addEventListener("change", theme);
    addEventListener("keydown", escape, true);
    for (const lab of document.querySelectorAll(".lattice-lab")) lab.setAttribute("data-prevent-swipe", "");
    await formulas();
    plainNotes();
    await Reveal.initialize({
      width: 1280,
      height: 720,
      margin: 0,
      maxScale: 4,
      center: false,
      hash: true,
      slideNumber: "c/t",
      transition: still.matches || paper ? "none" : "fade",
      backgroundTransition: "none",
      pdfMaxPagesPerSlide: 1,
      pdfSeparateFragments: false,
      scrollActivationWidth: null,
      keyboardCondition: keysMoveSlides,
      plugins: [RevealNotes],
    });
    for (const event of ["slidechanged", "overviewshown", "overviewhidden"]) Reveal.on(event, oneSlide);
    oneSlide();
  }

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", begin);
  else begin();
})();
