// Menu of runs. This script runs once, since the component's template does not contain the value.
import { markup, nothing, render } from "../markup.js";
import * as store from "../store.js";

const drawOption = (name, text = name) => markup`<option value=${name}>${text}</option>`;
const drawGroup = ([title, names]) =>
  markup`<optgroup label=${title}>${names.map((name) => drawOption(name))}</optgroup>`;

export function mount({ element, props, trigger, watch }) {
  element.replaceChildren(); // some layouts have a gap between all children
  const [id, help, warning] = ["select", "info", "warning"].map((part) => `${element.id}-${part}`);

  function choose({ target }) {
    props.value = target.value;
    if (isShared) store.choose("model", props.value);
    trigger("input");
  }

  function draw() {
    render(
      markup`<label for=${id}>${props.label ?? ""}</label><small id=${help}>${
        props.info ?? ""
      }</small><select id=${id}
        aria-describedby=${`${help} ${warning}`} @change=${choose}>${
        props.nobody ? drawOption("", props.nobody) : nothing
      }${(props.groups ?? []).map(drawGroup)}</select><small id=${warning} class="warning" role="status">${
        props.warning ?? ""
      }</small>`,
      element,
    );
    element.querySelector("select").value = props.value ?? "";
    if (isShared && !store.state.model) store.set({ model: props.value || null });
  }

  // The model of Explore is part of the view state.
  const isShared = Boolean(element.closest("#model"));

  watch(["groups", "value", "warning"], draw);
  draw();
}
