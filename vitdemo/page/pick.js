// Runs once for each PickHTML; `element` stays while its content is drawn anew.
const buttons = (place) => [...place.querySelectorAll("[data-pick]")];
const asked = vitdemo.newest();
let picked = null;

function rove(button) {
  const place = button.closest("[data-columns]");
  if (!place) return;
  for (const other of buttons(place)) other.tabIndex = other === button ? 0 : -1;
}

function settle() {
  for (const place of element.querySelectorAll("[data-columns]")) {
    const all = buttons(place);
    const first = all.find((b) => b.matches("[aria-pressed=true], [aria-current=true]")) || all[0];
    if (first) rove(first);
  }
}

element.addEventListener("click", (event) => {
  const button = event.target.closest("[data-pick]");
  if (!button || !element.contains(button) || button.disabled) return;
  picked = button.dataset.pick;
  rove(button);
  trigger("pick", asked({ pick: picked }));
});

element.addEventListener("focusin", (event) => {
  const button = event.target.closest("[data-pick]");
  if (button) rove(button);
});

element.addEventListener("keydown", (event) => {
  const button = event.target.closest("[data-pick]");
  const place = button && button.closest("[data-columns]");
  if (!place || event.ctrlKey || event.altKey || event.metaKey) return;
  const all = buttons(place);
  const at = all.indexOf(button);
  const flows = place.dataset.columns === "auto"; // as many as fit: a row's end leads to the next
  const top = (b) => b.getBoundingClientRect().top;
  const columns = flows
    ? all.filter((b) => top(b) === top(all[0])).length
    : Number(place.dataset.columns);
  const column = at % columns;
  const next = {
    ArrowLeft: flows || column > 0 ? at - 1 : at,
    ArrowRight: flows || column < columns - 1 ? at + 1 : at,
    ArrowUp: at - columns,
    ArrowDown: at + columns,
    Home: at - column,
    End: Math.min(at - column + columns - 1, all.length - 1),
  }[event.key];
  if (next === undefined) return;
  event.preventDefault();
  const target = all[next];
  if (!target) return;
  rove(target);
  target.focus();
});

watch("value", () => {
  settle();
  if (picked === null || document.activeElement !== document.body) return;
  const again = buttons(element).find((button) => button.dataset.pick === picked);
  if (again) again.focus({ preventScroll: true });
});
settle();
