// Shows over a link to a glossary term, an equation or a note what it leads to. Notes are on the page; the other texts lie
// in its <template id="explanations">, put there by book/_ext/explanations.py. Without this file the links are links.
(() => {
  "use strict";
  const texts = document.getElementById("explanations");
  const article = document.querySelector("article.bd-article");
  if (!article) return;

  const box = document.createElement("div");
  box.id = "explanation";
  box.setAttribute("role", "tooltip");
  box.hidden = true;
  article.append(box);

  let shownFor = null, timer = 0, byTouch = false;

  const textOf = link => {
    const anchor = decodeURIComponent(link.hash.slice(1));
    return anchor && (texts?.content.querySelector(`[data-of="${CSS.escape(anchor)}"]`)
      || article.querySelector(`.claims li[id="${CSS.escape(anchor)}"]`));
  };

  const place = link => {
    const at = [...link.getClientRects()].at(-1), frame = article.getBoundingClientRect();
    const left = Math.min(at.left, document.documentElement.clientWidth - box.offsetWidth - 12);
    const below = at.bottom + box.offsetHeight + 10 < innerHeight || at.top < box.offsetHeight + 10;
    box.style.left = `${Math.max(12, left) - frame.left}px`;
    box.style.top = `${(below ? at.bottom + 6 : at.top - box.offsetHeight - 6) - frame.top}px`;
  };

  const hide = () => {
    clearTimeout(timer);
    shownFor?.removeAttribute("aria-describedby");
    shownFor = null;
    box.hidden = true;
  };

  const show = async (link, text) => {
    hide();
    box.replaceChildren(...text.cloneNode(true).childNodes);
    box.hidden = false;
    shownFor = link;
    link.setAttribute("aria-describedby", box.id);
    place(link);
    await window.MathJax?.typesetPromise?.([box]);
    if (shownFor === link) place(link);
  };

  const soon = (action, delay) => {
    clearTimeout(timer);
    timer = setTimeout(action, delay);
  };

  const prepare = root => root.querySelectorAll("a.reference.internal[href*='#']").forEach(link => {
    const text = textOf(link);
    if (!text) return;
    link.addEventListener("pointerenter", e => e.pointerType === "touch" || soon(() => show(link, text), 150));
    link.addEventListener("pointerleave", e => e.pointerType === "touch" || soon(hide, 250));
    link.addEventListener("pointerdown", e => { byTouch = e.pointerType === "touch"; });
    link.addEventListener("focus", () => byTouch || show(link, text));
    link.addEventListener("blur", hide);
    // the first tap explains, the second follows the link
    link.addEventListener("click", e => {
      if (byTouch && shownFor !== link) {
        e.preventDefault();
        show(link, text);
      }
      byTouch = false;
    });
  });
  prepare(article);
  article.addEventListener("book:added", e => prepare(e.target)); // what a script has put into the page
  box.addEventListener("pointerenter", () => clearTimeout(timer));
  box.addEventListener("pointerleave", () => soon(hide, 250));
  document.addEventListener("keydown", e => e.key === "Escape" && hide());
  document.addEventListener("pointerdown", e => shownFor && !box.contains(e.target) && !shownFor.contains(e.target) && hide());
})();
