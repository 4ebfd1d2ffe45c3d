// The button that uploads a model to the Hub, and the address of the repository.
import { createTaskPanel } from "../../components/task_panel.js";
import { markup, render } from "../../markup.js";
import { drawNotice } from "../../notices.js";
import * as store from "../../store.js";

const drawEnd = ({ data, error }) =>
  data
    ? markup`<p role="status">Uploaded: <a href=${data.address}>${data.address}</a>. To open it:
        <code>python app.py --model hf-hub:${data.repository}</code></p>`
    : error && drawNotice(error);

store.define("upload", {
  create(element) {
    const starts = [{ id: "upload-start", text: "Upload model", busy: "Uploading …", task: "upload" }];
    const { buttons, progress } = createTaskPanel({ starts, unit: "", drawEnd });
    render(markup`${buttons}${progress}`, element);
    return { render: () => {} };
  },
});
