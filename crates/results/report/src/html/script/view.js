// @ts-check
// What a page can do where scripts run: marks that are read by pointer, touch and keys; flame
// graphs that are explored; tables that sort; commands that copy. What is shown so is in the
// address, after its #: a view can be pasted, and the browser goes back. Without it the page is whole.
// It asks nothing of any network, keeps nothing, and makes elements only, never markup from text.
// This file, marks.js, evidence.js, profile.js, flame.js, tables.js and start.js are one module, in this order.

/** @param {string} name
 * @param {Record<string, string>} [attributes]
 * @param {string} [text]
 */
const make = (name, attributes = {}, text = "") => {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.textContent = text;
  return element;
};

// ---- the view in the address: #view&NAME=VALUE&... ----
const VIEW = "#view&";
/** What shows a value, by its name; nothing is the look without a script.
 * @type {Map<string, (value: string | null) => void>}
 */
const shows = new Map();
const view = () => new URLSearchParams(location.hash.startsWith(VIEW) ? location.hash.slice(VIEW.length) : "");
/** Writes a value into the address, which shows it.
 * @param {string} name
 * @param {string} value
 * @param {boolean} [instead] in place of the last view, where going back would be tedious
 */
const remember = (name, value, instead = false) => rememberAll({ [name]: value }, instead);
/** @param {Record<string, string>} values
 * @param {boolean} [instead]
 */
const rememberAll = (values, instead = false) => {
  const now = view();
  now.delete("at");
  for (const [name, value] of Object.entries(values)) {
    if (value) now.set(name, value);
    else now.delete(name);
  }
  const hash = VIEW + now.toString();
  if (instead) location.replace(hash);
  else location.hash = hash;
};
/** What follows once every value of the view is known.
 * @type {(() => void)[]}
 */
const settled = [];
const showView = () => {
  const now = view();
  for (const [name, show] of shows) show(now.get(name));
  for (const settle of settled) settle();
};
/** Opens what an element is folded into, and scrolls to it.
 * @param {Element | null | undefined} element
 */
const reveal = (element) => {
  for (let folded = element?.closest("details"); folded; folded = folded.parentElement?.closest("details")) folded.open = true;
  element?.scrollIntoView();
};
/** What a value of the view is about.
 * @param {string} name
 */
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
  reveal(document.getElementById(to));
});
