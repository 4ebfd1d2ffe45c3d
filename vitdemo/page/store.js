// The view state of the page, and the requests for the data of views (see bridge.py).
// A view is { needs, follows, render(element, data, state) }; `needs` and `follows` are state keys.
// The key of a view's data consists of the values of `needs`. A change of a key in `follows` draws the view again.
// A change of the state draws the views with current data, and requests the data of other views.
vitdemo.store = (() => {
  const state = {};
  const views = {};
  let mounted = []; // { name, element, key (of `data`), asked (requested key), data }
  let bridge = null;
  let queued = false;
  let count = 0;
  const request = vitdemo.newest();

  const isComplete = (name) => views[name].needs.every((key) => (state[key] ?? null) !== null);
  const keyOf = (name) => JSON.stringify(views[name].needs.map((key) => state[key]));
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
      Object.assign(each, { key: result.key, asked: null, data: result.data ?? null });
      each.element.ariaBusy = null;
      if (result.data) views[each.name].render(each.element, result.data, state);
      else each.element.replaceChildren(vitdemo.notice(result.error));
    }
    refresh();
  }

  function connect(connection) {
    bridge = connection;
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

  // Set the layer slider of the page, which sets the layer of all views.
  function chooseLayer(layer) {
    vitdemo.layer = layer;
    set({ layer });
    bridge.trigger("layer");
  }

  return { chooseLayer, connect, define, defineDocument, mount, set, state };
})();
