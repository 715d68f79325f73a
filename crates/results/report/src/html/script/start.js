// @ts-check
// ---- the view of the address that was opened ----
exploreAll().finally(() => {
  addEventListener("hashchange", showView);
  showView();
  const about = [...view()].map(([name, value]) => (name === "at" ? document.getElementById(value) : subject(name)));
  for (const element of about) reveal(element);
});
