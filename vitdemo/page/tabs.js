// Keeps the open tab in the address (?tab=compare), so that the browser's Back button returns to the
// previous tab. Called once when the page has loaded.
() => {
  const labels = LABELS; // tab labels by id
  const first = Object.keys(labels)[0];
  const strip = document.querySelector("#tabs [role=tablist]");
  // On a narrow page, some tabs are menu buttons without an id.
  const menu = () => [...strip.parentElement.querySelectorAll(".overflow-dropdown button")];
  const asked = () => {
    const id = new URLSearchParams(window.location.search).get("tab");
    return Object.hasOwn(labels, id ?? "") ? id : first;
  };
  const shown = () => {
    const tab = strip.querySelector("[aria-selected=true]");
    const label = menu().find((button) => button.matches(".selected"))?.textContent.trim();
    return tab?.dataset.tabId ?? Object.keys(labels).find((id) => labels[id] === label) ?? first;
  };
  const address = (search, id) => {
    const query = new URLSearchParams(search);
    if (id === first) query.delete("tab");
    else query.set("tab", id);
    const text = query.toString().replaceAll("%3A", ":");
    return text ? "?" + text : window.location.pathname;
  };
  const open = (id) => {
    if (id === shown()) return;
    const inMenu = (button) => button.textContent.trim() === labels[id];
    (strip.querySelector(`[data-tab-id="${id}"]`) ?? menu().find(inMenu))?.click();
  };
  // Remove an unknown tab from the address, and keep the parameters of the tab Explore.
  const tidy = () => {
    const search = window.vdLook ?? window.location.search;
    history.replaceState(null, "", address(search, asked()));
  };
  tidy();
  open(asked());
  document.addEventListener("vitdemo:visit", () => open(asked()));
  window.addEventListener("popstate", () => {
    tidy();
    open(asked());
    // Move the focus if it is in a tab that was closed.
    requestAnimationFrame(() => {
      if (!document.activeElement?.offsetParent)
        strip.querySelector("[aria-selected=true]")?.focus();
    });
  });
  // Update the address as soon as another tab is visible, since gradio's own event comes too late.
  new MutationObserver(() => {
    if (shown() === asked()) return;
    history.pushState(null, "", address(window.location.search, shown()));
  }).observe(strip.parentElement, { subtree: true, attributeFilter: ["aria-selected", "class"] });
}
