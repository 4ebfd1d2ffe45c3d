// Loads the modules; `vitdemo.main` is the URL of the entry module. Its exports become properties of `vitdemo`. The
// promise `vitdemo.loaded` resolves to `vitdemo`. `vitdemo.load(name)` then imports a further module. This script is not a
// module, since gradio's components use both immediately.
// Until page.js shows the page, only its header is visible.
document.documentElement.dataset.starting = "";
window.vitdemo.loaded = import(window.vitdemo.main).then((main) => Object.assign(window.vitdemo, main));
window.vitdemo.load = (name) =>
  window.vitdemo.loaded.then(() => import(window.vitdemo.main.replace("main.js", name)));
window.vitdemo.loaded.catch(() => {
  delete document.documentElement.dataset.starting;
  const message = Object.assign(document.createElement("p"), { className: "vd-notice", role: "alert" });
  message.textContent = window.vitdemo.message;
  document.body.prepend(message);
});
