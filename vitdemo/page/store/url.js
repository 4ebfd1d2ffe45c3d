// The URL, whose parameters are keys of the state.
import { getChosenLayer } from "./layer.js";
import { keys, state } from "./state.js";

const MAX_QUERY = 4000; // characters of a URL that are read
const MAX_TEXT = 200; // characters of a text in the URL
export const urlKeys = Object.keys(keys).filter((name) => keys[name].inUrl);
const former = Object.fromEntries(
  Object.keys(keys).flatMap((name) => keys[name].former.map((old) => [old, name])),
);
export const tabs = {}; // ids of the tabs by state key
const sectionsOf = {}; // tab whose sections are values of the parameter `tab` -> ids of its sections
let writesUrl = true;

// `described` are the tabs by state key: { labels (by id), inTab }. A page without a server keeps its URL (`hasUrl`).
export function describeTabs(described, hasUrl) {
  writesUrl = hasUrl;
  for (const [key, { labels, inTab }] of Object.entries(described)) {
    tabs[key] = Object.keys(labels);
    if (inTab) sectionsOf[key] = tabs[key];
    state[key] = tabs[key][0];
  }
}

// The keys that open the tab or section `id`.
export function describeTab(id) {
  const tab = Object.keys(sectionsOf).find((each) => sectionsOf[each].includes(id));
  return tab ? { tab, [tab]: id } : { tab: id };
}

export const getStart = (name) => tabs[name]?.[0] ?? keys[name].start;

// A list of names in the URL: "%" and "," in a name are written as "%25" and "%2C".
const formatNames = (names) =>
  names.map((name) => name.replaceAll("%", "%25").replaceAll(",", "%2C")).join(",");
const parseNames = (text) =>
  text.split(",").map((name) => name.replaceAll("%2C", ",").replaceAll("%25", "%"));

// Parse the text of a URL for a state key; undefined if it is invalid.
function parseText(name, given) {
  const { kind, low, high, step, choices, maxLength, formerValues } = keys[name];
  const text = Object.hasOwn(formerValues, given) ? formerValues[given] : given;
  if (kind === "flag") return { true: true, false: false }[text];
  if (kind === "choice") return choices.find((value) => String(value) === text);
  if (kind === "names") return text ? parseNames(text) : undefined;
  if (kind === "text") return text.slice(0, maxLength);
  const number = Number(text);
  const isValid = text.trim() && number >= low && number <= high && (step !== 1 || Number.isInteger(number));
  return isValid ? number : undefined;
}

const formatValue = (name, value) => (keys[name].kind === "names" ? formatNames(value) : String(value));

const parseFraction = (
  text,
) => (Number.isFinite(Number(text)) ? Math.min(Math.max(Number(text), 0), 1) : 0.5);

// Parse a query; invalid and missing parameters are left out.
export function readQuery(search = window.location.search) {
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
  const layer = Math.round(Number(query.get("layer") ?? 0));
  if (layer > 0 && Number.isFinite(layer)) found.layer = layer;
  readOldLinks(query, found);
  return found;
}

// Links to sections and parts that have moved.
function readOldLinks(query, found) {
  if (query.get("section") === "rollout") {
    Object.assign(found, { source: "rollout", token: query.get("read") === "patches" ? "mean" : "" });
  }
  if (query.get("section") === "side") found.compare = true;
  if (query.get("inside") === "distance") Object.assign(found, { section: "heads", order: "distance" });
  if (query.get("tab") === "data" && query.has("data.model")) {
    Object.assign(found, { tab: "explore", section: "inside", inside: "embeddings" });
  }
  const isKnockout = [query.get("open_fold"), query.get("hands")].includes("knockout") ||
    found.last_blocked >= (found.first_blocked ?? 1);
  if (found.section === "hands" && isKnockout) {
    Object.assign(found, { section: "inside", inside: "ablation" });
  }
  if (query.get("inside") === "epochs" && query.get("section") === "inside" && !query.has("tab")) {
    Object.assign(found, {
      tab: "training",
      "training.animated": found.model ?? "",
      "training.layer": found.layer ?? 0,
    });
  }
}

// Former links have a parameter per tab; the parameter of the open tab counts.
function readFormer(query, found) {
  const isOfTab = (old) => old.startsWith(`${query.get("tab")}.`);
  const names = Object.keys(former).sort((a, b) => isOfTab(b) - isOfTab(a));
  for (const old of names) {
    const value = query.has(old) ? parseText(former[old], query.get(old)) : undefined;
    if (value !== undefined) found[former[old]] ??= value;
  }
  if (query.has("tab")) Object.assign(found, describeTab(parseText("tab", query.get("tab"))));
}

// The parameters of the state. If a key has the value of its leader, the URL contains only the leader.
function listParams() {
  const { image, model } = state;
  const own = image?.source === "own";
  const found = {
    model,
    layer: state.layer || getChosenLayer() || null,
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

// The value of a parameter of the URL, or null.
export function getParameter(name) {
  const value = listParams()[name];
  return value === null || value === undefined ? null : String(value);
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

// Write the state to the URL; `adds` makes it a step of the history.
export function writeUrl({ search = window.location.search, adds = false } = {}) {
  if (!writesUrl) return;
  const text = formatQuery(search);
  if (!adds && text === window.location.search.slice(1)) return;
  history[adds ? "pushState" : "replaceState"](null, "", text ? `?${text}` : window.location.pathname);
}
