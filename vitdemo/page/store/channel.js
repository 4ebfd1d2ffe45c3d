// Messages between the store and the server: see bridge.py.
import { describeState } from "./state.js";

let connection = null; // of the answers: { props, watch, trigger }
let count = 0;

let tasks = null; // names of the tasks that the connection can run; null: all tasks

// Of several quick events "ask", gradio handles the first and the last, but with the data of the first event. Therefore
// all share one object, which contains the newest request.
const newest = {};

// Parse the value sent by Python: see `serialise_payload` of components/__init__.py.
export function parsePayload({ value }) {
  if (!value) return null;
  return JSON.parse(value.text, (_, each) => value.files[each?.["file#"]] ?? each);
}

// Call `receive` with each message of a component or channel.
export function receiveMessages({ props, watch }, receive) {
  watch("value", () => {
    const message = parsePayload(props);
    if (message) receive(message);
  });
}

export function connectAnswers(answers, receive) {
  connection = answers;
  receiveMessages(answers, receive);
}

export const setTasks = (names) => (tasks = names ?? null);
export const isTaskKnown = (name) => !tasks || tasks.includes(name);
export const trigger = (event, data) => connection.trigger(event, data);

// Send a request with the current state and a new id, and return the id. The server may ignore a request "ask" if another
// one follows.
export function sendRequest(event, fields) {
  const request = { id: ++count, state: describeState(), ...fields };
  trigger(event, event === "ask" ? Object.assign(newest, request) : request);
  return request.id;
}

// Call `repeat` when the server responds again after it has ended all requests: see reconnect.js.
export const watchRestored = (repeat) =>
  document.addEventListener("vitdemo:connection", ({ detail }) => {
    if (["restored", "restarted"].includes(detail)) repeat();
  });
