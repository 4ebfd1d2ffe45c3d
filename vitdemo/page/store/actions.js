// Short changes of the user's data on the server: actions of bridge.py.
import { INTERRUPTED } from "../texts.js";
import { receiveMessages, sendRequest, watchRestored } from "./channel.js";
import { listKeys, refresh, takeChanged } from "./views.js";

const actions = {}; // by id: { listen, keys (of the views' data when the action was sent) }

// Run an action; the server runs the actions of a session one by one, in their order. The answer has the data of the
// views that the action changed. `listen` receives an error message, or null.
export function act(name, fields = {}, listen = () => {}) {
  actions[sendRequest("act", { action: name, fields })] = { listen, keys: listKeys() };
}

export const connectActions = (connection) =>
  receiveMessages(connection, ({ id, views, error }) => {
    const { listen, keys } = actions[id] ?? { listen: () => {}, keys: {} };
    delete actions[id];
    takeChanged(views, keys);
    listen(error);
    refresh();
  });

// Changes of the user's data are not sent again.
watchRestored(() => {
  for (const [id, { listen }] of Object.entries(actions)) {
    delete actions[id];
    listen(INTERRUPTED);
  }
});
