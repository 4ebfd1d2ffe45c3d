// Keeps accordions open: one that the user opens closes only by a click. gradio ignores a click while it creates the
// accordion, and closes the accordion again if it updates the controls of a tab that it still creates.
const PATIENCE = 300; // milliseconds that gradio may need to open an accordion

const observers = new WeakMap(); // the observer of each label whose accordion stays open
const isOpen = (label) => label.matches(".open");

document.addEventListener("click", ({ target }) => {
  const label = target.closest("button.label-wrap");
  observers.get(label)?.disconnect();
  observers.delete(label);
  if (label && !isOpen(label)) keepOpen(label);
}, { capture: true });

// Click again if the accordion does not open, and as soon as it closes. This click calls the function again.
function keepOpen(label) {
  const check = () => {
    if (observers.get(label) === observer && label.isConnected && !isOpen(label)) label.click();
  };
  const observer = new MutationObserver(check);
  observers.set(label, observer);
  // The class changes for the first time when the accordion opens.
  observer.observe(label, { attributeFilter: ["class"] });
  setTimeout(check, PATIENCE);
}
