// The panel "More models": rows of models to add or remove, and a form for any other model.
import { drawActionButton } from "../../components/shared.js";
import { createTaskRows } from "../../components/task_rows.js";
import { markup, nothing, render } from "../../markup.js";
import { drawNotice } from "../../notices.js";
import * as store from "../../store.js";

const HUB = markup`<a href="https://huggingface.co/timm">timm</a>`;
const INTRO =
  markup`Adds pretrained Vision Transformers from ${HUB} to the list of models. Their weights are downloaded
  from the Hugging Face Hub. `;
const ANY_MODEL =
  markup`To open your own model, enter <code>hf-hub:USER/NAME</code>, or <code>local:PATH</code> for a
  folder or a weights file on this computer.`;
const SESSION_ONLY = "Only you can see an added model, until you leave this page.";

// The form for a name and labels.
const drawForm = (submit) =>
  markup`<form @submit=${submit}>
    <label id="model-name">Other model<input name="name" maxlength="1000"
      placeholder="vit_base_patch16_224, hf-hub:USER/NAME or local:PATH"></label>
    <label id="model-labels">Labels<small>Optional, for a model whose labels are not stored: one label per line, in output order.</small>
      <textarea name="labels" rows="2" maxlength="1000000"></textarea></label>
    ${drawActionButton("Add model", ({ target }) => target.form.requestSubmit(), "add-model")}
  </form>`;

function create(element) {
  render(markup`<p></p><div></div><div></div><div></div>`, element);
  const [intro, list, form, problem] = element.children;
  const showProblem = (error) => render(error ? drawNotice(error) : nothing, problem);
  const change = (fields) =>
    store.act("more_models.change", fields, (error) => {
      showProblem(error);
      store.checkModels(); // a model may be removed
    });
  let shown = null; // number of the added model that was chosen last
  const drawRows = createTaskRows(list, "", change);
  let failed = null; // names of the models that could not be added

  // Scroll to a new error, which may be outside the visible part of the list.
  function revealError(rows) {
    const names = rows.filter(({ state }) => state === "failed").map(({ name }) => name);
    const at = rows.findIndex(({ name }) => failed && names.includes(name) && !failed.includes(name));
    failed = names;
    if (at >= 0) list.querySelectorAll("li")[at].scrollIntoView({ block: "nearest" });
  }

  function submit(event) {
    event.preventDefault();
    change({ action: "add", ...Object.fromEntries(new FormData(event.target)) });
  }
  return {
    render({ rows, acceptsNames, added }) {
      const [name, number] = added ?? ["", 0];
      if (number > (shown ?? number)) store.updateControls({ model: { value: name } });
      shown = number;
      drawRows(rows);
      revealError(rows);
      render(markup`${INTRO}${acceptsNames ? ANY_MODEL : SESSION_ONLY}`, intro);
      render(acceptsNames ? drawForm(submit) : nothing, form);
    },
  };
}

store.define("more_models", {
  isIndependent: true,
  pollSeconds: ({ rows }) => (rows.some(({ state }) => state === "downloading") ? 0.5 : 0),
  create,
});
