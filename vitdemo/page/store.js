// The view state of the page, and the requests for the data of views (see bridge.py).
// A view is { needs, follows, render(element, data, state) }; `needs` and `follows` are state keys.
// The key of a view's data consists of the values of `needs`, and of the stamp of the models (`models`). A change of a key in `follows` draws the view again.
// A change of the state draws the views with current data, and requests the data of other views.
// A view without `showError` shows an error message instead of its content.
vitdemo.store = (() => {
  const state = {};
  const views = {};
  let mounted = []; // { name, element, key (of `data`), asked (requested key), data }
  let bridge = null;
  let queued = false;
  let count = 0;
  const request = vitdemo.newest();

  const isComplete = (name) => views[name].needs.every((key) => (state[key] ?? null) !== null);
  const keyOf = (name) => JSON.stringify([state.models, ...views[name].needs.map((key) => state[key])]);
  const isVisible = (element) => element.isConnected && element.getClientRects().length > 0;
  const isStale = ({ name, element, key }) => isVisible(element) && isComplete(name) && key !== keyOf(name);

  function set(changes) {
    const changed = Object.entries(changes).filter(([name, value]) => JSON.stringify(state[name]) !== JSON.stringify(value));
    if (!changed.length) return;
    Object.assign(state, Object.fromEntries(changed));
    for (const { data, element, key, name } of mounted) {
      const isFollowed = changed.some(([each]) => views[name].follows?.includes(each));
      if (data && isFollowed && key === keyOf(name)) views[name].render(element, data, state);
    }
    refresh();
  }

  // Send one request for all stale views in the next frame, including views with a pending request:
  // of several quick events, gradio handles only the last event.
  function refresh() {
    if (queued || !bridge) return;
    queued = true;
    requestAnimationFrame(() => {
      queued = false;
      mounted = mounted.filter(({ element }) => element.isConnected);
      const stale = mounted.filter(isStale);
      if (stale.every((each) => each.asked === keyOf(each.name))) return;
      for (const each of stale) {
        each.asked = keyOf(each.name);
        each.element.ariaBusy = "true";
      }
      bridge.trigger("ask", request({ id: ++count, state: { ...state }, views: Object.fromEntries(stale.map(({ name, asked }) => [name, asked])) }));
    });
  }

  function receive() {
    const answer = vitdemo.received(bridge.props);
    if (!answer) return;
    for (const each of mounted) {
      const result = answer.views[each.name];
      if (!result) continue;
      if (result.key !== keyOf(each.name)) {
        if (each.asked === result.key) each.asked = null;
        continue;
      }
      updateControls(result.controls ?? {});
      Object.assign(each, { key: keyOf(each.name), asked: null, data: result.data ?? null });
      each.element.ariaBusy = null;
      if (result.data) views[each.name].render(each.element, result.data, state);
      else if (views[each.name].showError) views[each.name].showError(each.element, result.error, state);
      else each.element.replaceChildren(vitdemo.notice(result.error));
    }
    refresh();
  }

  function connect(connection, initial) {
    bridge = connection;
    for (const [name, value] of Object.entries(initial)) state[name] ??= value;
    bridge.watch("value", receive);
    refresh();
  }

  // Called whenever gradio adds the element of a view to the page, which may happen several times.
  function mount(name, root) {
    const element = root.querySelector("div");
    element.dataset.view = name;
    mounted.push({ name, element, key: null, asked: null, data: null });
    new ResizeObserver(refresh).observe(element); // called when a hidden tab is opened
    refresh();
  }

  const define = (name, view) => { views[name] = view; };

  // Define a view whose data are the blocks of a document.
  function defineDocument(name, needs) {
    const drawers = new WeakMap();
    define(name, {
      needs,
      render(element, blocks) {
        element.classList.add("article");
        if (!drawers.has(element)) drawers.set(element, vitdemo.documentIn(element));
        drawers.get(element)(blocks);
      },
    });
  }

  // --- controls of gradio, whose values are part of the state ---

  const updated = {}; // last update of each control as JSON
  let updates = {}; // updates that gradio has not received yet

  // Change properties of controls, given by name. A new value also changes the state.
  function updateControls(changes) {
    for (const [name, properties] of Object.entries(changes)) {
      if (updated[name] === JSON.stringify(properties) && (properties.value ?? state[name]) === state[name]) continue;
      updated[name] = JSON.stringify(properties);
      if ("value" in properties) state[name] = properties.value;
      updates[name] = { ...updates[name], ...properties };
    }
    if (Object.keys(updates).length) bridge.trigger("controls");
  }

  function takeUpdates(names) {
    const taken = updates;
    updates = {};
    return names.map((name) => ({ __type__: "update", ...taken[name] }));
  }

  // Request the data of a view again, for example after a task has changed them.
  function invalidate(name) {
    for (const each of mounted) if (each.name === name) Object.assign(each, { key: null, asked: null });
    refresh();
  }

  // --- long computations ---

  let channel = null;
  let task = null; // the running task: { id, listen }
  const taskRequest = vitdemo.newest();

  // Start a task of bridge.py; a running task is cancelled. `listen` receives each message: first
  // { done, total, text }, finally { end, data, error } or, after a cancellation, { end, cancelled }.
  function startTask(name, listen) {
    cancelTask();
    task = { id: ++count, listen };
    listen({ done: 0, total: 1, text: "" });
    bridge.trigger("start", taskRequest({ id: task.id, task: name, state: { ...state } }));
  }

  function cancelTask() {
    if (!task) return;
    const { id, listen } = task;
    task = null;
    bridge.trigger("cancel", { id });
    listen({ end: true, cancelled: true, data: null, error: null });
  }

  function connectTasks(connection) {
    channel = connection;
    channel.watch("value", () => {
      const message = vitdemo.received(channel.props);
      if (!message || message.id !== task?.id) return;
      const { listen } = task;
      if (message.end) task = null;
      listen(message);
    });
  }

  // Set the layer slider of the page, which sets the layer of all views.
  function chooseLayer(layer) {
    vitdemo.layer = layer;
    set({ layer });
    bridge.trigger("layer");
  }

  return { cancelTask, chooseLayer, connect, connectTasks, define, defineDocument, invalidate, mount, set, startTask, state, takeUpdates, updateControls };
})();
