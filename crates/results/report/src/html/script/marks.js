// @ts-check
// ---- marks ----
const tip = make("div", { class: "tip", role: "status" });
document.body.append(tip);
const hide = () => tip.classList.remove("shown");
/** The name of what a mark rests on, if the page has it.
 * @param {Element} mark
 */
const evidenceOf = (mark) => {
  const id = mark.getAttribute("data-evidence");
  return id && document.getElementById(id) ? id : "";
};
/** Shows what a mark says beside it.
 * @param {Element} mark
 */
const show = (mark) => {
  const said = mark.getAttribute("data-tip");
  if (!said) return;
  tip.textContent = evidenceOf(mark) ? `${said}. Click for what it rests on.` : said;
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
/** Divides a path that draws the marks of a series, which begin with a move each, into those marks.
 * @param {Element} all
 * @param {string} name
 */
const divide = (all, name) => {
  const tips = all.getAttribute("data-tips")?.split("\n") || [];
  const evidence = all.getAttribute("data-evidence")?.split(" ") || [];
  const places = (all.getAttribute("d") || "").split("M").slice(1);
  const each = places.map((place, at) => {
    const mark = document.createElementNS("http://www.w3.org/2000/svg", "path");
    mark.setAttribute("class", name);
    mark.setAttribute("d", `M${place}`);
    if (tips[at]) mark.setAttribute("data-tip", tips[at]);
    if (evidence[at]) mark.setAttribute("data-evidence", evidence[at]);
    return mark;
  });
  all.replaceWith(...each);
};
/** Lays an area that says something over each column of a heat map.
 * @param {Element} cells
 * @param {Element | null} over
 */
const layColumns = (cells, over) => {
  const tips = cells.getAttribute("data-tips")?.split("\n") || [];
  const begins = (cells.getAttribute("data-begins") || "").split(" ").map(Number);
  tips.forEach((tip, at) => {
    const area = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    const width = (begins[at + 1] ?? begins[at] + 1) - begins[at];
    const measures = { x: begins[at], y: -0.5, width, height: cells.getAttribute("data-rows"), "data-tip": tip };
    for (const [key, value] of Object.entries(measures)) area.setAttribute(key, String(value));
    over?.append(area);
  });
};
/** The marks of a picture, whether it says what they mean or another of its size does.
 * @param {Element} picture
 */
const marksOf = (picture) => {
  for (const all of picture.querySelectorAll("path.dots")) divide(all, "dot");
  for (const all of picture.querySelectorAll("path.estimates")) divide(all, "estimate");
  const cells = picture.closest("figure")?.querySelector(".cells");
  if (cells) layColumns(cells, picture.querySelector(".heat"));
  for (const title of picture.querySelectorAll("path > title, rect > title")) {
    title.parentElement?.setAttribute("data-tip", title.textContent || "");
    title.remove(); // the browser's own tip would stand beside ours
  }
  const copied = picture.parentElement?.matches(".narrow") ? [...(picture.closest("figure")?.querySelectorAll(".wide [data-tip]") || [])] : [];
  const bare = [...picture.querySelectorAll(".dot, .estimate, .bars rect")].filter((mark) => !mark.hasAttribute("data-tip"));
  if (bare.length === copied.length) {
    bare.forEach((mark, at) => {
      for (const name of ["data-tip", "data-evidence"]) {
        const value = copied[at].getAttribute(name);
        if (value) mark.setAttribute(name, value);
      }
    });
  }
  const marks = [...picture.querySelectorAll("[data-tip]")];
  // A trial's evidence is its point's: the nearest in its row.
  const middle = (/** @type {Element} */ mark) => Number(/M([\d.]+)/.exec(mark.getAttribute("d") || "")?.[1]);
  const points = marks.filter((mark) => mark.matches(".estimate[data-evidence]"));
  for (const dot of marks.filter((mark) => mark.matches(".dot") && points.length)) {
    const look = dot.parentElement?.getAttribute("class");
    const away = (/** @type {Element} */ one) => Math.abs(middle(one) - middle(dot)) + (one.parentElement?.getAttribute("class") === look ? 0 : 1e6);
    const nearest = points.reduce((best, one) => (away(one) < away(best) ? one : best));
    dot.setAttribute("data-evidence", nearest.getAttribute("data-evidence") || "");
  }
  return marks;
};
const NEAR = 28; // CSS pixels from which a mark is taken
for (const picture of document.querySelectorAll("svg.chart:not(.flame)")) {
  const marks = marksOf(picture);
  if (!marks.length) continue;
  const areas = marks[0].tagName === "rect";
  // A cross leads from the chosen mark to the axes.
  const cross = document.createElementNS("http://www.w3.org/2000/svg", "path");
  cross.setAttribute("class", "cross");
  if (!areas) picture.append(cross);
  /** @param {Element | undefined} mark */
  const lead = (mark) => {
    // Hidden pictures have no measures: those of the other width.
    const lines = [...picture.querySelectorAll(".axes .grid")].map((line) => /** @type {SVGGraphicsElement} */ (line).getBBox());
    if (!mark || areas || !lines.length) return cross.removeAttribute("d");
    const { x, y, width, height } = /** @type {SVGGraphicsElement} */ (mark).getBBox();
    const left = Math.min(...lines.map((line) => line.x));
    const right = Math.max(...lines.map((line) => line.x + line.width));
    const bottom = Math.max(...lines.map((line) => line.y + line.height));
    const top = Math.min(...lines.map((line) => line.y));
    const [mx, my] = [x + width / 2, y + height / 2];
    cross.setAttribute("d", `M${left} ${my}H${right}M${mx} ${top}V${bottom}`);
  };
  let at = -1;
  /** @param {Element | undefined} mark */
  const choose = (mark) => {
    if (at >= 0) marks[at].classList.remove("chosen");
    at = mark ? marks.indexOf(mark) : -1;
    lead(mark);
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
  if (figure) {
    const name = `mark.${figure.id}`;
    /** Shows what the chosen mark rests on; where that is not there, keeps the mark in the address. */
    const take = () => {
      if (at < 0) return;
      const id = evidenceOf(marks[at]);
      if (id) remember("point", id);
      else remember(name, String(at));
    };
    picture.addEventListener("click", take);
    picture.addEventListener("keydown", (event) => {
      if (/** @type {KeyboardEvent} */ (event).key === "Enter") take();
    });
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
