// @ts-check
// What the pages of pgassay serve add to a report's: a list that is searched while one types, and a
// run that is followed. It asks only the server that the page came from. What that sends is markup of
// our own making, in which every foreign text is escaped.

/** What a form sends.
 * @param {HTMLFormElement} form */
const fieldsOf = (form) => {
  const values = new URLSearchParams();
  for (const [name, value] of new FormData(form)) values.append(name, String(value));
  return values;
};

// ---- a run that is measured now ----
const live = document.getElementById("live");
const state = document.getElementById("feed-state");
if (live && live.dataset.feed) {
  const feed = new EventSource(live.dataset.feed);
  /** @param {string} text @param {boolean} [lost] */
  const say = (text, lost = false) => {
    if (!state || state.textContent === text) return;
    state.textContent = text;
    state.classList.toggle("lost", lost);
  };
  /** The parts as they came last: one that did not change keeps its place, the pointer and the keys.
   * @type {Map<string, string>} */
  const parts = new Map();
  feed.addEventListener("message", (event) => {
    const fresh = document.createElement("template");
    fresh.innerHTML = event.data;
    const top = scrollY;
    for (const part of fresh.content.children) {
      const text = part.innerHTML;
      const old = document.getElementById(part.id);
      if (!old || parts.get(part.id) === text) continue;
      parts.set(part.id, text);
      const focused = old.contains(document.activeElement) ? document.activeElement?.id : "";
      old.innerHTML = text;
      if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
    }
    scrollTo(scrollX, top);
    say("Live: read once a second.");
  });
  // What is asked of the run; that it was heard is seen in the page.
  live.addEventListener("submit", async (event) => {
    const form = /** @type {HTMLFormElement} */ (event.target);
    event.preventDefault();
    const answer = await fetch(form.action, { method: "POST", body: fieldsOf(form), redirect: "manual" }).catch(() => null);
    if (!answer?.ok && answer?.type !== "opaqueredirect") say("pgassay did not take that; load this page anew.", true);
  });
  feed.addEventListener("end", async () => {
    feed.close();
    // With --watch the server ends with what it measures.
    const there = await fetch(location.href).catch(() => null);
    if (there?.ok) location.reload();
    else say("The measurement has ended, and its pages with it: pgassay serve shows its report.");
  });
  feed.addEventListener("error", () => {
    say(feed.readyState === EventSource.CLOSED ? "Not live any more: load this page anew." : "pgassay serve does not answer; asking again …", true);
  });
}

// ---- what was started here ----
const output = document.getElementById("output");
if (output && output.dataset.feed) {
  const feed = new EventSource(output.dataset.feed);
  /** @param {MessageEvent} event */
  const show = (event) => {
    const said = output.querySelector(".said");
    const atEnd = !said || said.scrollTop + said.clientHeight >= said.scrollHeight - 4;
    const focused = said === document.activeElement;
    output.innerHTML = event.data;
    const now = /** @type {HTMLElement | null} */ (output.querySelector(".said"));
    if (now && atEnd) now.scrollTop = now.scrollHeight;
    if (now && focused) now.focus({ preventScroll: true });
  };
  feed.addEventListener("message", show);
  feed.addEventListener("end", (event) => {
    feed.close();
    show(event);
    document.getElementById("stop")?.remove();
  });
}

// ---- something that is waited for ----
const waiting = /** @type {HTMLElement | null} */ (document.querySelector("[data-waiting]"));
if (waiting) setTimeout(() => location.reload(), 1000 * Number(waiting.dataset.waiting));

// ---- the list ----
const filter = /** @type {HTMLFormElement | null} */ (document.getElementById("filter"));
const runs = document.getElementById("runs");
/** Runs that were chosen, also on other pages of the list. @type {Set<string>} */
const chosen = new Set(new URLSearchParams(location.search).getAll("pick"));
const MOST = 8; // runs that can be compared at once

/** Shows what is chosen, and how many. */
const showChosen = () => {
  if (!runs) return;
  for (const box of /** @type {NodeListOf<HTMLInputElement>} */ (runs.querySelectorAll("input[name=run]")))
    box.checked = chosen.has(box.value);
  const button = /** @type {HTMLButtonElement | null} */ (document.getElementById("compare"));
  if (!button) return;
  button.disabled = chosen.size < 2 || chosen.size > MOST;
  if (chosen.size > MOST) button.textContent = `Compare at most ${MOST} (${chosen.size} chosen)`;
  else button.textContent = chosen.size < 2 ? "Choose two runs or more to compare" : `Compare the ${chosen.size} chosen`;
};

/** What the form asks for, as an address. */
const wanted = () => {
  const values = new URLSearchParams();
  if (filter)
    for (const [name, value] of new FormData(filter)) if (value) values.set(name, String(value));
  return values;
};

let asked = 0;
/** Puts the rows for an address in place of those shown.
 * @param {string} address @param {boolean} keep it as the address of the page */
const load = async (address, keep) => {
  const turn = ++asked;
  const url = new URL(address, location.href);
  url.searchParams.set("part", "rows");
  const answer = await fetch(url).catch(() => null);
  if (turn !== asked || !runs) return;
  if (!answer || !answer.ok) {
    const count = runs.querySelector(".count");
    if (count) count.textContent = "pgassay serve does not answer.";
    return;
  }
  const rows = await answer.text();
  if (turn !== asked) return;
  runs.innerHTML = rows;
  if (keep) history.replaceState(null, "", address);
  showChosen();
  again();
};

/** Runs that are still being read come in by and by. */
const again = () => {
  if (runs?.querySelector("[data-unread]") && !document.hidden)
    setTimeout(() => load(location.pathname + location.search, false), 2000);
};

if (filter && runs) {
  let timer = 0;
  const soon = () => {
    clearTimeout(timer);
    timer = window.setTimeout(() => {
      const values = wanted().toString();
      load(filter.action + (values && `?${values}`), true);
    }, 200);
  };
  filter.addEventListener("input", soon);
  filter.addEventListener("submit", (event) => {
    event.preventDefault();
    soon();
  });
  runs.addEventListener("change", (event) => {
    const box = /** @type {HTMLInputElement} */ (event.target);
    if (box.name !== "run") return;
    if (box.checked) chosen.add(box.value);
    else chosen.delete(box.value);
    showChosen();
  });
  // Those that are chosen on other pages are sent, too.
  runs.addEventListener("submit", (event) => {
    event.preventDefault();
    const names = [...chosen].map((run) => `run=${encodeURIComponent(run)}`);
    const form = /** @type {HTMLFormElement} */ (event.target);
    location.assign(`${form.action}?${names.join("&")}`);
  });
  document.addEventListener("keydown", (event) => {
    const typing = /** @type {Element} */ (event.target).closest("input, select, textarea");
    if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    /** @type {HTMLInputElement | null} */ (filter.querySelector("input[type=search]"))?.select();
  });
  showChosen();
  again();
}
