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
