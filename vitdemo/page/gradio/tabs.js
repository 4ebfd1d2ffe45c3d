// gradio's tabs, whose open tab is a value of the state.
import * as navigation from "../store/navigation.js";
import { state, watch } from "../store/state.js";

// Start the page, whose tabs are { key: { selector, labels (by id), inTab } }.
export function start({ tabs, image }) {
  navigation.start({ tabs, image });
  // Inner tabs are opened first, so that no other inner tab is visible meanwhile.
  for (const [key, { selector, labels }] of Object.entries(tabs).reverse()) {
    connectTabs(key, selector, labels);
  }
}

// Connect the tabs in `selector` with the state's value of `key`. gradio adds inner tabs to the page when the outer tab
// is opened first.
function connectTabs(key, selector, labels) {
  let strip = null;
  // On a narrow page, some tabs are menu buttons without an id.
  const listMenuButtons = () => [...strip.parentElement.querySelectorAll(".overflow-dropdown button")];
  function getOpenTab() {
    const tab = strip.querySelector("[aria-selected=true]");
    const label = listMenuButtons().find((button) => button.matches(".selected"))?.textContent.trim();
    const ids = Object.keys(labels);
    return tab?.dataset.tabId ?? ids.find((id) => labels[id] === label) ?? ids[0];
  }
  function show() {
    const id = state[key];
    if (!strip || id === getOpenTab()) return;
    const isInMenu = (button) => button.textContent.trim() === labels[id];
    (strip.querySelector(`[data-tab-id="${id}"]`) ?? listMenuButtons().find(isInMenu))?.click();
  }
  // Change the state as soon as another tab is visible, since gradio's own event comes too late.
  const opened = new MutationObserver(() => {
    if (getOpenTab() !== state[key]) navigation.openTabs({ [key]: getOpenTab() });
  });
  const added = new MutationObserver(attach);
  function attach() {
    strip = document.querySelector(`${selector} [role=tablist]`);
    if (!strip) return;
    added.disconnect();
    opened.observe(strip.parentElement, { subtree: true, attributeFilter: ["aria-selected", "class"] });
    show();
  }
  watch([key], show);
  added.observe(document.querySelector("#tabs"), { subtree: true, childList: true });
  attach();
}
