// Paper is light: while a page is printed it has the light theme, whatever the reader's is. It changes nothing on the screen.
(() => {
  const root = document.documentElement;
  let before = null;
  addEventListener("beforeprint", () => {
    before ??= root.dataset.theme;
    root.dataset.theme = "light";
  });
  addEventListener("afterprint", () => {
    if (before) root.dataset.theme = before;
    before = null;
  });
})();
