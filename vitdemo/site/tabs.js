// Tabs of layout.py, with the keys of the ARIA pattern. The open tab of the `tabs` of the page is a value of the state.
import { openTabs, state, watch } from "../page/store.js";

function open(tab) {
  for (const each of tab.parentElement.children) {
    const isOpen = each === tab;
    each.ariaSelected = String(isOpen);
    each.classList.toggle("selected", isOpen);
    each.tabIndex = isOpen ? 0 : -1;
    document.getElementById(each.getAttribute("aria-controls")).hidden = !isOpen;
  }
}

function findNext(tabs, tab, key) {
  const at = tabs.indexOf(tab);
  const target = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: tabs.length - 1 }[key];
  return tabs.at(target % tabs.length);
}

// Connect a strip of tabs with the state's value of `key`, or with no key.
function connectStrip(strip, key) {
  const tabs = [...strip.children];
  const find = (id) => tabs.find((tab) => tab.dataset.tabId === id) ?? tabs[0];
  const choose = (tab) => key ? openTabs({ [key]: tab.dataset.tabId }) : open(tab);
  strip.addEventListener("click", ({ target }) => tabs.includes(target) && choose(target));
  strip.addEventListener("keydown", (event) => {
    if (!["ArrowLeft", "ArrowRight", "Home", "End"].includes(event.key)) return;
    event.preventDefault();
    const next = findNext(tabs, event.target, event.key);
    next.focus();
    choose(next);
  });
  if (key) watch([key], () => open(find(state[key])));
  open(find(state[key]));
}

// `tabs` are { key: { selector } }, as for `store.start`.
export function connectTabs(tabs) {
  for (const strip of document.querySelectorAll("[role=tablist]")) {
    const isIn = (key) => strip.parentElement.parentElement.matches(tabs[key].selector);
    connectStrip(strip, Object.keys(tabs).find(isIn));
  }
}
