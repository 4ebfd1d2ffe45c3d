// A button that saves a file of the server, with its progress or an error: see `add_download_button` of kit.py.
import { markup, nothing, render } from "../markup.js";
import { drawNotice } from "../notices.js";
import * as store from "../store.js";
import { drawActionButton, saveAs } from "./shared.js";

export function mount(root, label, download) {
  const place = root.querySelector("div");

  function draw({ isWriting = false, error = null }) {
    const message = error ? drawNotice(error) : nothing;
    const progress = isWriting ? markup`<span role="status"> Writing the file …</span>` : nothing;
    render(markup`${drawActionButton(label, start)}${progress}${message}`, place);
  }

  function start() {
    draw({ isWriting: true });
    store.requestFile(download, ({ file, name, error }) => {
      draw({ error });
      if (file) saveAs(file.url, name);
    });
  }
  draw({});
}
