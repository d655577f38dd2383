// Opens the folded section that a link leads into, and all of them while a page is printed. Without this file a click opens them.
(() => {
  const opened = new Set();
  const open = () => {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const folded = target && target.closest("details.deeper");
    if (!folded || folded.open) return;
    folded.open = true;
    target.scrollIntoView();
  };
  addEventListener("hashchange", open);
  addEventListener("beforeprint", () => {
    for (const folded of document.querySelectorAll("details.deeper:not([open])")) {
      folded.open = true;
      opened.add(folded);
    }
  });
  addEventListener("afterprint", () => {
    for (const folded of opened) folded.open = false;
    opened.clear();
  });
  open();
})();
