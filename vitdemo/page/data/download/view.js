// The message about a missing dataset. The style sheet shows the row of the download next to `.missing`.
vitdemo.dataset = (() => {
const { notice, store } = vitdemo;
let isMissing = false;
let wasMissing = false; // and could be downloaded, since the page was loaded

// Request all data of the dataset again.
function reload() {
  for (const view of ["dataset", "class_statistics", "augmentation"]) store.invalidate(view);
}

store.define("dataset", {
  needs: [],
  render(element, { message, can_download: canDownload }) {
    isMissing = message !== "";
    wasMissing ||= canDownload;
    const text = message || (wasMissing ? vitdemo.texts.download.done : "");
    element.replaceChildren(...(text ? [notice(text)] : []));
    element.classList.toggle("missing", canDownload);
  },
});
// The command line may have downloaded the dataset since.
store.watch(["tab"], ({ tab }) => {
  if (tab === "data" && isMissing) reload();
});
return { reload };
})();
