// @ts-check
// ---- flame graphs: drawn anew from the samples, so that they can be explored ----

/** @typedef {{ name: number, weight: number, own: number, before: number, calls: Map<number, Box>,
 *   caller: Box | null, function: number }} Box shares of all samples */
/** @typedef {{ box: Box, x: number, width: number, row: number, group: Element, rect: Element }} Drawn */

const ROW = 18;
const CHARACTER = 6.6; // width of one
const STEM = 0.99; // share from which outermost functions in common are one row
const LISTED = 12; // rows of a table of functions
const percentOf = (/** @type {number} */ share) => `${(100 * share).toFixed(1)}%`;
const pointsOf = (/** @type {number} */ change) => `${change >= 0 ? "+" : "−"}${Math.abs(100 * change).toFixed(1)} points`;
const tenth = (/** @type {number} */ value) => String(Math.round(value * 10) / 10);
const drawing = (/** @type {string} */ name, /** @type {Record<string, string>} */ attributes = {}, text = "") => {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.textContent = text;
  return element;
};

/** Boxes from the outermost function, or from the sampled one back to its callers.
 * @param {Profiles} profiles
 * @param {Shown} shown
 * @param {Shown | undefined} against
 * @param {boolean} inverted
 * @returns {Box} what holds the outermost
 */
const boxesOf = ({ parents, functions, names }, shown, against, inverted) => {
  /** @param {Box | null} caller
   * @param {number} name
   * @param {number} at
   * @returns {Box}
   */
  const box = (caller, name, at) => ({ name, weight: 0, own: 0, before: 0, calls: new Map(), caller, function: at });
  const whole = box(null, -1, -1);
  /** @param {Box} caller
   * @param {number} node
   */
  const child = (caller, node) => {
    const name = names[functions[node]];
    let found = caller.calls.get(name);
    if (!found) caller.calls.set(name, (found = box(caller, name, functions[node])));
    return found;
  };
  const [all, allBefore] = [samplesOf(shown) || 1, against ? samplesOf(against) || 1 : 1];
  for (let leaf = 0; leaf < parents.length; leaf++) {
    const [weight, before] = [shown.own[leaf] / all, against ? against.own[leaf] / allBefore : 0];
    if (!weight && !before) continue;
    const chain = [];
    for (let node = leaf; node >= 0; node = parents[node]) chain.push(node);
    if (!inverted) chain.reverse();
    let at = whole;
    whole.weight += weight;
    whole.before += before;
    for (const node of chain) {
      at = child(at, node);
      at.weight += weight;
      at.before += before;
    }
    at.own += weight;
  }
  return whole;
};

/** @param {Box} box
 * @param {(box: Box) => number} [weight]
 */
const widestFirst = (box, weight = (one) => one.weight) => [...box.calls.values()].sort((a, b) => weight(b) - weight(a));

/** Renew the profiles that are on offer.
 * @type {(() => void)[]}
 */
const offered = [];

/** @param {Element} figure
 * @param {Profiles} profiles
 */
const explore = (figure, profiles) => {
  const picture = /** @type {SVGSVGElement} */ (figure.querySelector("svg.flame"));
  const room = /** @type {HTMLElement} */ (picture.parentElement);
  room.classList.add("drawn");
  room.removeAttribute("tabindex");
  const { file } = profiles;
  const group = figure.getAttribute("data-group") || "";
  const first = wholeOf(profiles, group) || profiles.views[0];
  const firstAgainst = wholeOf(profiles, figure.getAttribute("data-against") || undefined)?.name || "";
  const nameOf = (/** @type {number} */ name) => (name < 0 ? "" : file.functions[name][0]);

  // ---- controls ----
  const key = (/** @type {string} */ what) => `${what}.${figure.id}`;
  const select = (/** @type {string} */ label) => {
    const one = /** @type {HTMLSelectElement} */ (make("select"));
    const named = make("label", {}, `${label} `);
    named.append(one);
    return { one, named };
  };
  const [which, against] = [select("Profile"), select("against")];
  const search = /** @type {HTMLInputElement} */ (
    make("input", { type: "search", placeholder: "function", "aria-label": "Search functions" })
  );
  const invert = make("button", { type: "button", "aria-pressed": "false" }, "Invert");
  const whole = make("button", { type: "button", class: "whole", hidden: "" }, "Show the whole");
  const found = make("span", { class: "remark", role: "status" });
  const bar = make("p", { class: "controls" });
  bar.append(which.named, " ", against.named, " ", search, " ", invert, " ", whole, " ", found);
  figure.querySelector("h3, h4")?.after(bar);
  const list = make("div", { class: "functions" });
  const saving = make("p", { class: "controls" });
  room.after(list, saving);
  const legends = /** @type {Element} */ (figure.querySelector(".legend"));
  const families = [...legends.children];
  const compared = ["look-more more than before", "look-less less", "look-none as before"].map((entry) => {
    const [look, ...words] = entry.split(" ");
    const item = make("li");
    const swatch = drawing("svg", { class: "swatch", viewBox: "0 0 28 14", "aria-hidden": "true" });
    const colour = drawing("g", { class: look });
    colour.append(drawing("rect", { x: "2", y: "1", width: "24", height: "12", "fill-opacity": "0.4" }));
    swatch.append(colour);
    item.append(swatch, ` ${words.join(" ")}`);
    return item;
  });
  const offer = () => {
    const options = (/** @type {string} */ none) => {
      const all = profiles.views.map(({ name }) => make("option", { value: name }, name));
      return none ? [make("option", { value: "" }, none), ...all] : all;
    };
    which.one.replaceChildren(...options(""));
    against.one.replaceChildren(...options("nothing"));
  };
  offer();

  // ---- the state, which is in the address ----
  const state = { shown: first, against: /** @type {Shown | undefined} */ (undefined), inverted: false, wanted: "", path: "", chosen: -1 };
  const viewNamed = (/** @type {string | null} */ name) => profiles.views.find((one) => one.name === name);
  const byName = (/** @type {string | null} */ name) => file.functions.findIndex(([symbol]) => symbol === name);
  shows.set(key("profile"), (value) => (state.shown = viewNamed(value) || first));
  shows.set(key("against"), (value) => (state.against = viewNamed(value === null ? firstAgainst : value)));
  shows.set(key("invert"), (value) => (state.inverted = value === "1"));
  shows.set(key("find"), (value) => (state.wanted = value || ""));
  shows.set(key("zoom"), (value) => (state.path = value || ""));
  shows.set(key("function"), (value) => (state.chosen = byName(value)));
  which.one.addEventListener("change", () => remember(key("profile"), which.one.value === first.name ? "" : which.one.value));
  against.one.addEventListener("change", () => {
    const chosen = against.one.value;
    remember(key("against"), chosen === firstAgainst ? "" : chosen || "nothing");
  });
  // A stretch of the one is none of the other.
  invert.addEventListener("click", () => rememberAll({ [key("zoom")]: "", [key("invert")]: state.inverted ? "" : "1" }));
  whole.addEventListener("click", () => remember(key("zoom"), ""));
  search.addEventListener("input", () => remember(key("find"), search.value, true));
  const choose = (/** @type {number} */ name) => remember(key("function"), nameOf(name));

  // ---- the picture ----
  /** @type {Drawn[]} */
  let drawn = [];
  /** @type {Drawn | undefined} */
  let at;
  /** @type {Box} */
  let tree = boxesOf(profiles, first, undefined, false);
  let built = "";
  const pathOf = (/** @type {Box} */ box) => {
    const path = [];
    for (let one = box; one.caller; one = one.caller) path.push(one.name);
    return path.reverse().join(".");
  };
  const told = (/** @type {Box} */ box) => {
    const [name, object, category] = file.functions[box.function];
    const before = state.against ? `, before ${percentOf(box.before)} (${pointsOf(box.weight - box.before)})` : "";
    const own = state.inverted || box.own < 0.0005 ? "" : `, of which ${percentOf(box.own)} by itself`;
    return `${name}: ${percentOf(box.weight)}${own}${before}; ${file.classes[category]?.[0] || "other"}${object ? `, in ${object}` : ""}`;
  };
  /** The look of a box, and how strong it is where that says something.
   * @param {Box} box
   * @returns {[string, string]}
   */
  const lookOf = (box) => {
    if (!state.against) return [file.classes[file.functions[box.function][2]]?.[1] || "look-none", "0.3"];
    const change = box.weight - box.before;
    const look = change > 0.002 ? "look-more" : change < -0.002 ? "look-less" : "look-none";
    return [look, look === "look-none" ? "0.12" : (0.15 + Math.min(0.6, Math.abs(change) * 4)).toFixed(2)];
  };
  const pick = (/** @type {Drawn | undefined} */ one) => {
    at?.rect.classList.remove("chosen");
    at = one;
    if (!one) return hide();
    one.rect.classList.add("chosen");
    show(one.rect);
  };
  const draw = () => {
    const width = Math.floor(room.clientWidth);
    if (width < 50) return; // folded away: drawn when it is opened
    const wanted = state.wanted.toLowerCase();
    const now = [state.shown.name, state.against?.name, state.inverted, profiles.parents.length].join("\n");
    if (now !== built) tree = boxesOf(profiles, state.shown, state.against, state.inverted);
    built = now;
    // Where the zoom leads, as far as there is such a box.
    let zoomed = tree;
    for (const name of state.path ? state.path.split(".").map(Number) : []) {
      const next = zoomed.calls.get(name);
      if (!next) break;
      zoomed = next;
    }
    const rows = /** @type {{ box: Box | null, x: number, width: number, row: number, label: string }[]} */ ([]);
    // Below a stretch stand those that lead to it; the outermost that all have in common are one row.
    const below = [];
    for (let one = zoomed; one.caller; one = one.caller) below.unshift(one);
    let start = zoomed;
    if (zoomed === tree && !state.inverted) {
      for (let [only, ...others] = widestFirst(start); only; [only, ...others] = widestFirst(start)) {
        const [next] = widestFirst(only);
        if (only.weight < STEM * start.weight || !next || next.weight < STEM * start.weight) break;
        below.push((start = only));
      }
    }
    if (zoomed === tree && below.length > 1) {
      rows.push({ box: below[below.length - 1], x: 0, width, row: 0, label: below.map((one) => nameOf(one.name)).join(" › ") });
    } else if (zoomed === tree) start = tree;
    else below.forEach((box, row) => rows.push({ box, x: 0, width, row, label: nameOf(box.name) }));
    let top = rows.length ? rows[rows.length - 1].row + 1 : 0;
    const scale = width / (start.weight || 1);
    const place = (/** @type {Box} */ box, /** @type {number} */ x, /** @type {number} */ row) => {
      for (const one of widestFirst(box)) {
        const wide = one.weight * scale;
        if (wide < 0.8) break;
        rows.push({ box: one, x, width: wide, row, label: nameOf(one.name) });
        place(one, x, row + 1);
        x += wide;
      }
    };
    place(start, 0, top);
    top = rows.reduce((most, one) => Math.max(most, one.row + 1), 1);
    const height = top * ROW + 2;
    picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
    drawn = [];
    const groups = rows.map(({ box, x, width: wide, row, label }) => {
      const one = /** @type {Box} */ (box);
      const y = state.inverted ? row * ROW + 1 : height - (row + 1) * ROW;
      const hit = !wanted || label.toLowerCase().includes(wanted);
      const [look, opacity] = lookOf(one);
      const shape = drawing("g", { class: hit ? look : `${look} dim` });
      const rect = drawing("rect", {
        x: tenth(x), y: tenth(y), width: tenth(Math.max(0.8, wide - 0.6)), height: String(ROW - 1),
        "fill-opacity": opacity, "data-tip": told(one),
      });
      shape.append(rect);
      const space = Math.floor((wide - 4) / CHARACTER);
      const text = space >= label.length ? label : space >= 4 ? `${label.slice(0, space - 1)}…` : "";
      if (text) shape.append(drawing("text", { x: tenth(x + 3), y: tenth(y + 12.5) }, text));
      drawn.push({ box: one, x, width: wide, row, group: shape, rect });
      return shape;
    });
    picture.replaceChildren(...[...picture.children].filter((one) => /^(title|desc)$/.test(one.tagName)), ...groups);
    hide();
    at = undefined;
    // ---- what stands beside it ----
    which.one.value = state.shown.name;
    against.one.value = state.against?.name || "";
    invert.setAttribute("aria-pressed", String(state.inverted));
    whole.hidden = zoomed === tree;
    if (search.value !== state.wanted) search.value = state.wanted;
    legends.replaceChildren(...(state.against ? compared : families));
    found.textContent = wanted ? matched(wanted) : "";
    tell(wanted);
  };
  /** How many functions have such a name, and how many samples lie in them.
   * @param {string} wanted
   */
  const matched = (wanted) => {
    const { parents, functions, names } = profiles;
    const hits = new Set(names.filter((name) => nameOf(name).toLowerCase().includes(wanted)));
    const within = parents.map(() => false);
    let share = 0;
    const here = new Set();
    state.shown.own.forEach((weight, node) => {
      const hit = hits.has(names[functions[node]]);
      within[node] = hit || (parents[node] >= 0 && within[parents[node]]);
      if (weight && within[node]) share += weight;
      if (weight) for (let one = node; one >= 0; one = parents[one]) if (hits.has(names[functions[one]])) here.add(names[functions[one]]);
    });
    return `${here.size} found, ${percentOf(share / (samplesOf(state.shown) || 1))} of the samples`;
  };

  // ---- functions: own, total, from, to ----
  /** @param {string} caption
   * @param {string[]} heads
   * @param {[number, number[]][]} rows
   */
  const table = (caption, heads, rows) => {
    const made = make("table");
    made.append(make("caption", {}, caption));
    const head = make("tr");
    heads.forEach((name, place) => head.append(make("th", { scope: "col", class: place ? "n" : "" }, name)));
    const thead = make("thead");
    thead.append(head);
    const body = make("tbody");
    for (const [name, figures] of rows) {
      const row = make("tr");
      const cell = make("th", { scope: "row" });
      if (name < 0) cell.textContent = "nothing: outermost";
      else {
        const button = make("button", { type: "button", class: "function" }, nameOf(name));
        button.addEventListener("click", () => choose(name));
        cell.append(button);
      }
      row.append(cell);
      figures.forEach((share, place) => {
        const change = heads[place + 1] === "change";
        row.append(make("td", { class: "n" }, change ? pointsOf(share) : percentOf(share)));
      });
      body.append(row);
    }
    made.append(thead, body);
    const scroll = make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption });
    scroll.append(made);
    return scroll;
  };
  const tell = (/** @type {string} */ wanted) => {
    const { each, from, to } = byFunction(profiles, state.shown, state.chosen);
    const before = state.against ? byFunction(profiles, state.against, state.chosen) : undefined;
    const beforeOf = (/** @type {number} */ name) => before?.each.get(name)?.own || 0;
    if (state.chosen >= 0) {
      const figures = each.get(profiles.names[state.chosen]) || { own: 0, total: 0 };
      const heading = make("p", { role: "status" });
      const all = make("button", { type: "button" }, "All functions");
      all.addEventListener("click", () => remember(key("function"), ""));
      heading.append(make("strong", {}, nameOf(state.chosen)));
      heading.append(`: ${percentOf(figures.own)} by itself, ${percentOf(figures.total)} with what it called. `, all);
      const ordered = (/** @type {Map<number, number>} */ map, /** @type {Map<number, number> | undefined} */ was) =>
        [...map].sort((a, b) => b[1] - a[1]).slice(0, LISTED).map(([name, share]) =>
          /** @type {[number, number[]]} */ ([name, was ? [share, share - (was.get(name) || 0)] : [share]]));
      const heads = (/** @type {string} */ name) => (before ? [name, "samples", "change"] : [name, "samples"]);
      const sides = make("div", { class: "sides" });
      sides.append(
        table("Who called it, by share of all samples", heads("from"), ordered(from, before?.from)),
        table("What it called, by share of all samples", heads("to"), ordered(to, before?.to)),
      );
      list.replaceChildren(heading, sides);
      return;
    }
    let names = [...each.keys()].filter((name) => !wanted || nameOf(name).toLowerCase().includes(wanted));
    if (before) for (const name of before.each.keys()) if (!each.has(name) && (!wanted || nameOf(name).toLowerCase().includes(wanted))) names.push(name);
    const own = (/** @type {number} */ name) => each.get(name)?.own || 0;
    const rank = (/** @type {number} */ name) => (before ? Math.abs(own(name) - beforeOf(name)) : own(name));
    names = names.sort((a, b) => rank(b) - rank(a)).slice(0, LISTED);
    const rows = names.map((name) => {
      const figures = [own(name), each.get(name)?.total || 0];
      return /** @type {[number, number[]]} */ ([name, before ? [...figures, own(name) - beforeOf(name)] : figures]);
    });
    const heads = before ? ["function", "own", "total", "change"] : ["function", "own", "total"];
    const caption = before ? "Functions whose own share changed most; choose one for its callers and callees" : "Functions by their own share; choose one for its callers and callees";
    list.replaceChildren(table(caption, heads, rows));
  };

  // ---- pointer, touch and keys ----
  const under = (/** @type {Event} */ event) => {
    const rect = /** @type {Element} */ (event.target).closest("rect");
    return drawn.find((one) => one.rect === rect);
  };
  const zoomTo = (/** @type {Drawn} */ one) =>
    rememberAll({ [key("function")]: nameOf(one.box.name), [key("zoom")]: pathOf(one.box) });
  picture.addEventListener("pointermove", (event) => pick(under(event)));
  picture.addEventListener("pointerleave", () => pick(undefined));
  picture.addEventListener("blur", () => pick(undefined));
  picture.addEventListener("click", (event) => {
    const one = under(event);
    if (one) zoomTo(one);
  });
  picture.setAttribute("tabindex", "0");
  picture.addEventListener("keydown", (event) => {
    const { key: pressed } = event;
    if (pressed === "/") {
      event.preventDefault();
      return search.focus();
    }
    if (pressed === "Enter" && at) return zoomTo(at);
    if (pressed === "Escape") return at ? pick(undefined) : whole.click();
    const inwards = { ArrowUp: 1, ArrowDown: -1 }[pressed];
    const aside = { ArrowRight: 1, ArrowLeft: -1 }[pressed];
    if (!inwards && !aside) return;
    event.preventDefault();
    const now = at;
    if (!now) return pick(drawn[0]);
    if (aside) {
      const row = drawn.filter((one) => one.row === now.row).sort((a, b) => a.x - b.x);
      return pick(row[Math.max(0, Math.min(row.length - 1, row.indexOf(now) + aside))]);
    }
    const step = (inwards || 0) * (state.inverted ? -1 : 1);
    const middle = now.x + 0.5;
    const next = drawn.filter((one) => one.row === now.row + step && (step > 0 ? one.x >= now.x - 0.5 && one.x < now.x + now.width : one.x <= middle && middle <= one.x + one.width));
    pick(next[0] || now);
  });

  // ---- for other programs, and from other runs ----
  const button = (/** @type {string} */ words, /** @type {() => void} */ act) => {
    const made = make("button", { type: "button" }, words);
    made.addEventListener("click", act);
    return made;
  };
  const from = /** @type {HTMLInputElement} */ (make("input", { type: "file", accept: ".json,application/json" }));
  const label = make("label", {}, "Against another run, saved for speedscope: ");
  label.append(from);
  const failed = make("span", { class: "remark", role: "status" });
  from.addEventListener("change", async () => {
    const chosen = from.files?.[0];
    if (!chosen) return;
    try {
      const name = takeIn(profiles, await chosen.text(), chosen.name);
      failed.textContent = "";
      for (const renew of offered) renew();
      remember(key("against"), name);
      showView();
    } catch (why) {
      failed.textContent = `This file can't be read: ${why instanceof Error ? why.message : why}.`;
    }
  });
  saving.append(
    button("Save for speedscope", () => save(toSpeedscope(profiles), "pgassay.speedscope.json")), " ",
    button("Save for the Firefox Profiler", () => save(toFirefox(profiles), "pgassay.firefox.json")), " ",
    label, " ", failed,
  );
  offered.push(offer);
  settled.push(draw);
  new ResizeObserver(draw).observe(room);
};

/** What decompresses, where a browser has it. */
const Decompression = /** @type {any} */ (window).DecompressionStream;
/** The samples that a page holds: JSON, compressed, in base64.
 * @param {Element} data
 * @returns {Promise<ProfileData>}
 */
const unpacked = (data) => {
  const bytes = Uint8Array.from(atob(data.textContent || ""), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new Decompression("deflate"))).json();
};
/** Makes the flame graphs explorable; without decompression they stay as they were written. */
const exploreAll = async () => {
  /** @type {Map<Element, Profiles>} */
  const read = new Map();
  for (const figure of document.querySelectorAll("figure.flamegraph")) {
    const part = figure.closest("article") || document.body;
    const data = part.querySelector("script.profiles");
    if (!data || !Decompression) continue;
    if (!read.has(data)) read.set(data, readProfiles(await unpacked(data)));
    explore(figure, /** @type {Profiles} */ (read.get(data)));
  }
};
