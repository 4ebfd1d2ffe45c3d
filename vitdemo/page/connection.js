// Connects the store to functions instead of gradio's components: see bridge.py for the messages.
import * as store from "./store.js";

// Replacement for a component of gradio: `send(value)` changes the value.
function createChannel() {
  const props = {};
  let listen = null;
  function send(value) {
    props.value = value;
    listen();
  }
  return { props, send, watch: (_, heard) => (listen = heard) };
}

// Handle one request at a time. Of several waiting requests, only the last request is handled, as in gradio.
function handleLastOnly(handle) {
  let [isBusy, waiting] = [false, null];
  return async (request) => {
    waiting = request;
    if (isBusy) return;
    isBusy = true;
    try {
      while (waiting) {
        const current = waiting;
        waiting = null;
        await handle(current);
      }
    } finally {
      isBusy = false;
    }
  };
}

// Handle the requests one by one, in their order.
function handleInOrder(handle) {
  let last = Promise.resolve();
  return (request) => (last = last.then(() => handle(request)));
}

// Connect the store to functions by event. `ask`, `act` and `save` return the answer, or a promise of it; `start` returns an
// asynchronous iterator of messages. Answers have the form { text, files }. Events without a function are ignored.
// `description` contains the controls and the needs of views, as in bridge.py.
export function connect({ ask, act, start, save, cancel, controls }, description) {
  const [answers, results, messages, files] = Array.from({ length: 4 }, createChannel);
  const handlers = {
    cancel,
    controls,
    ask: handleLastOnly(async (request) => answers.send(await ask(request))),
    act: act && handleInOrder(async (request) => results.send(await act(request))),
    save: save && (async (request) => files.send(await save(request))),
    start: start && (async (request) => {
      for await (const message of start(request)) messages.send(message);
    }),
  };
  store.connectTasks(messages);
  store.connectActions(results);
  store.connectDownloads(files);
  store.connect({ ...answers, trigger: (event, request) => handlers[event]?.(request) }, description);
}

// Use the dark theme if the browser prefers it.
export const matchTheme = () =>
  document.documentElement.classList.toggle("dark", matchMedia("(prefers-color-scheme:dark)").matches);
