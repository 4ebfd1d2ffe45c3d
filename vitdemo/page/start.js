// Loads the modules; `vitdemo.main` is the URL of the entry module. Its exports become properties of `vitdemo`. The
// promise `vitdemo.loaded` resolves to `vitdemo`. This script is not a module, since gradio's components use the
// promise immediately.
window.vitdemo.loaded = import(window.vitdemo.main).then((main) => Object.assign(window.vitdemo, main));
window.vitdemo.loaded.catch(() => {
  const message = Object.assign(document.createElement("p"), { className: "vd-notice", role: "alert" });
  message.textContent = window.vitdemo.message;
  document.body.prepend(message);
});
