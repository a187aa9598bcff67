"use strict";
// Figures that change: an element with data-live names the source of server-sent events, its parts their members.
for (const element of document.querySelectorAll("[data-live]")) {
  let source = null;
  const follow = () => {
    if (document.hidden) {
      if (source) source.close();
      source = null;
    } else if (!source) {
      source = new EventSource(element.dataset.live);
      source.onmessage = (event) => {
        const figures = JSON.parse(event.data);
        for (const part of element.querySelectorAll("[data-figure]")) {
          part.textContent = figures[part.dataset.figure];
        }
      };
    }
  };
  document.addEventListener("visibilitychange", follow);
  follow();
}

// "/" moves to the search box, as long as nothing is being typed.
document.addEventListener("keydown", (event) => {
  const box = document.querySelector(".search input");
  const typing = event.target.closest("input, textarea, select");
  if (event.key === "/" && box && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    box.focus();
  }
});
