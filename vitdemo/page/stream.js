// Works around a bug in gradio 6.31, which loses responses to requests sent while its stream closes.
//
// The server closes the response stream (queue/data) when it has no open request. A new request (queue/join) may be on
// its way at that moment. If its receipt reaches the browser before the closing message, gradio's client assumes that
// the stream is still open, and waits forever. Therefore, this script passes on the closing message only if no request
// is open. Otherwise it reconnects the stream, which the client does not notice. This script is not a module, since it
// must run before the client's first request.
//
// If the connection is interrupted (see reconnect.js), the server has ended all requests. Then the client gets an error for
// each open request. Otherwise the client would load the page again. The message is not shown if store.js repeats the
// request.
(() => {
  const send = window.fetch;
  const REPEATED = ["ask", "act", "start", "save", "cancel", "controls"]; // events that store.js triggers
  const sessions = new Map(); // session hash -> its open requests: event id -> number of the event's function

  const getSession = (hash) => {
    if (!sessions.has(hash)) sessions.set(hash, { sent: 0, open: new Map(), early: new Set(), reader: null });
    return sessions.get(hash);
  };

  // Send a request. It is open until its response arrives, possibly before the receipt.
  async function join(input, init, own) {
    own.sent += 1;
    try {
      const response = await send(input, init);
      const id = response.ok ? (await response.clone().json()).event_id : null;
      if (id && !own.early.delete(id)) own.open.set(id, JSON.parse(init.body).fn_index);
      return response;
    } finally {
      own.sent -= 1;
    }
  }

  // Return whether a message of the stream ("data: {...}") is passed on to the client.
  function takeMessage(message, own) {
    const text = message.match(/^data:\s*(.*)$/m)?.[1];
    const found = text ? JSON.parse(text) : {};
    if (found.event_id) document.dispatchEvent(new CustomEvent("vitdemo:queue", { detail: found }));
    if (found.msg === "process_completed" && !own.open.delete(found.event_id)) own.early.add(found.event_id);
    return found.msg !== "close_stream" || own.sent + own.open.size === 0;
  }

  function describeEnd({ status }) {
    return `The response stream ended with HTTP status ${status}. Reload the page.`;
  }

  const isRepeated = (number) =>
    window.gradio_config.dependencies.find(({ id }) => id === number)?.targets
      .every(([, name]) => REPEATED.includes(name)) ?? false;

  // The messages that end all open requests.
  const describeErrors = (own, { INTERRUPTED }) =>
    [...own.open].map(([id, number]) => ({
      msg: "process_completed",
      event_id: id,
      success: false,
      output: { error: INTERRUPTED, visible: !isRepeated(number) },
    })).map(format);
  const format = (message) => `data: ${JSON.stringify(message)}`;

  document.addEventListener("vitdemo:connection", ({ detail }) => {
    if (detail === "interrupted") { for (const { reader } of sessions.values()) reader?.cancel(); }
  });

  async function pump(request, first, own, controller) {
    const text = new TextEncoder();
    const pass = (message) => controller.enqueue(text.encode(message + "\n\n"));
    for (let response = first;; response = await send(request.clone())) {
      if (!response.ok) throw new Error(describeEnd(response));
      own.reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      const read = () => own.reader.read().catch(() => ({ done: true })); // an interrupted stream ends
      let rest = "";
      let isClosed = false; // whether the server has closed the stream
      let isContinued = false;
      for (let part = await read(); !part.done; part = await read()) {
        const messages = (rest + part.value).split("\n\n");
        rest = messages.pop();
        for (const message of messages) {
          isClosed ||= message.includes('"close_stream"');
          if (takeMessage(message, own)) pass(message);
          else isContinued = true;
        }
      }
      own.reader = null;
      if (isContinued) continue;
      if (!isClosed) {
        for (const message of describeErrors(own, await vitdemo.load("texts.js"))) {
          if (takeMessage(message, own)) pass(message);
        }
        pass(format({ msg: "close_stream" })); // a request that is sent now opens a new stream
      }
      return controller.close();
    }
  }

  async function stream(request, own) {
    const response = await send(request.clone());
    if (!response.ok || !response.body) return response;
    const body = new ReadableStream({
      start: (controller) => {
        pump(request, response, own, controller).catch((error) => controller.error(error));
      },
    });
    return new Response(body, { status: response.status, headers: response.headers });
  }

  window.fetch = (input, init) => {
    const url = new URL(input.url ?? input, window.location.href);
    if (url.pathname.endsWith("/queue/join") && typeof init?.body === "string") {
      return join(input, init, getSession(JSON.parse(init.body).session_hash));
    }
    if (url.pathname.endsWith("/queue/data")) {
      return stream(new Request(input, init), getSession(url.searchParams.get("session_hash")));
    }
    return send(input, init);
  };
})();
