// Adds accessible names, which gradio leaves out. The name of a tab panel is the name of its tab.
// The name of a group of radio buttons or checkboxes is the label of the group.
import { observePage } from "../components/shared.js";

const addNames = () => {
  for (const panel of document.querySelectorAll("[role=tabpanel]:not([aria-label])")) {
    if (!panel.offsetParent) continue; // skip hidden panels, since the selected tab is another tab
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
observePage(addNames, (done) => setTimeout(done, 200));
