// Works around a bug in gradio 6.31, which loses responses to requests sent while its stream closes.
//
// The server closes the response stream (queue/data) when it has no open request. A new request
// (queue/join) may be on its way at that moment. If its receipt reaches the browser before the closing
// message, gradio's client assumes that the stream is still open, and waits forever. So this script
// passes the closing message on only if no request is open. Otherwise it reconnects the stream, which
// the client does not notice. This script is no module, since it must run before the client's first request.
(() => {
  const asked = window.fetch;
  const sessions = new Map(); // session hash -> its open requests

  const session = (hash) => {
    if (!sessions.has(hash)) sessions.set(hash, { sent: 0, open: new Set(), early: new Set() });
    return sessions.get(hash);
  };

  // Send a request. It is open until its response arrives, possibly before the receipt.
  async function join(input, init, own) {
    own.sent += 1;
    try {
      const response = await asked(input, init);
      const id = response.ok ? (await response.clone().json()).event_id : null;
      if (id && !own.early.delete(id)) own.open.add(id);
      return response;
    } finally {
      own.sent -= 1;
    }
  }

  // Return whether a message of the stream ("data: {...}") is passed on to the client.
  function passes(message, own) {
    const text = message.match(/^data:\s*(.*)$/m)?.[1];
    const found = text ? JSON.parse(text) : {};
    if (found.event_id) document.dispatchEvent(new CustomEvent("vitdemo:queue", { detail: found }));
    if (found.msg === "process_completed" && !own.open.delete(found.event_id)) own.early.add(found.event_id);
    return found.msg !== "close_stream" || own.sent + own.open.size === 0;
  }

  async function describeEnd({ status }) {
    const { fill, TEXTS } = await vitdemo.loaded;
    return fill(TEXTS.page.stream_ended, { status });
  }

  async function pump(request, first, own, controller) {
    const text = new TextEncoder();
    for (let response = first;; response = await asked(request.clone())) {
      if (!response.ok) throw new Error(await describeEnd(response));
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      let goesOn = false;
      for (let part = await reader.read(); !part.done; part = await reader.read()) {
        const messages = (rest + part.value).split("\n\n");
        rest = messages.pop();
        for (const message of messages) {
          if (passes(message, own)) controller.enqueue(text.encode(message + "\n\n"));
          else goesOn = true;
        }
      }
      if (!goesOn) return controller.close();
    }
  }

  async function stream(request, own) {
    const response = await asked(request.clone());
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
      return join(input, init, session(JSON.parse(init.body).session_hash));
    }
    if (url.pathname.endsWith("/queue/data")) {
      return stream(new Request(input, init), session(url.searchParams.get("session_hash")));
    }
    return asked(input, init);
  };
})();
