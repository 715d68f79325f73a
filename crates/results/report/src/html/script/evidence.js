// @ts-check
// ---- evidence: what a point rests on, beside the page ----

const drawer = /** @type {HTMLDialogElement} */ (make("dialog", { class: "drawer", "aria-labelledby": "drawer-heading" }));
const drawerHeading = make("h2", { id: "drawer-heading" });
const drawerClose = make("button", { type: "button" }, "Close");
const drawerBody = make("div");
const drawerHead = make("p", { class: "controls" });
drawer.append(drawerHeading, drawerHead, drawerBody);
document.body.append(drawer);
/** What is shown, and where it belongs.
 * @type {{ content: Element, home: Element } | undefined}
 */
let opened;

/** Where a profile is drawn.
 * @param {Element} home
 * @param {string} profile
 */
const drawnIn = (home, profile) => {
  const part = home.closest("article") || document;
  const figures = [...part.querySelectorAll("figure.flamegraph")];
  return figures.find((figure) => profile.startsWith(`${figure.getAttribute("data-group")}, `));
};
const putBack = () => {
  opened?.home.append(opened.content);
  opened = undefined;
};
shows.set("point", (id) => {
  const content = id ? document.getElementById(id) : null;
  if (opened && content === opened.content) return;
  putBack();
  const home = content?.closest("details.evidence");
  if (!content || !home) return drawer.close();
  drawerHeading.textContent = home.querySelector("summary")?.textContent || "";
  drawerHead.replaceChildren(drawerClose);
  const profile = content.getAttribute("data-profile");
  const figure = profile && drawnIn(home, profile);
  if (figure) {
    const flame = make("button", { type: "button" }, "Its flame graph");
    flame.addEventListener("click", () => {
      rememberAll({ point: "", [`profile.${figure.id}`]: profile });
      reveal(figure);
    });
    drawerHead.append(" ", flame);
  }
  for (const link of content.querySelectorAll("a[data-see]")) {
    const see = make("button", { type: "button" }, link.textContent || "");
    see.addEventListener("click", () => {
      remember("point", "");
      reveal(document.getElementById(link.getAttribute("data-see") || ""));
    });
    drawerHead.append(" ", see);
  }
  opened = { content, home };
  drawerBody.append(content);
  if (!drawer.open) drawer.showModal();
  drawerBody.scrollTop = 0;
});
drawerClose.addEventListener("click", () => drawer.close());
drawer.addEventListener("close", () => {
  putBack();
  if (view().has("point")) remember("point", "");
});
// Beside it is the page, which a click leads back to.
drawer.addEventListener("click", (event) => {
  if (event.target === drawer) drawer.close();
});
document.addEventListener(
  "click",
  (event) => {
    const link = /** @type {Element} */ (event.target).closest?.('a[href*="point-"]');
    const id = link?.getAttribute("href")?.slice(1) || "";
    if (!id || !document.getElementById(id)?.closest("details.evidence, dialog")) return;
    event.preventDefault();
    event.stopPropagation();
    remember("point", id);
  },
  true,
);
