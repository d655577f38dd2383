/* Checks the answers to the quizzes of a page and says why. It knows no answer: they stand in the page (book/_ext/quiz.py),
   where they can be read without it. Results go to progress.js. */
"use strict";

(() => {
  const { load, answered, make } = BookProgress;

  function prepare(quiz) {
    const name = quiz.dataset.quiz;
    const inputs = [...quiz.querySelectorAll(".quiz-answer input")];
    const whys = new Map([...quiz.querySelectorAll(".quiz-why")].map((why) => [why.dataset.letter, why]));
    const button = make("button", { type: "button", class: "quiz-check" }, "Check");
    const said = make("div", { class: "quiz-said", "aria-live": "polite" });
    const before = load().quizzes[name];

    const isRight = (input) => whys.get(input.value).dataset.says === "right";

    function mark(chosen) {
      for (const input of inputs) {
        const box = input.closest(".quiz-answer");
        if (chosen.includes(input)) box.dataset.says = isRight(input) ? "right" : "wrong";
        else delete box.dataset.says;
      }
    }

    function check() {
      const chosen = inputs.filter((input) => input.checked);
      if (!chosen.length) {
        said.replaceChildren(make("p", {}, "Choose an answer first."));
        return;
      }
      const missing = inputs.filter((input) => isRight(input) && !chosen.includes(input)).length;
      const wrong = chosen.some((input) => !isRight(input));
      const right = !wrong && !missing;
      mark(chosen);
      const parts = chosen.map((input) => whys.get(input.value).cloneNode(true));
      if (quiz.dataset.several && !wrong && missing) {
        parts.push(make("p", {}, missing === 1 ? "One more answer is right." : `${missing} more answers are right.`));
      }
      said.replaceChildren(...parts);
      said.dispatchEvent(new CustomEvent("book:added", { bubbles: true }));
      if (!answered(name, right)) said.append(make("p", { class: "quiz-hint" }, "(This browser keeps no results.)"));
    }

    button.addEventListener("click", check);
    for (const input of inputs) {
      input.addEventListener("keydown", (event) => {
        if (event.key !== "Enter") return;
        event.preventDefault();
        check();
      });
      input.addEventListener("change", () => {
        mark([]);
        said.replaceChildren();
      });
    }
    quiz.querySelector(".quiz-all").before(button, said);
    if (before) said.append(make("p", { class: "quiz-hint" }, `Your last answer was ${before.last ? "right" : "wrong"}.`));
  }

  const quizzes = [...document.querySelectorAll("fieldset.quiz")];
  quizzes.forEach(prepare);

  // MathJax makes each formula a stop of the Tab key: in a label a click on it would miss the answer, and elsewhere in a
  // quiz it would stand between the reader and the next thing to press. Screen readers read formulas all the same.
  window.addEventListener("load", async () => {
    await window.MathJax?.startup?.promise;
    for (const formula of document.querySelectorAll("fieldset.quiz mjx-container")) formula.removeAttribute("tabindex");
  });

  // paper cannot unfold
  let folded = null;
  window.addEventListener("beforeprint", () => {
    folded ??= quizzes.map((quiz) => quiz.querySelector("details.quiz-all")).filter((each) => !each.open);
    for (const each of folded) each.open = true;
  });
  window.addEventListener("afterprint", () => {
    for (const each of folded ?? []) each.open = false;
    folded = null;
  });
})();
