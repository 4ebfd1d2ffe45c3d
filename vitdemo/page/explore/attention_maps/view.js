// Interactive attention maps of one image. The server sends matrices; views that need only these
// matrices (another patch, head, layer, direction, colour) are computed here, without a request.
import * as store from "../../store.js";
import { createDrawing } from "./drawing.js";
import { listShownSets, loadSets, loadTrace } from "./loading.js";
import { KEYS } from "./selection.js";

const NO_ANSWER = "The server does not respond. The numbers of this layer could not be loaded.";

function create(element) {
  const { getTrace, getSelection, ...drawing } = createDrawing(element, showMessage);
  let newest = 0; // number of the latest payload; earlier payloads that arrive late are ignored
  let data = null; // the last payload

  const setPhase = (phase) => (element.firstElementChild.dataset.state = phase);

  function showMessage(text) {
    const place = element.querySelector(".sentence");
    place.textContent = text ?? "";
    place.hidden = !text;
  }

  // Load files of the current layer. Return whether all are loaded and belong to the shown image.
  async function load(sets) {
    const trace = getTrace();
    const isCurrent = () => trace === getTrace();
    try {
      return await loadSets(trace, sets, getSelection().layer, isCurrent, drawing.drawSoon);
    } catch (error) {
      if (isCurrent()) showMessage(error instanceof TypeError ? NO_ANSWER : error.message);
      return false;
    }
  }

  // Norm-weighted attention is requested when it is chosen.
  function follow() {
    if (getSelection().isNorm) store.set({ norms: true });
    load(listShownSets(getSelection()));
    drawing.follow();
  }

  // The first map needs only the rows of the classifier's token. The other files of the layer follow.
  async function loadRest() {
    const isWhole = await load([...listShownSets(getSelection()), "rollout", "head", "similar"]);
    if (!isWhole) return;
    setPhase("whole");
    drawing.playAtFirstVisit();
  }

  async function receive(payload) {
    const mine = ++newest;
    showMessage("");
    setPhase(getTrace() ? "late" : "empty");
    try {
      const trace = await loadTrace(payload, getTrace());
      if (mine !== newest) return;
      drawing.setTrace(trace);
      setPhase("here");
      follow();
      drawing.draw();
      loadRest();
    } catch (error) {
      if (mine !== newest) return;
      setPhase(getTrace() ? "late" : "empty");
      showMessage([error.message, getTrace() ? "The previous image or model is still shown." : ""].join(" "));
    }
  }

  function render(payload) {
    if (payload === data) return getTrace() && follow();
    data = payload;
    return receive(payload);
  }

  function showError(text) {
    newest += 1;
    showMessage(text);
    // A model without layers has no attention maps, but it has Grad-CAM maps.
    element.querySelector(".other-section").hidden = store.state.layer !== null;
    setPhase("none");
    drawing.setTrace(null);
  }

  element.querySelector(".other-section").addEventListener("click", () => {
    store.openTabs({ section: "class-attribution" });
  });
  return { render, showError };
}

store.define("attention", { skeleton: "maps", follows: KEYS, create });
