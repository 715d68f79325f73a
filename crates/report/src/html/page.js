// @ts-check
// What a page can do where scripts run: marks that are read by pointer, touch and keys; flame
// graphs that zoom and search; tables that sort; commands that copy. What is shown so is in the
// address, after its #: a view can be pasted, and the browser goes back. Without it the page is whole.
// It asks nothing of any network, keeps nothing, and makes elements only, never markup from text.

/** @param {string} name @param {Record<string, string>} [attributes] @param {string} [text] */
const make = (name, attributes = {}, text = "") => {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.textContent = text;
  return element;
};

// ---- the view in the address: #view&NAME=VALUE&... ----
const VIEW = "#view&";
/** What shows a value, by its name; nothing is the look without a script.
 * @type {Map<string, (value: string | null) => void>} */
const shows = new Map();
const view = () => new URLSearchParams(location.hash.startsWith(VIEW) ? location.hash.slice(VIEW.length) : "");
/** Writes a value into the address, which shows it. @param {string} name @param {string} value
 * @param {boolean} [instead] in place of the last view, where going back would be tedious */
const remember = (name, value, instead = false) => {
  const now = view();
  now.delete("at");
  if (value) now.set(name, value);
  else now.delete(name);
  const hash = VIEW + now.toString();
  if (instead) location.replace(hash);
  else location.hash = hash;
};
const showView = () => {
  const now = view();
  for (const [name, show] of shows) show(now.get(name));
};
/** What a value of the view is about. @param {string} name */
const subject = (name) => document.getElementById(name.slice(name.indexOf(".") + 1));
// A link within the page keeps the view.
document.addEventListener("click", (event) => {
  const link = /** @type {Element} */ (event.target).closest?.('a[href^="#"]');
  if (!link || !view().toString()) return;
  const to = (link.getAttribute("href") || "").slice(1);
  const now = view();
  now.set("at", to);
  event.preventDefault();
  location.hash = VIEW + now.toString();
  document.getElementById(to)?.scrollIntoView();
});

// ---- marks ----
const tip = make("div", { class: "tip", role: "status" });
document.body.append(tip);
const hide = () => tip.classList.remove("shown");
/** Shows what a mark says beside it. @param {Element} mark */
const show = (mark) => {
  const said = mark.getAttribute("data-tip");
  if (!said) return;
  tip.textContent = said;
  tip.classList.add("shown");
  const box = mark.getBoundingClientRect();
  const middle = box.left + box.width / 2 - tip.offsetWidth / 2;
  const left = Math.max(4, Math.min(middle, document.documentElement.clientWidth - tip.offsetWidth - 4));
  const above = box.top - tip.offsetHeight - 8;
  tip.style.left = `${left + scrollX}px`;
  tip.style.top = `${(above > 0 ? above : box.bottom + 8) + scrollY}px`;
};
/** @param {Element} mark */
const centre = (mark) => {
  const box = mark.getBoundingClientRect();
  return [box.left + box.width / 2, box.top + box.height / 2];
};
const NEAR = 28; // CSS pixels from which a mark is taken
for (const picture of document.querySelectorAll("svg.chart")) {
  const titles = [...picture.querySelectorAll("path > title, rect > title")];
  const marks = titles.map((title) => {
    const mark = /** @type {Element} */ (title.parentElement);
    mark.setAttribute("data-tip", title.textContent || "");
    title.remove(); // the browser's own tip would stand beside ours
    return mark;
  });
  if (!marks.length) continue;
  const areas = marks[0].tagName === "rect";
  let at = -1;
  /** @param {Element | undefined} mark */
  const choose = (mark) => {
    if (at >= 0) marks[at].classList.remove("chosen");
    at = mark ? marks.indexOf(mark) : -1;
    if (!mark) return hide();
    mark.classList.add("chosen");
    show(mark);
  };
  const point = (/** @type {Event} */ event) => {
    const { clientX, clientY, target } = /** @type {PointerEvent} */ (event);
    if (areas) {
      const over = /** @type {Element} */ (target).closest("[data-tip]");
      return choose(over && picture.contains(over) ? over : undefined);
    }
    let nearest, least = NEAR;
    for (const mark of marks) {
      const [x, y] = centre(mark);
      const distance = Math.hypot(x - clientX, y - clientY);
      if (distance < least) [nearest, least] = [mark, distance];
    }
    choose(nearest);
  };
  const figure = picture.closest("figure");
  if (figure && !picture.classList.contains("flame")) {
    const name = `mark.${figure.id}`;
    picture.addEventListener("click", () => at >= 0 && remember(name, String(at)));
    const before = shows.get(name);
    shows.set(name, (value) => {
      before?.(value); // the picture for the other width
      if (!picture.getClientRects().length) return;
      if (value !== null) choose(marks[Number(value)]);
      else if (at >= 0) choose(undefined);
    });
  }
  picture.addEventListener("pointermove", point);
  picture.addEventListener("pointerdown", point);
  picture.addEventListener("pointerleave", () => choose(undefined));
  picture.addEventListener("blur", () => choose(undefined));
  // Keys walk over the estimates, or the areas, from left to right.
  const estimates = marks.filter((mark) => areas || mark.classList.contains("estimate"));
  const walked = estimates.length ? estimates : marks;
  picture.setAttribute("tabindex", "0");
  picture.addEventListener("keydown", (event) => {
    const { key } = /** @type {KeyboardEvent} */ (event);
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[key];
    if (key === "Escape") return choose(undefined);
    if (!step) return;
    event.preventDefault();
    const now = at < 0 ? -1 : walked.indexOf(marks[at]);
    const next = now < 0 ? (step > 0 ? 0 : walked.length - 1) : now + step;
    choose(walked[Math.max(0, Math.min(next, walked.length - 1))]);
  });
}

// ---- flame graphs ----
const CHARACTER = 6.6; // width of one, in the picture's units
const tenth = (/** @type {number} */ value) => String(Math.round(value * 10) / 10);
for (const figure of document.querySelectorAll("figure:has(svg.flame)")) {
  const search = /** @type {HTMLInputElement} */ (
    make("input", { type: "search", placeholder: "function", "aria-label": "Search functions" })
  );
  const found = make("span", { class: "remark", role: "status" });
  const whole = make("button", { type: "button", hidden: "" }, "Show the whole");
  const bar = make("p", { class: "controls" });
  bar.append(search, " ", whole, " ", found);
  figure.querySelector("h3")?.after(bar);
  const [zoomed, searched] = [`zoom.${figure.id}`, `find.${figure.id}`];
  /** Show a stretch, in shares of the whole. @type {((from: number, span: number) => void)[]} */
  const stretch = [];
  /** Mark what has such a name. @type {((wanted: string) => void)[]} */
  const find = [];
  for (const picture of figure.querySelectorAll("svg.flame")) {
    const width = /** @type {SVGSVGElement} */ (picture).viewBox.baseVal.width;
    const boxes = [...picture.querySelectorAll("g")].flatMap((group) => {
      const rect = group.querySelector("rect");
      if (!rect) return [];
      const [x, y, w] = ["x", "y", "width"].map((name) => Number(rect.getAttribute(name)));
      const name = (rect.getAttribute("data-tip") || "").replace(/: [\d.]+ %.*$/, "");
      let label = group.querySelector("text");
      if (!label) {
        label = document.createElementNS("http://www.w3.org/2000/svg", "text");
        label.setAttribute("y", String(y + 12.5));
        group.append(label);
      }
      return [{ group, rect, label, name, x, y, w }];
    });
    /** @param {number} from @param {number} span */
    const draw = (from, span) => {
      const scale = width / span;
      for (const { group, rect, label, name, x, w } of boxes) {
        const left = Math.max(0, (x - from) * scale);
        const right = Math.min(width, (x - from + w) * scale);
        const gone = right - left < 0.75;
        group.setAttribute("visibility", gone ? "hidden" : "visible");
        if (gone) continue;
        rect.setAttribute("x", tenth(left));
        rect.setAttribute("width", tenth(right - left));
        const room = Math.floor((right - left - 4) / CHARACTER);
        label.setAttribute("x", tenth(left + 3));
        label.textContent =
          room >= name.length ? name : room >= 4 ? `${name.slice(0, room - 1)}…` : "";
      }
      whole.hidden = span >= width - 1;
    };
    stretch.push((from, span) => draw(from * width, Math.max(span * width, 1)));
    const zoom = (/** @type {Element} */ rect) => {
      const box = boxes.find((one) => one.rect === rect);
      if (box) remember(zoomed, `${(box.x / width).toFixed(5)} ${(box.w / width).toFixed(5)}`);
    };
    picture.addEventListener("click", (event) => zoom(/** @type {Element} */ (event.target)));
    picture.addEventListener("keydown", (event) => {
      const chosen = picture.querySelector(".chosen");
      if (/** @type {KeyboardEvent} */ (event).key === "Enter" && chosen) zoom(chosen);
    });
    find.push((wanted) => {
      const hits = boxes.filter((box) => wanted && box.name.toLowerCase().includes(wanted));
      for (const box of boxes) box.group.classList.toggle("dim", !!wanted && !hits.includes(box));
      // What lies within another hit is a part of it.
      const outer = hits.filter(
        (box) => !hits.some((o) => o !== box && o.y > box.y && o.x <= box.x + 0.1 && box.x + box.w <= o.x + o.w + 0.7),
      );
      const share = outer.reduce((sum, box) => sum + box.w, 0) / width;
      found.textContent = wanted ? `${hits.length} found, ${(100 * share).toFixed(1)} % of the samples` : "";
    });
  }
  whole.addEventListener("click", () => remember(zoomed, ""));
  search.addEventListener("input", () => remember(searched, search.value, true));
  shows.set(zoomed, (value) => {
    const [from, span] = (value || "0 1").split(" ").map(Number);
    if (from >= 0 && span > 0) stretch.forEach((one) => one(from, span));
  });
  shows.set(searched, (value) => {
    if (search.value !== (value || "")) search.value = value || "";
    find.forEach((one) => one((value || "").toLowerCase()));
  });
}

// ---- tables ----
/** What a cell is sorted by: its first figure, else its words. @param {Element | undefined} cell */
const key = (cell) => {
  const said = (cell?.firstChild?.textContent || "").trim();
  const figure = Number.parseFloat(said.replace(/,/g, ""));
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
for (const code of document.querySelectorAll(".first code, .steps code, pre code")) {
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

// ---- the view of the address that was opened ----
addEventListener("hashchange", showView);
if (view().toString()) {
  showView();
  const about = [...view()].map(([name, value]) => (name === "at" ? document.getElementById(value) : subject(name)));
  for (const element of about) element?.closest("details")?.setAttribute("open", "");
  about.reverse().find((element) => element)?.scrollIntoView();
}
