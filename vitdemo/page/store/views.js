// The views on the page, and the requests for their data (see bridge.py).
//
// A view is defined by { follows, create(element) }. `create` returns { render(data, state), showError(message) }. `create`
// also receives `upload` and `trigger` of gradio's component. Python declares the needed keys of a view's data (`@needs`).
// The key of a view's data consists of the values of the needed keys and the number of calls of `invalidate`. All data
// are requested again if the models have changed.
// - A view without `create` has render(element, data, state) and showError(element, message).
// - A view without `showError` shows an error message instead of its content.
// - A view without a payload function requests no data: it is drawn from the state.
// - A view that `isIndependent` is also requested if there is no model.
// - `skeleton` is the shape that store.css draws until the first data arrive: "maps", "rows", "tiles", "figures" or "line".
//   After a second, the skeleton shows the text `waits`, or a general text.
// - A view with `pollSeconds(data)` is requested again after this number of seconds, while it is visible; 0: not again.
import { makeElement } from "../markup.js";
import { drawNotice } from "../notices.js";
import { connectAnswers, sendRequest, setTasks, trigger, watchRestored } from "./channel.js";
import { updateControls } from "./controls.js";
import { isDepthKnown, reviseLayer } from "./layer.js";
import { takeDepth, takeModels } from "./models.js";
import { describeControls, drawAfterChanges, getValue, state } from "./state.js";
import { writeUrl } from "./url.js";

const SKIP_AFTER = 100; // milliseconds until an outdated request is cancelled; a short one costs less than its cancellation
const views = {};
let needs = null; // names of state keys by view, null before the page is connected
const versions = {}; // how often each view was invalidated
let mounted = []; // { name, element, view (result of `create`), key and stamp (of `data`), asked (requested key), data, isDue, timer, hidden (content of `element` during an error) }
let isQueued = false;
let isStarted = false;
let newest = null; // id of the last request
let running = null; // id of the request that the server handles
let skipTimer = null;
let asksForModels = false; // whether a request is sent even if no visible view is stale
export let hasAnswer = false;
let [resolveRequest, resolveAnswer] = [null, null];
export const firstRequest = new Promise((resolve) => (resolveRequest = resolve));
export const firstAnswer = new Promise((resolve) => (resolveAnswer = resolve));

const getNeeds = (name) => needs?.[name] ?? [];
const isComplete = (name) =>
  needs[name]?.every((key) =>
    (getValue(key) ?? null) !== null || (key === "model" && views[name].isIndependent)
  );
const getKey = (name) => JSON.stringify([versions[name], ...getNeeds(name).map(getValue)]);
const isVisible = (element) => element.isConnected && element.getClientRects().length > 0;
const isCurrent = ({ name, key, stamp }) => key === getKey(name) && stamp === state.models;
const isStale = (each) =>
  isVisible(each.element) && isComplete(each.name) && (each.isDue || !isCurrent(each));
const isDrawn = ({ data, name }) => needs && (data || !needs[name]);
const getFollowed = (name) => views[name].follows ?? [];

export const define = (name, view) => {
  views[name] = view;
};

// Called whenever gradio adds the element of a view to the page, which may happen several times.
export function mount(name, root, gradio) {
  const element = root.querySelector("div");
  element.dataset.view = name;
  const view = views[name].create?.(element, gradio);
  const each = { name, element, view, key: null, data: null };
  mounted.push(each);
  if (isDrawn(each)) render(each);
  new ResizeObserver(refresh).observe(element); // called when a hidden tab is opened
  refresh();
}

// `description` contains the controls of the page and the needs of its views: see bridge.py.
export function connect(connection, description) {
  needs = description.needs;
  describeControls(description.controls);
  setTasks(description.tasks);
  for (const each of mounted) if (isDrawn(each)) render(each);
  connectAnswers(connection, receive);
}

export function startRequests() {
  isStarted = true;
}

// The keys that the data of the views `names` need, which are known when the page is connected.
export const listNeeds = (names) => [...new Set(names.flatMap(getNeeds))];

// Request the data of a view again, for example after a task has changed them.
export function invalidate(name) {
  versions[name] = (versions[name] ?? 0) + 1;
  refresh();
}

// Request the data of all views that depend on a state key again.
export const invalidateViewsOf = (key) =>
  Object.keys(needs ?? {}).filter((name) => needs[name].includes(key)).forEach(invalidate);

// Request the list of models, which may have changed.
export function checkModels() {
  asksForModels = true;
  refresh();
}

// --- drawing ---

drawAfterChanges((changed) => {
  for (const each of mounted) {
    if (isDrawn(each) && getFollowed(each.name).some((key) => changed.includes(key))) render(each);
  }
  refresh();
});

// Draw a view. The skeleton remains until the view is drawn, because `render` may return a promise.
async function render(each) {
  const { name, element, view, data } = each;
  if (each.hidden) element.replaceChildren(...each.hidden);
  each.hidden = null;
  await (view ? view.render(data, state) : views[name].render(element, data, state));
  delete element.dataset.empty;
}

// Draw the view `name` again after a change of data that are saved in the browser.
export function redraw(name) {
  for (const each of mounted) if (each.name === name && isDrawn(each)) render(each);
}

// Show a message, by default instead of the content of the view, until the next data arrive.
function showError(each, error) {
  if (each.view?.showError) return each.view.showError(error);
  if (views[each.name].showError) return views[each.name].showError(each.element, error);
  each.hidden ??= [...each.element.childNodes];
  each.element.replaceChildren(makeElement(drawNotice(error)));
}

function showSkeleton({ name, element }) {
  const { skeleton, waits = "Waiting for the server …" } = views[name];
  if (skeleton) Object.assign(element.dataset, { empty: skeleton, waits });
}

// Hide the layer control while no visible view of Explore uses the layer.
function showLayerControl() {
  const control = document.querySelector("#layer");
  if (!control || !isVisible(control.parentElement)) return; // another tab is open
  const usesLayer = ({ name, element }) =>
    isVisible(element) && [...getNeeds(name), ...getFollowed(name)].includes("layer");
  control.toggleAttribute("data-unused", !mounted.some(usesLayer));
}

// --- requests ---

// Write the URL, and request the data of stale views, in the next frame.
export function refresh() {
  if (isQueued || !isStarted) return;
  isQueued = true;
  requestAnimationFrame(() => {
    isQueued = false;
    writeUrl();
    mounted = mounted.filter(({ element }) => element.isConnected);
    showLayerControl();
    requestData(mounted.filter(isStale));
  });
}

// Send one request for all stale views. The request includes views with a pending request: of several quick events,
// gradio handles only the last event.
function requestData(stale) {
  const asksNow = asksForModels && mounted.some(({ element }) => isVisible(element));
  if (!asksNow && stale.every((each) => each.asked === getKey(each.name))) return;
  asksForModels = false;
  // The request of a view that is hidden meanwhile may be dropped, so it is sent again when the view is visible.
  for (const each of mounted) if (!stale.includes(each)) each.asked = null;
  for (const each of stale) {
    each.asked = getKey(each.name);
    if (each.key !== each.asked) each.element.ariaBusy = "true"; // not if the same data are updated
    if (each.key === null) showSkeleton(each);
  }
  newest = sendRequest("ask", { views: Object.fromEntries(stale.map(({ name, asked }) => [name, asked])) });
  resolveRequest();
  running ??= newest;
  if (running !== newest) skipTimer ??= setTimeout(skipOutdated, SKIP_AFTER);
}

// The last request waits for the running one, which therefore computes no further view.
function skipOutdated() {
  skipTimer = null;
  if (running !== newest) trigger("cancel", { id: running });
}

function receive(answer) {
  running = answer.id === newest ? null : newest;
  if (answer.models) takeModels(answer.models, !hasAnswer);
  if (answer.model && answer.model.name === state.model) takeDepth(answer.model);
  // The view of the image comes first, because it restores the previous image after a refusal.
  take(answer.views, mounted.filter(({ name }) => views[name].isFirst));
  take(answer.views, mounted.filter(({ name }) => !views[name].isFirst));
  if (isDepthKnown(state)) keepData(reviseLayer);
  hasAnswer = true;
  resolveAnswer();
  for (const each of mounted) if (isCurrent(each)) each.element.ariaBusy = null;
  refresh();
}

function take(answers, places) {
  const current = places.filter((each) => answers[each.name]?.key === getKey(each.name));
  for (const each of places) if (each.asked && each.asked === answers[each.name]?.key) each.asked = null;
  for (const { name } of current) updateControls(answers[name].controls ?? {});
  for (const each of current) {
    const { data = null, error } = answers[each.name];
    if (data || !views[each.name].isFirst) {
      Object.assign(each, { key: getKey(each.name), stamp: state.models, data });
    }
    schedulePoll(each);
    each.element.ariaBusy = null;
    if (data) render(each);
    else showError(each, error);
    if (!data) delete each.element.dataset.empty;
  }
}

// The keys of the views' data at this time, by view.
export const listKeys = () => Object.fromEntries(mounted.map(({ name }) => [name, getKey(name)]));

// Take the data of views that an action has changed. `before` is the result of `listKeys` at the time of the action. If
// the key of a view has changed since then, the data of the view are requested again.
export function takeChanged(answers, before) {
  const current = Object.entries(answers).filter(([name]) => before[name] === getKey(name));
  for (const name of Object.keys(answers)) versions[name] = (versions[name] ?? 0) + 1;
  const found = current.map(([name, each]) => [name, { ...each, key: getKey(name) }]);
  take(Object.fromEntries(found), mounted);
}

// Call `change`, after which the data of the views are the same.
function keepData(change) {
  const current = mounted.filter(({ key, name }) => key === getKey(name));
  change();
  for (const each of current) each.key = getKey(each.name);
}

function schedulePoll(each) {
  clearTimeout(each.timer);
  each.isDue = false;
  const seconds = each.data && views[each.name].pollSeconds?.(each.data);
  if (!seconds) return;
  each.timer = setTimeout(() => {
    each.isDue = true;
    refresh();
  }, 1000 * seconds);
}

watchRestored(() => {
  for (const each of mounted) each.asked = null;
  running = null;
  checkModels();
});
