// Links to parts of other tabs.
import * as store from "../store.js";

// Open the tab Compare models at the ablation of the baseline `name`.
export function openAblation(name) {
  store.updateControls({ "compare.base": { value: name } });
  store.openTab("compare");
  scrollToAblation();
}

// The tables above the ablation still grow after the jump, so this corrects the scroll position for three seconds,
// unless the user scrolls or clicks.
function scrollToAblation() {
  const show = () => document.querySelector("#gains-base")?.scrollIntoView({ block: "start" });
  const growing = new ResizeObserver(show);
  const moves = ["wheel", "touchstart", "pointerdown", "keydown"];
  const leave = () => {
    growing.disconnect();
    moves.forEach((move) => removeEventListener(move, leave));
  };
  growing.observe(document.querySelector(".gradio-container"));
  moves.forEach((move) => addEventListener(move, leave));
  setTimeout(leave, 3000);
}
