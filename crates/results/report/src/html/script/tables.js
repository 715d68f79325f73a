// @ts-check
// ---- tables ----
/** What a cell is sorted by: its first figure, else its words.
 * @param {Element | undefined} cell
 */
const key = (cell) => {
  const said = (cell?.firstChild?.textContent || "").trim();
  const figure = Number.parseFloat(said.replace(/,/g, "").replace("\u2212", "-"));
  return Number.isNaN(figure) ? said : figure;
};
for (const table of document.querySelectorAll("table")) {
  const body = table.tBodies[0];
  if (!body || body.rows.length < 2) continue;
  const heads = [...(table.tHead?.rows[0]?.cells || [])];
  const asWritten = [...body.rows];
  const name = `sort.${table.closest("[aria-labelledby]")?.getAttribute("aria-labelledby") || ""}`;
  heads.forEach((head, column) => {
    if (!head.textContent?.trim()) return; // nothing to take hold of
    const button = make("button", { type: "button", class: "sort" });
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const descending = head.getAttribute("aria-sort") !== "descending";
      remember(name, `${descending ? "-" : ""}${column + 1}`);
    });
  });
  shows.set(name, (value) => {
    const column = Math.abs(Number(value)) - 1;
    const head = heads[column];
    for (const other of heads) other.removeAttribute("aria-sort");
    if (!head) return body.append(...asWritten);
    const sign = Number(value) < 0 ? -1 : 1;
    head.setAttribute("aria-sort", sign < 0 ? "descending" : "ascending");
    const rows = [...body.rows].sort((a, b) => {
      const [x, y] = [key(a.cells[column]), key(b.cells[column])];
      if (typeof x === "number" && typeof y === "number") return sign * (x - y);
      if (typeof x !== typeof y) return typeof x === "number" ? -1 : 1;
      return sign * String(x).localeCompare(String(y));
    });
    body.append(...rows);
  });
}

// ---- commands ----
for (const code of document.querySelectorAll(".first code, .steps code, .measure code, pre code")) {
  const button = make("button", { type: "button", class: "copy" }, "Copy");
  button.addEventListener("click", async () => {
    const command = code.textContent || "";
    try {
      await navigator.clipboard.writeText(command);
    } catch {
      // A page from a file may not: the selection may.
      const range = document.createRange();
      range.selectNodeContents(code);
      getSelection()?.removeAllRanges();
      getSelection()?.addRange(range);
      document.execCommand("copy");
    }
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), 1500);
  });
  (code.closest("pre") || code).after(button);
}
