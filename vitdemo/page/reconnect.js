// Waits for the server after the connection is lost, and sends again the requests that failed. This script is not a
// module, since it must run before gradio's client sends its first request.
//
// The page does not poll the server: the heartbeat, a response of gradio that does not end, ends with the connection. Each
// `vitdemo:connection` event on `document` has a `detail`:
// - "interrupted": the server has ended the requests of this page.
// - "lost": the server does not respond.
// - "restored": interrupted requests can be sent again; "restarted" is another process of the server.
(() => {
  const send = window.fetch;
  const PROBE_INTERVAL = 2000; // milliseconds
  const MAX_PROBE_TIME = 10000;
  const MAX_SILENCE = 60000; // gradio sends a part of the heartbeat every 15 s
  const MAX_TRIES = 3; // attempts for a request that fails although the server responds
  const GATEWAY_ERRORS = [502, 504]; // status of a proxy whose server does not respond
  let appId = null; // id of the process that has sent the page
  let isInterrupted = false;
  let isLeaving = false;
  addEventListener("pagehide", () => (isLeaving = true));
  addEventListener("pageshow", () => (isLeaving = false));

  const sleep = (time) => new Promise((resolve) => setTimeout(resolve, time));
  const tell = (detail) => document.dispatchEvent(new CustomEvent("vitdemo:connection", { detail }));

  function interrupt() {
    isInterrupted = true;
    tell("interrupted");
  }

  // The id of the server's process, or null if it does not respond.
  async function probe() {
    try {
      const options = { cache: "no-store", signal: AbortSignal.timeout(MAX_PROBE_TIME) };
      const response = await send("./gradio_api/app_id", options);
      return response.ok ? (await response.json()).app_id : null;
    } catch {
      return null;
    }
  }

  // The events of a page have numbers, so another page must be loaded.
  const describePage = ({ dependencies, head }) =>
    JSON.stringify([dependencies.map(({ targets }) => targets), head]);

  async function checkPage() {
    const config = await (await send("./config", { cache: "no-store" })).json();
    if (describePage(config) !== describePage(window.gradio_config)) window.location.reload();
  }

  async function waitForServer() {
    let found = await probe();
    if (!found) {
      tell("lost");
      interrupt();
    }
    while (!found) {
      await sleep(PROBE_INTERVAL);
      found = await probe();
    }
    const isOther = found !== (appId ?? found);
    appId = found;
    if (isOther) await checkPage();
    if (isInterrupted || isOther) tell(isOther ? "restarted" : "restored");
    isInterrupted = false;
  }

  let waiting = null;
  const waitUntilRestored = () => (waiting ??= waitForServer().finally(() => (waiting = null)));

  async function persist(input, init) {
    const signal = init?.signal ?? input.signal;
    for (let tries = 1;; tries++) {
      try {
        const response = await send(input instanceof Request ? input.clone() : input, init);
        if (!GATEWAY_ERRORS.includes(response.status) || tries === MAX_TRIES) return response;
      } catch (error) {
        if (signal?.aborted || isLeaving || tries === MAX_TRIES) throw error;
      }
      await waitUntilRestored();
    }
  }

  // Read a response until it ends, or until the server is silent.
  async function drain({ body }) {
    const reader = body.getReader();
    let timer = null;
    for (let part = {}; !part.done; part = await reader.read().catch(() => ({ done: true }))) {
      clearTimeout(timer);
      timer = setTimeout(() => reader.cancel(), MAX_SILENCE);
    }
    clearTimeout(timer);
  }

  // Repeat the heartbeat. gradio's client, which does not read it, gets a response that does not end.
  async function keepAlive(request) {
    const first = await persist(request);
    if (!first.body) return first;
    appId ??= window.gradio_config?.app_id;
    (async () => {
      for (let response = first;; response = await persist(request)) {
        if (response.ok) await drain(response);
        if (request.signal.aborted || isLeaving) return;
        interrupt();
        await waitUntilRestored();
        if (!response.ok) await sleep(PROBE_INTERVAL);
      }
    })();
    return new Response(new ReadableStream(), { status: first.status, headers: first.headers });
  }

  window.fetch = (input, init) => {
    const url = new URL(input.url ?? input, window.location.href);
    if (url.protocol === "blob:" || url.origin !== window.location.origin) return send(input, init);
    const isHeartbeat = /\/heartbeat\/\w+$/.test(url.pathname);
    return isHeartbeat ? keepAlive(new Request(input, init)) : persist(input, init);
  };
})();
