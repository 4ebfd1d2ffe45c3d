// Works around a bug in gradio 6.31, whose idle pages draw 60 frames per second.
//
// gradio's message "Loading..." counts the seconds in each frame, and the count continues after the message is removed.
// Therefore, this script drops the frames of counts while no message is shown. A later message begins a new count. This
// script is not a module, since gradio keeps the window function that it finds at its start.
(() => {
  const request = window.requestAnimationFrame.bind(window);
  const isCount = (callback) => /performance\.now\(\).*1e3/.test(callback);
  const isShown = () => document.querySelector("[data-testid=status-tracker]:not(.hide)") !== null;
  window.requestAnimationFrame = (callback) => isCount(callback) && !isShown() ? 0 : request(callback);
})();
