// The address names the open tab (?tab=compare), and the browser's Back returns to the one before.
// Called once, when the page is there.
() => {
  const labels = LABELS; // of the tabs, by id
  const first = Object.keys(labels)[0];
  const strip = document.querySelector("#tabs [role=tablist]");
  // On a narrow page some tabs are buttons of a menu, which have no id.
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
  // A tab that there is not is taken out of the address, and what Look shows stays in it.
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
    // The keyboard must not stay in a tab that is closed.
    requestAnimationFrame(() => {
      if (!document.activeElement?.offsetParent)
        strip.querySelector("[aria-selected=true]")?.focus();
    });
  });
  // As soon as another tab is seen, so that Back leads where one was; gradio's event comes later.
  new MutationObserver(() => {
    if (shown() === asked()) return;
    history.pushState(null, "", address(window.location.search, shown()));
  }).observe(strip.parentElement, { subtree: true, attributeFilter: ["aria-selected", "class"] });
}
