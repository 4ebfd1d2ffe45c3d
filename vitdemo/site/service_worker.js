// The service worker of a static site: it stores the site's files, so that the site also works without a network. offline.py
// describes the list of the files. offline.js, on the page, sends these messages with a port for the answer:
//
//   { list: true }      -> { version, files, stored: URLs of the stored files }
//   { store: url }      -> { stored: true }, or { stored: false, isFull }
//   { activate: true }  replace the earlier version, whose pages then load again
//
// Every page receives { stored: url } after a file was stored, and { isFull: true } if there is no space left.
const LIST = "offline.json?v=VERSION"; // offline.py writes the version, so each version has a new script
const PREFIX = `vitdemo ${self.registration.scope} `; // other sites of the same origin have other stores
const STORE = PREFIX + LIST;
const HASH_LENGTH = 20; // see offline.py
let list = null; // promise

const getAddress = (url) => new URL(url, self.registration.scope).href;

async function readList() {
  const found = await (await caches.open(STORE)).match(getAddress(LIST));
  const { files, ...rest } = await found.json();
  return { ...rest, files: files.map(([url, size, hash]) => ({ url: getAddress(url), size, hash })) };
}

const getList = () => (list ??= readList());

async function computeHash(response) {
  const digest = await crypto.subtle.digest("SHA-256", await response.arrayBuffer());
  const digits = Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0"));
  return digits.join("").slice(0, HASH_LENGTH);
}

async function tellPages(message) {
  for (const page of await self.clients.matchAll({ includeUncontrolled: true })) page.postMessage(message);
}

// Store a response if it is the file of this version. Returns whether it is stored.
async function saveResponse({ url, hash }, response) {
  if (!response.ok || await computeHash(response.clone()) !== hash) return false;
  await (await caches.open(STORE)).put(url, response);
  await tellPages({ stored: url });
  return true;
}

// Fetch and store a file of the list. The browser's own cache may contain another version.
async function saveFile(file) {
  const { url } = file;
  if (await (await caches.open(STORE)).match(url)) return true;
  return await saveResponse(file, await fetch(url)) ||
    await saveResponse(file, await fetch(url, { cache: "reload" }));
}

const isFull = ({ name }) => name === "QuotaExceededError";

async function saveByUrl(url) {
  try {
    const { files } = await getList();
    return { stored: await saveFile(files.find((file) => file.url === url)) };
  } catch (error) {
    return { stored: false, isFull: isFull(error) };
  }
}

async function fillStore() {
  try {
    const response = await fetch(getAddress(LIST), { cache: "reload" });
    if (!response.ok) throw new Error(`status ${response.status}`);
    await (await caches.open(STORE)).put(getAddress(LIST), response);
    const { files, shell } = await getList();
    const stored = await Promise.all(files.slice(0, shell).map(saveFile));
    if (stored.includes(false)) throw new Error("a file belongs to another version");
  } catch (error) {
    await caches.delete(STORE);
    throw error;
  }
}

async function removeOthers() {
  for (const name of await caches.keys()) {
    if (name.startsWith(PREFIX) && name !== STORE) await caches.delete(name);
  }
  await self.clients.claim();
}

// The URL of the file that answers a request; all views have the same document.
function locateFile({ url, mode }) {
  const { origin, pathname, search } = new URL(url);
  const folder = new URL(self.registration.scope).pathname;
  const isDocument = mode === "navigate" && [folder, `${folder}index.html`].includes(pathname);
  return isDocument ? self.registration.scope : origin + pathname + search;
}

// Answer from the store, or from the network; the response of the network is stored.
async function answer(event) {
  const url = locateFile(event.request);
  const found = await (await caches.open(STORE)).match(url);
  if (found) return found;
  const response = await fetch(event.request);
  const { files } = await getList();
  const file = files.find((each) => each.url === url);
  if (file) {
    const copy = response.clone();
    const stored = saveResponse(file, copy).catch((error) => isFull(error) && tellPages({ isFull: true }));
    event.waitUntil(stored);
  }
  return response;
}

async function describeStore() {
  const { version, files } = await getList();
  const requests = await (await caches.open(STORE)).keys();
  return { version, files, stored: requests.map(({ url }) => url) };
}

async function handleMessage({ data, ports: [port] }) {
  if (data.activate) return self.skipWaiting();
  port.postMessage(data.list ? await describeStore() : await saveByUrl(data.store));
}

addEventListener("install", (event) => event.waitUntil(fillStore()));
addEventListener("activate", (event) => event.waitUntil(removeOthers()));
addEventListener("message", (event) => event.waitUntil(handleMessage(event)));
addEventListener("fetch", (event) => {
  const { method, url } = event.request;
  if (method === "GET" && url.startsWith(self.registration.scope)) event.respondWith(answer(event));
});
