// Keeps accordions open. If gradio updates the controls of a tab while it creates the tab, it closes an accordion again that
// the user opens meanwhile.
const CREATION_TIME = 5000; // milliseconds after a click

const guards = new WeakMap(); // observer of each label that the user has just clicked

document.addEventListener("click", keepOpen, { capture: true });

// Click again as soon as an accordion closes without a click. A click on an open accordion closes it.
function keepOpen({ target }) {
  const label = target.closest("button.label-wrap");
  guards.get(label)?.disconnect();
  if (!label || label.matches(".open")) return;
  let wasOpen = false;
  const observer = new MutationObserver(() => {
    if (wasOpen && !label.matches(".open")) label.click();
    wasOpen ||= label.matches(".open");
  });
  guards.set(label, observer);
  observer.observe(label, { attributeFilter: ["class"] });
  setTimeout(() => observer.disconnect(), CREATION_TIME);
}
