// The view state of the page, its URL, and the requests for the data of views: the functions of the folder `store`.
//
// The state has a value for each key. `set` changes the state, writes the URL, and draws the views that follow the
// changed keys. It also requests the data of visible views whose data are for another state.
export { act, connectActions } from "./store/actions.js";
export { isTaskKnown, parsePayload } from "./store/channel.js";
export { showControl, takeChanges, updateControls } from "./store/controls.js";
export { connectDownloads, requestFile } from "./store/downloads.js";
export { choose, chooseLayer, getFirstModel, takeLayer } from "./store/models.js";
export { getInitialImage, open, openImage, openTab, openTabs, start } from "./store/navigation.js";
export { getLabels, keys, set, state, watch } from "./store/state.js";
export { cancelTask, connectTasks, isTaskRunning, startTask, stopTask } from "./store/tasks.js";
export { getParameter } from "./store/url.js";
export {
  checkModels,
  connect,
  define,
  firstAnswer,
  firstRequest,
  invalidate,
  invalidateViewsOf,
  listNeeds,
  mount,
  redraw,
} from "./store/views.js";
