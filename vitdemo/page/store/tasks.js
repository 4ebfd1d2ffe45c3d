// Long computations on the server: tasks of bridge.py. One task runs at a time.
import { receiveMessages, sendRequest, trigger, watchRestored } from "./channel.js";
import { watch } from "./state.js";
import { checkModels, firstAnswer, hasAnswer } from "./views.js";

const CANCELLED = { end: true, cancelled: true, data: null, error: null };
let task = null; // { id (null: not sent), name, listen, watched, isRunning (on the server), isStopping }

// Start a task; a running task is cancelled. `listen` receives each message: first { done, total, text }, finally {
// end, data, error } or, after a cancellation, { end, cancelled }. A task that is stopped also sends { isStopping } until it
// has ended. A change of a state key in `watched` cancels the task immediately.
export function startTask(name, listen, watched = []) {
  cancelTask();
  const started = { id: null, name, listen, watched };
  task = started;
  listen({ done: 0, total: 1, text: "" });
  // Values of the URL may not exist, so the task is sent after the first answer.
  if (hasAnswer) return sendTask();
  checkModels();
  firstAnswer.then(() => task === started && sendTask());
}

export const isTaskRunning = () => task !== null;

function sendTask() {
  task.id = sendRequest("start", { task: task.name });
}

export function cancelTask() {
  if (!task) return;
  const { id, listen } = task;
  task = null;
  if (id !== null) trigger("cancel", { id });
  listen(CANCELLED);
}

watch(() => task?.watched ?? [], (_state, _changes, isCorrection) => isCorrection || cancelTask());

// Cancel the task on the user's request. A task that runs ends at its next step.
export function stopTask() {
  if (!task?.isRunning) return cancelTask();
  task.isStopping = true;
  trigger("cancel", { id: task.id });
  task.listen({ isStopping: true });
}

export const connectTasks = (connection) =>
  receiveMessages(connection, (message) => {
    if (!task || message.id !== task.id) return;
    const { listen, isStopping } = task;
    task.isRunning = true;
    if (message.end) task = null;
    if (!isStopping) listen(message);
    else if (message.end) listen(CANCELLED);
  });

watchRestored(() => {
  if (task?.isStopping) return cancelTask();
  if (!task || task.id === null) return;
  trigger("cancel", { id: task.id });
  sendTask();
});
