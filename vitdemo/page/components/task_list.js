import { received } from "./shared.js";
import { taskRowsIn } from "./task_rows.js";

export function mount({ element, props, trigger, watch }) {
  const drawRows = taskRowsIn(element.querySelector("div"), "", (action) => trigger("act", action));
  const draw = () => drawRows(received(props) || []);
  watch("value", draw);
  draw();
}
