for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  if (body.rows.length < 2) continue;
  table.querySelectorAll("thead th").forEach((head, column) => {
    if (!head.textContent) return;
    const button = document.createElement("button");
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") !== "descending";
      for (const other of table.querySelectorAll("th")) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
      const compare = (a, b) => key(a).localeCompare(key(b), undefined, { numeric: true });
      const numbers = (a, b) => Number(key(a)) - Number(key(b));
      const order = body.rows[0].cells[column].dataset.value === undefined ? compare : numbers;
      body.append(...Array.from(body.rows).sort((a, b) => (down ? order(b, a) : order(a, b))));
    });
  });
}
