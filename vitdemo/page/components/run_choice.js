// Menu of runs. This script runs once, since the component's template does not contain the value.
import * as store from "../store.js";

export function mount({ element, props, trigger, watch }) {
  const [label, info, select] = ["label", "small", "select"].map((tag) => document.createElement(tag));
  element.replaceChildren(label, info, select);
  select.id = label.htmlFor = `${element.id}-select`;
  info.id = `${element.id}-info`;
  select.setAttribute("aria-describedby", info.id);

  function option(name, words = name) {
    const made = document.createElement("option");
    made.value = name;
    made.textContent = words;
    return made;
  }

  function draw() {
    label.textContent = props.label ?? "";
    info.textContent = props.info ?? "";
    const groups = (props.groups ?? []).map(([title, names]) => {
      const made = document.createElement("optgroup");
      made.label = title;
      made.append(...names.map((name) => option(name)));
      return made;
    });
    select.replaceChildren(...(props.nobody ? [option("", props.nobody)] : []), ...groups);
    select.value = props.value ?? "";
    if (isShared) share();
  }

  // The model of Explore is part of the view state.
  const isShared = Boolean(element.closest("#model"));
  let drawn = null; // the drawn groups and the value; a change may come from Python, for example after a download

  function share() {
    const { checkModels, set, state } = store;
    const now = JSON.stringify([props.groups, props.value]);
    if (!state.model || (drawn && drawn !== now && props.value)) set({ model: props.value || null });
    if (drawn && drawn !== now) checkModels();
    drawn = now;
  }

  select.addEventListener("change", () => {
    props.value = select.value;
    if (isShared) store.choose("model", props.value);
    trigger("input");
  });
  watch(["groups", "value"], draw);
  draw();
}
