// The view state of the page, its URL, and the requests for the data of views (see bridge.py).
//
// The state has a value for each key. `set` changes it, writes the URL, draws the views that follow the
// changed keys, and requests the data of visible views whose data are for another state.
//
// Python declares the keys (state_keys.py), and the needed keys of a view's data (`@needs`). A view is defined by {
// follows, create(element) }. `create` returns { render(data, state), showError(message) }. `create` also receives
// `upload` and `trigger` of gradio's component. The key of a view's data consists of the values of the needed keys and
// the number of calls of `invalidate`. All data are requested again if the models have changed.
// - A view without `create` has render(element, data, state) and showError(element, message).
// - A view without `showError` shows an error message instead of its content.
// - A view without a payload function requests no data: it is drawn from the state.
// - A view that `isIndependent` is also requested if there is no model.
// - `skeleton` is the shape that store.css draws until the first data arrive: "maps", "rows", "tiles", "figures" or "line".
//   After a second, it shows the text `waits`, or a general one.
// - A view with `pollSeconds(data)` is requested again after this number of seconds, while it is visible; 0: not again.
import { STATE_KEYS } from "./generated.js";
import { createDocument } from "./components/documents.js";
import { createEventData, drawNotice, parsePayload } from "./components/shared.js";
import { makeElement } from "./markup.js";
import { INTERRUPTED } from "./texts.js";

export const state = Object.fromEntries(Object.entries(STATE_KEYS).map(([name, { start }]) => [name, start]));
export const keys = STATE_KEYS;
const views = {};
let needs = null; // names of state keys by view, null before the page is connected
const versions = {}; // how often each view was invalidated
const listeners = []; // { keys, listen }
let mounted = []; // { name, element, view (result of `create`), key and stamp (of `data`), asked (requested key), data, isDue, timer, hidden (content of `element` during an error) }
let bridge = null;
let queued = false;
let isStarted = false;
let hasAnswer = false;
let count = 0;
const updateRequest = createEventData();

let mirror = null; // properties of the component whose value is the image

// Value of a key that a view needs. A key with a leader has the leader's value unless it has its own value.
function getValue(key) {
  if (key === "layer") return chosenLayer;
  const { leader } = keys[key];
  return leader ? state[key] || (state[leader] ?? "") : state[key];
}
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

// With `isCorrection`, the changes replace values that do not exist, which the server also does, so no task is
// cancelled.
export function set(changes, { isCorrection = false } = {}) {
  const unknown = Object.keys(changes).find((name) => !(name in keys));
  if (unknown) throw new Error(`${unknown} is not a state key`);
  if (changes.layer) chosenLayer = changes.layer;
  const before = { ...state };
  Object.assign(state, changes);
  settleLayer();
  if (mirror && "image" in changes) mirror.value = state.image;
  const changed = Object.keys(state).filter((key) =>
    JSON.stringify(state[key]) !== JSON.stringify(before[key])
  );
  if (!changed.length) return;
  const isOutdated = task?.needs.some((key) => changed.includes(key));
  if (isOutdated && !isCorrection) cancelTask();
  applyChanges(changed, changes);
  refresh();
}

// Call the listeners of changed keys, and draw the views that follow them.
function applyChanges(changed, changes) {
  for (const { getWatched, listen } of listeners) {
    if (getWatched().some((key) => changed.includes(key))) listen(state, changes);
  }
  drawFollowers(changed);
}

// Call `listen(state, changes)` after changes of the keys `watched`, or of the keys that this function returns,
// before views are drawn and requested. `changes` are all
// keys that were set together, with their values.
export const watch = (watched, listen) =>
  listeners.push({ getWatched: typeof watched === "function" ? watched : () => watched, listen });

// The keys that the data of the views `names` need. They are known when the page is connected.
export const listNeeds = (names) => [...new Set(names.flatMap(getNeeds))];

const isDrawn = ({ data, name }) => data || !needs[name];

// Draw the views that follow one of `keys`.
function drawFollowers(keys) {
  for (const each of mounted) {
    if (isDrawn(each) && views[each.name].follows?.some((key) => keys.includes(key))) render(each);
  }
}

// Draw a view. The skeleton remains until the view is drawn, because `render` may return a promise.
async function render(each) {
  const { name, element, view, data } = each;
  if (each.hidden) element.replaceChildren(...each.hidden);
  each.hidden = null;
  await (view ? view.render(data, state) : views[name].render(element, data, state));
  delete element.dataset.empty;
}

// Write the URL, and send one request for all stale views, in the next frame. The request includes views with
// a pending request: of several quick events, gradio handles only the last event.
function refresh() {
  if (queued || !isStarted) return;
  queued = true;
  requestAnimationFrame(() => {
    queued = false;
    writeUrl();
    mounted = mounted.filter(({ element }) => element.isConnected);
    showLayerControl();
    const stale = mounted.filter(isStale);
    const asksNow = asksForModels && mounted.some(({ element }) => isVisible(element));
    if (!asksNow && stale.every((each) => each.asked === getKey(each.name))) return;
    asksForModels = false;
    // The request of a view that is hidden meanwhile may be dropped, so it is sent again when the view is visible.
    for (const each of mounted) if (!stale.includes(each)) each.asked = null;
    for (const each of stale) {
      each.asked = getKey(each.name);
      if (each.key !== each.asked) each.element.ariaBusy = "true"; // not if the same data are updated
      if (each.key === null && views[each.name].skeleton) {
        each.element.dataset.empty = views[each.name].skeleton;
        each.element.dataset.waits = views[each.name].waits ?? "Waiting for the server …";
      }
    }
    bridge.trigger(
      "ask",
      updateRequest({
        id: ++count,
        state: getRequestedState(),
        views: Object.fromEntries(stale.map(({ name, asked }) => [name, asked])),
      }),
    );
  });
}

const getRequestedState = () => ({ ...state, model: state.model ?? "", layer: chosenLayer }); // "": no run has weights

function receive() {
  const answer = parsePayload(bridge.props);
  if (!answer) return;
  if (answer.models) takeModels(answer.models);
  if (answer.model && answer.model.name === state.model) takeDepth(answer.model);
  // The view of the image comes first, because it restores the previous image after a refusal.
  take(answer, mounted.filter(({ name }) => views[name].isFirst));
  take(answer, mounted.filter(({ name }) => !views[name].isFirst));
  if (isDepthKnown()) reviseChoice();
  if (!hasAnswer) {
    requestAnimationFrame(scrollToSection);
    if (task) sendTask();
  }
  hasAnswer = true;
  for (const each of mounted) if (isCurrent(each)) each.element.ariaBusy = null;
  refresh();
}

function take(answer, places) {
  const current = places.filter((each) => answer.views[each.name]?.key === getKey(each.name));
  for (const each of places) if (each.asked && each.asked === answer.views[each.name]?.key) each.asked = null;
  for (const { name } of current) updateControls(answer.views[name].controls ?? {});
  for (const each of current) {
    const { data = null, error } = answer.views[each.name];
    if (data || !views[each.name].isFirst) {
      Object.assign(each, { key: getKey(each.name), stamp: state.models, data });
    }
    schedulePoll(each);
    each.element.ariaBusy = null;
    if (data) render(each);
    else if (each.view?.showError) each.view.showError(error);
    else if (views[each.name].showError) views[each.name].showError(each.element, error);
    else showError(each, error);
    if (!data) delete each.element.dataset.empty;
  }
}

// Show a message instead of the content of a view, until the next data arrive.
function showError(each, error) {
  each.hidden ??= [...each.element.childNodes];
  each.element.replaceChildren(makeElement(drawNotice(error)));
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

// `description` contains the controls of the page and the needs of its views: see bridge.py.
export function connect(connection, description) {
  bridge = connection;
  needs = description.needs;
  for (const [name, control] of Object.entries(description.controls)) {
    controls[name] = { ...keys[name], ...control };
    state[name] = controls[name].start;
  }
  for (const each of mounted) if (isDrawn(each)) render(each);
  bridge.watch("value", receive);
}

// Called whenever gradio adds the element of a view to the page, which may happen several times.
export function mount(name, root, gradio) {
  const element = root.querySelector("div");
  element.dataset.view = name;
  const view = views[name].create?.(element, gradio);
  const each = { name, element, view, key: null, data: null };
  mounted.push(each);
  if (needs && isDrawn(each)) render(each);
  new ResizeObserver(refresh).observe(element); // called when a hidden tab is opened
  refresh();
}

export const define = (name, view) => {
  views[name] = view;
};

// Define a view whose data are the blocks of a document; `options` are further fields of the view, and `pick`,
// which is called with the name of a pressed button.
export function defineDocument(name, options = {}) {
  define(name, {
    ...options,
    create(element) {
      element.classList.add("article");
      const draw = createDocument(element, options.pick);
      return { render: (blocks) => draw(blocks) };
    },
  });
}

// Keep the value of a component of gradio equal to the image, as input of handlers in Python.
export function mirrorImage(properties) {
  mirror = properties;
  mirror.value = state.image ?? null;
}

// A choice of a key also chooses its leader, and the reverse. If both values are equal, the URL contains only the
// leader.
const listFollowers = (leader) => Object.keys(keys).filter((name) => keys[name].leader === leader);

// Set a key to the user's choice, and the keys that follow it.
export function choose(name, value) {
  const changes = {
    [name]: value,
    ...Object.fromEntries(listFollowers(name).map((follower) => [follower, value])),
  };
  const { leader } = keys[name];
  const isModel = !modelNames.length || modelNames.includes(value); // before the first answer, the models are unknown
  if (leader && (leader !== "model" || isModel)) changes[leader] = value;
  if (name === "model") changes.unavailable = "";
  set(changes);
  for (const [key, chosen] of Object.entries(changes)) if (key !== name) showControl(key, { value: chosen });
}

// Request the data of a view again, for example after a task has changed them.
export function invalidate(name) {
  versions[name] = (versions[name] ?? 0) + 1;
  refresh();
}

// Request the data of all views that depend on a state key again.
export const invalidateViewsOf = (key) =>
  Object.keys(needs ?? {}).filter((name) => needs[name].includes(key)).forEach(invalidate);

// Draw the view `name` again after a change of data that are saved in the browser.
export function redraw(name) {
  for (const each of mounted) if (each.name === name && isDrawn(each)) render(each);
}

// --- the layer: the user's choice, or the layer of the map with the highest mean score ---

let chosenLayer = 0; // 0: not chosen
let depth = null; // { name, layers, layer } of a model: number of layers, and the layer to begin with
let isFromUrl = false; // whether the layer is from the URL; the model's own layer then counts as not chosen

const isDepthKnown = () => depth !== null && depth.name === state.model;

function settleLayer() {
  if (isDepthKnown()) {
    state.layer = depth.layers ? Math.min(chosenLayer || depth.layer, depth.layers) : null;
  }
}

function takeDepth(found) {
  depth = found;
  const before = state.layer;
  settleLayer();
  showControl(
    "layer",
    found.layers ? { maximum: found.layers, value: state.layer, interactive: true } : { interactive: false },
  );
  if (state.layer !== before) applyChanges(["layer"], { layer: state.layer });
}

// Lower a choice above the number of layers. If a URL contains the model's own layer, no layer is chosen, so another
// model begins with its own layer. The data of views are the same for the new choice.
function reviseChoice() {
  const current = mounted.filter(({ key, name }) => key === getKey(name));
  if (isFromUrl && chosenLayer === depth.layer) chosenLayer = 0;
  else if (depth.layers) chosenLayer = Math.min(chosenLayer, depth.layers);
  isFromUrl = false;
  for (const each of current) each.key = getKey(each.name);
}

// Choose the layer of all views, and move the slider to it.
export function chooseLayer(layer) {
  set({ layer });
  showControl("layer", { value: state.layer });
}

// Take a number from the layer control. The control shows the nearest layer instead of another number.
export function takeLayer(number) {
  noteValue("layer", number);
  if (!Number.isFinite(number)) return; // the box is empty while the user types
  set({ layer: Math.max(Math.round(number), 1) });
  if (state.layer !== number) showControl("layer", { value: state.layer });
}

// Hide the layer control while no visible view of Explore uses the layer.
function showLayerControl() {
  const control = document.querySelector("#layer");
  if (!control || !isVisible(control.parentElement)) return; // another tab is open
  const usesLayer = ({ name, element }) =>
    isVisible(element) && [...getNeeds(name), ...(views[name].follows ?? [])].includes("layer");
  control.toggleAttribute("data-unused", !mounted.some(usesLayer));
}

// --- the models to choose from ---

let modelNames = []; // names in the order of the menu
let asksForModels = false; // whether a request is sent even if no visible view is stale

// Request the list of models, which may have changed.
export function checkModels() {
  asksForModels = true;
  refresh();
}

// Take the models, grouped by label, and the stamp that changes with them. A model that does not exist is replaced:
// before the first answer, it is from the URL; later, it was removed. Keys that follow the model keep a run of `others`.
function takeModels({ stamp, groups, others, missing }) {
  document.documentElement.dataset.missing = missing.join(" ");
  modelNames = groups.flatMap(([, names]) => names);
  showControl("model", { props: { groups } });
  set({ models: stamp });
  if (modelNames.includes(state.model)) return;
  const kept = others.includes(state.model)
    ? listFollowers("model").map((key) => [key, state[key] || state.model])
    : [];
  if (state.model) set({ unavailable: state.model, ...Object.fromEntries(kept) });
  set({ model: modelNames[0] ?? null }, { isCorrection: !hasAnswer });
  showControl("model", { value: state.model });
}

// --- long computations ---

let channel = null;
let task = null; // the running task: { id, name, listen, needs, isSent, isRunning (on the server), isStopping }
const updateTaskRequest = createEventData();

// Start a task of bridge.py; a running task is cancelled. `listen` receives each message: first { done, total, text },
// finally { end, data, error } or, after a cancellation, { end, cancelled }. A task that is stopped also sends {
// isStopping } until it has ended. A change of a state key in `watched` cancels the task immediately.
export function startTask(name, listen, watched = []) {
  cancelTask();
  task = { id: ++count, name, listen, needs: watched };
  listen({ done: 0, total: 1, text: "" });
  if (hasAnswer) sendTask();
  else checkModels(); // values of the URL may not exist, so the task is sent after the first answer
}

function sendTask() {
  task.isSent = true;
  bridge.trigger("start", updateTaskRequest({ id: task.id, task: task.name, state: getRequestedState() }));
}

const CANCELLED = { end: true, cancelled: true, data: null, error: null };

export function cancelTask() {
  if (!task) return;
  const { id, listen } = task;
  task = null;
  bridge.trigger("cancel", { id });
  listen(CANCELLED);
}

// Cancel the task on the user's request. A task that runs ends at its next step.
export function stopTask() {
  if (!task?.isRunning) return cancelTask();
  task.isStopping = true;
  bridge.trigger("cancel", { id: task.id });
  task.listen({ isStopping: true });
}

export function connectTasks(connection) {
  channel = connection;
  channel.watch("value", () => {
    const message = parsePayload(channel.props);
    if (!message || message.id !== task?.id) return;
    const { listen, isStopping } = task;
    task.isRunning = true;
    if (message.end) task = null;
    if (!isStopping) listen(message);
    else if (message.end) listen(CANCELLED);
  });
}

// --- short changes of the user's data on the server ---

const actions = {}; // by id: { listen, keys (of the views' data when the action was sent) }

// Run an action of bridge.py; the server runs the actions of a session one by one, in their order. The answer has the
// data of the views that the action changed. `listen` receives an error message, or null.
export function act(name, fields = {}, listen = () => {}) {
  actions[++count] = {
    listen,
    keys: Object.fromEntries(mounted.map((each) => [each.name, getKey(each.name)])),
  };
  bridge.trigger("act", { id: count, action: name, fields, state: getRequestedState() });
}

export function connectActions(connection) {
  connection.watch("value", () => {
    const answer = parsePayload(connection.props);
    if (!answer) return;
    const { listen, keys } = actions[answer.id] ?? { listen: () => {}, keys: {} };
    delete actions[answer.id];
    // Data for an older state, or from before a later change, are requested again.
    const current = Object.entries(answer.views).filter(([name]) => keys[name] === getKey(name));
    for (const name of Object.keys(answer.views)) versions[name] = (versions[name] ?? 0) + 1;
    take(
      { views: Object.fromEntries(current.map(([name, each]) => [name, { ...each, key: getKey(name) }])) },
      mounted,
    );
    listen(answer.error);
    refresh();
  });
}

// --- lost connections (see reconnect.js) ---

// The server has ended all requests, so they are sent again, except changes of the user's data.
function repeatRequests() {
  for (const each of mounted) each.asked = null;
  checkModels();
  if (task?.isStopping) cancelTask();
  if (task?.isSent) {
    bridge.trigger("cancel", { id: task.id });
    task.id = ++count;
    sendTask();
  }
  for (const [id, { listen }] of Object.entries(actions)) {
    delete actions[id];
    listen(INTERRUPTED);
  }
}

document.addEventListener("vitdemo:connection", ({ detail }) => {
  if (["restored", "restarted"].includes(detail)) repeatRequests();
});

// --- controls of gradio, whose values are part of the state ---

const controls = {}; // of the page, by state key: the key with `element`, and its own start and choices
const updated = {}; // last update of each control as JSON
let updates = {}; // updates that gradio has not received yet
const sentAt = {}; // time of the last value that gradio received for each control
const APPLY_TIME = 1000; // milliseconds within which gradio applies an update

// A list of names in the URL: "%" and "," in a name are written as "%25" and "%2C".
const formatNames = (names) =>
  names.map((name) => name.replaceAll("%", "%25").replaceAll(",", "%2C")).join(",");
const parseNames = (text) =>
  text.split(",").map((name) => name.replaceAll("%2C", ",").replaceAll("%25", "%"));

// While the user has not chosen from a list, the state of the list is [""], and the control shows the choice of the server.
const defaults = {}; // choices of the server, by name
const isUnset = (name) => JSON.stringify(state[name]) === '[""]';
const getShownValue = (name) => (isUnset(name) ? defaults[name] : null) ?? state[name];

// Change properties of controls, given by name. A new value also changes the state, if the user has chosen one.
export function updateControls(changes) {
  for (const [name, properties] of Object.entries(changes)) {
    const isSameValue = JSON.stringify(properties.value ?? state[name]) === JSON.stringify(state[name]);
    if (updated[name] === JSON.stringify(properties) && isSameValue) continue;
    updated[name] = JSON.stringify(properties);
    if (isUnset(name) && properties.value) defaults[name] = properties.value;
    showControl(name, properties);
  }
  const values = Object.entries(changes).filter(([name, properties]) =>
    "value" in properties && !isUnset(name)
  );
  set(Object.fromEntries(values.map(([name, { value }]) => [name, value])), { isCorrection: true });
}

// Change properties of a control, but not the state.
export function showControl(name, properties) {
  updates[name] = { ...updates[name], ...properties };
  sendUpdates();
}

// Send updates that were made together as one event. New choices would discard the text that the user types into a
// list, so updates wait until the list loses the focus.
let isSending = false;
function sendUpdates() {
  if (isSending) return;
  isSending = true;
  queueMicrotask(() => {
    isSending = false;
    const isTyping = document.activeElement?.matches("input[role=combobox]");
    if (Object.keys(updates).length && !isTyping) bridge.trigger("controls");
  });
}
document.addEventListener("focusout", () => requestAnimationFrame(sendUpdates));

export function takeUpdates(names) {
  const taken = updates;
  updates = {};
  for (const [name, update] of Object.entries(taken)) {
    if ("value" in update) update.value = getShownValue(name); // a later choice remains
    taken[name] = keepNewProperties(name, update);
    if ("value" in taken[name]) sentAt[name] = performance.now();
  }
  return names.map((name) => ({ __type__: "update", ...taken[name] }));
}

// gradio reads the value of a control some time after the user's input. In the meantime it may apply an earlier value,
// for example in the frame after the section of the control is first opened. Therefore, the pressed button is used.
let pressed = null;
document.addEventListener("input", ({ target }) => {
  pressed = ["radio", "checkbox"].includes(target.type) ? target : null;
}, true);

function getPressedValue({ kind, choices, element }) {
  if (!["choice", "flag"].includes(kind) || !pressed?.closest(`#${element}`)) return undefined;
  return kind === "flag" ? pressed.checked : choices.find((value) => String(value) === pressed.value);
}

// Take the value that the user has given a control, which may be `read` too late. gradio may still apply an earlier
// value, which would hide the choice: a second click on the hidden option would have no effect. Therefore the choice is
// shown again. Sliders are excluded, because the user may still move them.
export function takeInput(name, read) {
  const value = getPressedValue(controls[name] ?? {}) ?? read;
  noteValue(name, value);
  choose(name, value);
  const isHidden = value !== read ||
    (controls[name]?.kind === "choice" && performance.now() - sentAt[name] < APPLY_TIME);
  if (!isHidden) return;
  delete shown[name].value;
  showControl(name, { value: getShownValue(name) });
}

// Leave out properties that the control has already: an unnecessary value would undo a simultaneous choice of the
// user. A list needs its value with new choices, and events in Python also change the model.
const shown = {}; // properties of the controls by name, as JSON
const noteValue = (name, value) => {
  (shown[name] ??= {}).value = JSON.stringify(value);
};

function keepNewProperties(name, update) {
  if (name === "model") return update;
  const before = (shown[name] ??= {});
  const changed = Object.entries(update).filter(([key, value]) =>
    JSON.stringify(value) !== before[key] || (key === "value" && "choices" in update)
  );
  for (const [key, value] of changed) before[key] = JSON.stringify(value);
  return Object.fromEntries(changed);
}

// The labels of a key's choices by value.
export const getLabels = (name) =>
  Object.fromEntries(keys[name].choices.map((value, i) => [value, keys[name].labels[i]]));

// --- the URL ---

const MAX_QUERY = 4000; // characters of a URL that are read
const MAX_TEXT = 200; // characters of a text in the URL

// Parse the text of a URL for a state key; undefined if it is invalid.
function parseText(name, text) {
  const { kind, low, high, step, choices, maxLength, formerValues } = controls[name] ?? keys[name];
  if (kind === "flag") return { true: true, false: false }[text];
  if (kind === "choice") return choices.find((value) => String(value) === text);
  if (kind === "names") return text ? parseNames(text) : undefined;
  if (kind === "text") return formerValues[text] ?? text.slice(0, maxLength);
  const number = Number(text);
  const isValid = text.trim() && number >= low && number <= high && (step !== 1 || Number.isInteger(number));
  return isValid ? number : undefined;
}

const formatValue = (name, value) => (keys[name].kind === "names" ? formatNames(value) : String(value));
const getStart = (name) => tabs[name]?.[0] ?? (controls[name] ?? keys[name]).start;
const urlKeys = Object.keys(keys).filter((name) => keys[name].inUrl);
const tabs = {}; // ids of the tabs by state key
const former = Object.fromEntries(
  Object.keys(keys).flatMap((name) => keys[name].former.map((old) => [old, name])),
);

const parseFraction = (
  text,
) => (Number.isFinite(Number(text)) ? Math.min(Math.max(Number(text), 0), 1) : 0.5);

// Parse a query; invalid and missing parameters are left out.
function readQuery(search) {
  const query = new URLSearchParams(search.slice(0, MAX_QUERY));
  const found = {};
  for (const name of urlKeys) {
    const value = query.has(name) ? parseText(name, query.getAll(name).at(-1)) : undefined;
    if (value !== undefined) found[name] = value;
  }
  readFormer(query, found);
  for (const [key, ids] of Object.entries(tabs)) if (!ids.includes(found[key])) delete found[key];
  if (query.get("picture")) {
    found.image = {
      source: query.get("picture").slice(0, MAX_TEXT),
      path: null,
      at: parseFraction(query.get("crop") ?? 0.5),
    };
  }
  if (query.get("model")) found.model = query.get("model");
  if (query.get("section") === "rollout") {
    Object.assign(found, { source: "rollout", token: query.get("read") === "patches" ? "mean" : "" }); // an old link
  }
  const layer = Math.round(Number(query.get("layer") ?? 0));
  if (layer > 0 && Number.isFinite(layer)) found.layer = layer;
  return found;
}

// Former links have a parameter per tab; the parameter of the open tab counts.
function readFormer(query, found) {
  const isOfTab = (old) => old.startsWith(`${query.get("tab")}.`);
  const names = Object.keys(former).sort((a, b) => isOfTab(b) - isOfTab(a));
  for (const old of names) {
    const value = query.has(old) ? parseText(former[old], query.get(old)) : undefined;
    if (value !== undefined) found[former[old]] ??= value;
  }
  for (const [tab, ids] of Object.entries(sectionsOf)) {
    if (ids.includes(query.get("tab"))) Object.assign(found, { tab, [tab]: query.get("tab") });
  }
}

function listParams() {
  const { image, model } = state;
  const own = image?.source === "own";
  const found = {
    model,
    layer: state.layer || chosenLayer || null,
    picture: own ? null : image?.source,
    crop: !image || own || image.at === 0.5 ? null : image.at.toFixed(2),
  };
  for (const name of urlKeys) {
    const text = formatValue(name, state[name] ?? getStart(name));
    const { leader } = keys[name];
    const isImplied = text === formatValue(name, getStart(name)) || (leader && state[name] === state[leader]);
    found[name] = isImplied ? null : text;
  }
  for (const tab of Object.keys(sectionsOf)) found[tab] = null;
  if (state.tab in sectionsOf) found.tab = state[state.tab];
  for (const old of Object.keys(former)) found[old] = null;
  return found;
}

// The text of a URL's query: the parameters of the state, and unknown parameters of `search`. The tab comes last.
function formatQuery(search) {
  const query = new URLSearchParams(search.slice(0, MAX_QUERY));
  for (const [name, value] of Object.entries(listParams())) {
    if (value === null || value === undefined || value === "") query.delete(name);
    else query.set(name, value);
  }
  const tab = query.get("tab");
  query.delete("tab");
  if (tab) query.append("tab", tab);
  return query.toString().replaceAll("%3A", ":").replaceAll("%2C", ",");
}

function writeUrl({ search = window.location.search, adds = false } = {}) {
  if (!writesUrl) return;
  const text = formatQuery(search);
  if (!adds && text === window.location.search.slice(1)) return;
  history[adds ? "pushState" : "replaceState"](null, "", text ? `?${text}` : window.location.pathname);
}

// Open the view that a query names. Without an image in the query, the current image is kept; all other missing
// parameters are reset.
export function open(search) {
  const query = new URLSearchParams(search);
  const found = readQuery(search);
  const starts = {};
  for (const name of urlKeys) if (!keys[name].isKept) starts[name] = getStart(name);
  chosenLayer = 0;
  isFromUrl = Boolean(found.layer);
  set({ ...starts, model: modelNames[0] ?? null, ...found });
  for (const name of urlKeys) if (keys[name].isKept && state[name]) query.set(name, state[name]);
  showState();
  writeUrl({ search: `?${query}` });
}

// Open the tab Explore with an image; `model` is null to keep the current model.
export function openImage({ image, model, section, unavailable }) {
  set({ image, unavailable, ...(model ? { model } : {}) });
  if (model) showControl("model", { value: model });
  openTab(strips[0].first, { section });
  // Move the keyboard focus to the open tab. If the map is below the window, as on a phone, scroll.
  requestAnimationFrame(() => {
    window.scrollTo(0, 0);
    const sections = document.querySelector("#sections");
    if (sections.getBoundingClientRect().top > window.innerHeight) sections.scrollIntoView();
    document.querySelector("#tabs [role=tab]").focus({ preventScroll: true });
  });
}

// Open the tab or the section `id`; `others` are further open sections. This is one step of the history.
export function openTab(id, others = {}) {
  const [tab] = Object.entries(sectionsOf).find(([, ids]) => ids.includes(id)) ?? [id];
  set({ ...others, tab, ...(tab === id ? {} : { [tab]: id }) });
  writeUrl({ adds: true });
  checkModels();
  for (const strip of strips.toReversed()) strip.open(state[strip.key]);
}

// Show the state in the controls and tabs.
function showState() {
  for (const [name, { choices, kind }] of Object.entries(controls)) {
    const value = getShownValue(name);
    const isNew = kind === "text" && choices && !choices.includes(value);
    showControl(
      name,
      isNew ? { value, choices: [...choices, value].map((each) => [each, each]) } : { value },
    );
  }
  showControl("model", { value: state.model });
  if (state.layer) showControl("layer", { value: state.layer });
  for (const strip of strips) strip.open(state[strip.key]);
}

// --- tabs ---

// If the URL contains a section, scroll to a section below the window, as on a phone.
function scrollToSection() {
  const sections = document.querySelector("#sections");
  if (!new URLSearchParams(window.location.search).has("section")) return;
  if (sections.getBoundingClientRect().top > window.innerHeight) sections.scrollIntoView();
}

const strips = [];
const sectionsOf = {}; // tab whose sections are values of the parameter `tab` -> ids of its sections

// Tabs of gradio in `selector`, whose open tab is the state's value of `key`. `labels` are the tabs' labels by id.
// gradio adds inner tabs to the page when the outer tab is opened first.
function createTabStrip(key, selector, labels) {
  let strip = null;
  const first = Object.keys(labels)[0];
  // On a narrow page, some tabs are menu buttons without an id.
  const listMenuButtons = () => [...strip.parentElement.querySelectorAll(".overflow-dropdown button")];
  function getOpenTab() {
    const tab = strip.querySelector("[aria-selected=true]");
    const label = listMenuButtons().find((button) => button.matches(".selected"))?.textContent.trim();
    return tab?.dataset.tabId ?? Object.keys(labels).find((id) => labels[id] === label) ?? first;
  }
  function show(id) {
    if (!strip || id === getOpenTab()) return;
    const isInMenu = (button) => button.textContent.trim() === labels[id];
    (strip.querySelector(`[data-tab-id="${id}"]`) ?? listMenuButtons().find(isInMenu))?.click();
  }
  // Change the state as soon as another tab is visible, since gradio's own event comes too late.
  const observer = new MutationObserver(() => {
    if (getOpenTab() === state[key]) return;
    set({ [key]: getOpenTab() });
    writeUrl({ adds: true });
    if (key !== "section") checkModels(); // a tab may show new runs; the sections of Explore show one model
  });
  function attach() {
    strip ??= document.querySelector(`${selector} [role=tablist]`);
    if (strip) {
      observer.observe(strip.parentElement, { subtree: true, attributeFilter: ["aria-selected", "class"] });
    }
    return Boolean(strip);
  }
  if (attach()) return { key, first, open: show };
  const waiting = new MutationObserver(() => {
    if (!attach()) return;
    waiting.disconnect();
    show(state[key]);
  });
  waiting.observe(document.querySelector("#tabs"), { subtree: true, childList: true });
  return { key, first, open: show };
}

// --- start ---

let firstImage = null;
let writesUrl = true;
export const getInitialImage = () => firstImage;

// Read the URL when the page has loaded. `described` are the tabs { key: { selector, labels } }, `image` is the default
// image. A page without a server keeps its URL (`hasUrl`).
export function start({ tabs: described, image, hasUrl = true }) {
  firstImage = image;
  writesUrl = hasUrl;
  for (const [key, { labels, inTab }] of Object.entries(described)) {
    tabs[key] = Object.keys(labels);
    if (inTab) sectionsOf[key] = tabs[key];
    state[key] = tabs[key][0];
  }
  const found = readQuery(window.location.search);
  isFromUrl = Boolean(found.layer);
  isStarted = true;
  set({ image, ...found });
  for (const [key, { selector, labels }] of Object.entries(described)) {
    strips.push(createTabStrip(key, selector, labels));
  }
  showState();
  window.addEventListener("popstate", () => {
    const found = readQuery(window.location.search);
    set(Object.fromEntries(strips.map(({ key, first }) => [key, found[key] ?? first])));
    writeUrl();
    for (const strip of strips) strip.open(state[strip.key]);
    // Move the focus if it is in a tab that was closed.
    requestAnimationFrame(() => {
      if (!document.activeElement?.offsetParent) {
        document.querySelector("#tabs [role=tab][aria-selected=true]")?.focus();
      }
    });
  });
  document.dispatchEvent(new CustomEvent("vitdemo:started"));
  refresh();
}
