// The start of the page, and steps to other views: links, tabs and the browser's history.
import { getShownValue, showControl } from "./controls.js";
import { markLayerFromUrl, setChosenLayer } from "./layer.js";
import { getFirstModel } from "./models.js";
import { controlNames, keys, set, state } from "./state.js";
import { describeTab, describeTabs, getStart, readQuery, tabs, urlKeys, writeUrl } from "./url.js";
import { checkModels, firstAnswer, refresh, startRequests } from "./views.js";

let firstImage = null;
export const getInitialImage = () => firstImage;

// Read the URL when the page has loaded. `described` are the tabs (see `describeTabs`), `image` is the default image.
export function start({ tabs: described, image, hasUrl = true }) {
  firstImage = image;
  describeTabs(described, hasUrl);
  const found = readQuery();
  markLayerFromUrl(Boolean(found.layer));
  startRequests();
  set({ image, ...found });
  showState();
  window.addEventListener("popstate", openTabsOfUrl);
  document.dispatchEvent(new CustomEvent("vitdemo:started"));
  refresh();
}

// Open the view that a query names. Without an image in the query, the current image is kept; all other missing
// parameters are reset.
export function open(search) {
  const query = new URLSearchParams(search);
  const found = readQuery(search);
  const starts = {};
  for (const name of urlKeys) if (!keys[name].isKept) starts[name] = getStart(name);
  setChosenLayer(0);
  markLayerFromUrl(Boolean(found.layer));
  set({ ...starts, model: getFirstModel(), ...found });
  for (const name of urlKeys) if (keys[name].isKept && state[name]) query.set(name, state[name]);
  showState();
  writeUrl({ search: `?${query}` });
}

// Show the state in the controls.
function showState() {
  for (const name of controlNames) {
    const { choices, kind } = keys[name];
    const value = getShownValue(name);
    const isNew = kind === "text" && choices && !choices.includes(value);
    showControl(
      name,
      isNew ? { value, choices: [...choices, value].map((each) => [each, each]) } : { value },
    );
  }
  showControl("model", { value: state.model });
  if (state.layer) showControl("layer", { value: state.layer });
}

// Open the tab Explore with an image; `model` is null to keep the current model.
export function openImage({ image, model, section, unavailable }) {
  set({ image, unavailable, ...(model ? { model } : {}) });
  if (model) showControl("model", { value: model });
  openTab(getStart("tab"), { section });
  // Move the keyboard focus to the open tab.
  requestAnimationFrame(() => {
    window.scrollTo(0, 0);
    scrollToSections();
    document.querySelector("#tabs [role=tab]").focus({ preventScroll: true });
  });
}

// Open the tab or the section `id`; `others` are further open sections.
export const openTab = (id, others = {}) => openTabs({ ...others, ...describeTab(id) });

// Open tabs, which are values of the state, as one step of the history.
export function openTabs(opened) {
  set(opened);
  writeUrl({ adds: true });
  const isSection = Object.keys(opened).join() === "section";
  if (!isSection) checkModels(); // a tab may show new runs; the sections of Explore show one model
}

// Open the tabs of the URL after a step in the browser's history.
function openTabsOfUrl() {
  const found = readQuery();
  set(Object.fromEntries(Object.entries(tabs).map(([key, [first]]) => [key, found[key] ?? first])));
  writeUrl();
  // Move the focus if it is in a tab that was closed.
  requestAnimationFrame(() => {
    if (!document.activeElement?.offsetParent) {
      document.querySelector("#tabs [role=tab][aria-selected=true]")?.focus();
    }
  });
}

// If the map is below the window, as on a phone, scroll.
function scrollToSections() {
  const sections = document.querySelector("#sections");
  if (sections.getBoundingClientRect().top > window.innerHeight) sections.scrollIntoView();
}

firstAnswer.then(() => {
  const { searchParams } = new URL(window.location.href);
  if (searchParams.has("section")) requestAnimationFrame(scrollToSections);
});
