// Stores the site in this browser with service_worker.js, and shows in one line how much is stored.
import { makeElement, markup, render } from "../page/markup.js";
import { firstAnswer } from "../page/store.js";

const PARALLEL = 3; // files that are loaded at the same time
const RETRY_AFTER = 1000; // milliseconds; Chromium does not replace a service worker that is storing files
const MAX_RESOURCES = 5000; // files of the page that the browser lists
const FULL = "This browser has no space left to store this site. The page works, but it needs the network.";
const NOT_STORED = "This browser could not store this site. The page works, but it needs the network.";

let isLeaving = false; // the user has chosen the new version

// A line with the progress, and with the offer of a new version; `show` changes one of them.
function createLine() {
  const line = makeElement(markup`<p class="vd-offline"></p>`);
  const parts = { progress: "", offer: "" };
  document.body.append(line);
  function show(changes) {
    Object.assign(parts, changes);
    render(markup`${parts.progress} <span role="status">${parts.offer}</span>`, line);
  }
  return { show };
}

function formatSize(bytes) {
  const size = bytes / 1e6;
  return size.toFixed(size < 10 ? 1 : 0);
}

// Send a message to the service worker, and return its answer.
function ask(worker, message) {
  const { port1, port2 } = new MessageChannel();
  worker.postMessage(message, [port2]);
  return new Promise((resolve) => port1.onmessage = ({ data }) => resolve(data));
}

// Store `files` one after the other, until one cannot be stored. Returns its answer, or undefined.
async function saveAll(worker, files) {
  for (const { url } of files) {
    if (isLeaving) return;
    const answer = await ask(worker, { store: url });
    if (!answer.stored) return answer;
  }
}

// Several queues load files from one iterator. Only one page of the site does so at a time.
function saveInParallel(worker, files, version) {
  const iterator = files.values();
  const run = () => Promise.all(Array.from({ length: PARALLEL }, () => saveAll(worker, iterator)));
  return navigator.locks.request(`vitdemo ${version}`, run);
}

const listLoaded = () => new Set(performance.getEntriesByType("resource").map(({ name }) => name));

// Store the files that the page needs, and show the progress. To save data, only files of visited views are stored.
async function saveSite(worker, version, line) {
  const list = await ask(worker, { list: true });
  if (list.version !== version) return; // the page is from another version, which `watchUpdates` reports
  const saves = Boolean(navigator.connection?.saveData);
  const sizes = new Map(list.files.map(({ url, size }) => [url, size]));
  const total = [...sizes.values()].reduce((sum, size) => sum + size, 0);
  const stored = new Set(list.stored.filter((url) => sizes.has(url)));
  let problem = "";
  function show() {
    const size = [...stored].reduce((sum, url) => sum + sizes.get(url), 0);
    const progress = size === total ? formatSize(total) : `${formatSize(size)} of ${formatSize(total)}`;
    const note = saves && size < total
      ? " Only visited views are stored, because this browser saves data."
      : "";
    line.show({ progress: problem || `Available offline: ${progress} MB.${note}` });
  }
  navigator.serviceWorker.addEventListener("message", ({ data }) => {
    if (data.isFull) problem = FULL;
    else if (sizes.has(data.stored)) stored.add(data.stored);
    show();
  });
  navigator.serviceWorker.startMessages();
  async function load() {
    const loaded = listLoaded();
    const missing = list.files.filter(({ url }) => !stored.has(url) && (!saves || loaded.has(url)));
    const answers = await saveInParallel(worker, missing, version);
    if (answers.some((answer) => answer?.isFull)) problem = FULL;
    show();
  }
  show();
  addEventListener("online", load);
  await load();
}

// Offer a new version of the site, which waits until all pages of the earlier version are closed.
function watchUpdates(registration, line) {
  const sendActivation = () => registration.waiting?.postMessage({ activate: true });
  function switchVersion() {
    isLeaving = true;
    sendActivation();
    setInterval(sendActivation, RETRY_AFTER);
  }
  const showOffer = () =>
    line.show({
      offer:
        markup`A new version of this site is available. <button @click=${switchVersion}>Load it</button>`,
    });
  registration.addEventListener("updatefound", () => {
    const found = registration.installing;
    found.addEventListener("statechange", () => {
      if (found.state === "installed" && registration.active) showOffer();
      if (found.state === "redundant" && !registration.active) line.show({ progress: NOT_STORED });
    });
  });
  if (registration.waiting && registration.active) showOffer();
}

// Store the site if the browser can; a page from the disk or without TLS has no service worker.
export async function startOffline(version) {
  performance.setResourceTimingBufferSize(MAX_RESOURCES);
  await firstAnswer; // the first view is loaded first
  const container = navigator.serviceWorker;
  if (!container) return;
  const isControlled = Boolean(container.controller);
  container.addEventListener("controllerchange", () => isControlled && location.reload());
  try {
    const registration = await container.register("service-worker.js");
    const line = createLine();
    watchUpdates(registration, line);
    const { active } = await container.ready;
    await saveSite(active, version, line);
  } catch {
    // The site has no service worker, or the browser's settings forbid it.
  }
}
