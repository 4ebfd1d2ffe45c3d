// Files that the server writes for the user: downloads of bridge.py. A download cancels no task.
import { INTERRUPTED } from "../texts.js";
import { receiveMessages, sendRequest, watchRestored } from "./channel.js";

const listeners = {}; // by id of the request

// Request the file of a download. `listen` receives { file, name, error }; without a file, `error` is a message.
export function requestFile(download, listen) {
  listeners[sendRequest("save", { download })] = listen;
}

function answer(id, found) {
  listeners[id]?.(found);
  delete listeners[id];
}

export const connectDownloads = (connection) =>
  receiveMessages(connection, ({ id, ...found }) => answer(id, found));

watchRestored(() => Object.keys(listeners).forEach((id) => answer(id, { file: null, error: INTERRUPTED })));
