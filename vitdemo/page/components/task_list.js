import { parsePayload } from "./shared.js";
import { createTaskRows } from "./task_rows.js";

export function mount({ element, props, trigger, watch }) {
  const drawRows = createTaskRows(element.querySelector("div"), "", (action) => trigger("act", action));
  const draw = () => drawRows(parsePayload(props) || []);
  watch("value", draw);
  draw();
}
