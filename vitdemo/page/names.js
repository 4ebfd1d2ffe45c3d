// gradio gives neither its tab panels nor its groups of radio buttons and checkboxes a name: each
// panel gets that of its tab, each group that of its label.
(() => {
  const name = () => {
    for (const panel of document.querySelectorAll("[role=tabpanel]:not([aria-label])")) {
      if (!panel.offsetParent) continue; // the tab that is chosen is not its own
      let place = panel.parentElement;
      while (place && !place.querySelector("[role=tablist]")) place = place.parentElement;
      const tab = place?.querySelector("[role=tablist] [aria-selected=true]");
      if (tab) panel.setAttribute("aria-label", tab.textContent.trim());
    }
    for (const group of document.querySelectorAll("fieldset.block:not([aria-label])")) {
      const words = group.querySelector("[data-testid=block-info]")?.textContent.trim();
      if (words) group.setAttribute("aria-label", words);
    }
  };
  let waiting = false;
  new MutationObserver(() => {
    if (waiting) return; // many changes of one redraw count once
    waiting = true;
    setTimeout(() => {
      waiting = false;
      name();
    }, 200);
  }).observe(document.documentElement, { childList: true, subtree: true });
})();
