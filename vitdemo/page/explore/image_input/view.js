// Input of the image that all models receive. The user can move the square that the models receive.
import { drawDatasetCard, isMissingDataset } from "../../components/dataset_card.js";
import { drawNotice, isLocalPage } from "../../components/shared.js";
import { MAX_FILE_BYTES } from "../../generated.js";
import { makeElement, markup, nothing, render as draw } from "../../markup.js";
import * as store from "../../store.js";
import { createCrop } from "./crop.js";
import { LAYOUT } from "./layout.js";
import { addSources } from "./sources.js";

const UPLOAD_FAILED =
  "The image could not be uploaded: the server does not respond, or its disk is full. Try again.";

const choose = (image, options) => store.set({ image, unavailable: "" }, options);

// Return a function that uploads an image and shows it.
function createSender(upload, showMessage) {
  let sent = 0; // number of the latest image; earlier images that finish late are ignored
  let photo = null; // the last uploaded photo: { file, path }

  async function send(blob, name, position = 0.5) {
    const mine = ++sent;
    if (blob.size > MAX_FILE_BYTES) {
      return showMessage(`The file is larger than ${MAX_FILE_BYTES / 1e6} MB. Choose a smaller file.`);
    }
    showMessage("Reading the image …", true);
    try {
      const file = blob instanceof File ? blob : new File([blob], name, { type: blob.type });
      const { path } = await upload(file);
      if (mine !== sent) return;
      photo = { file, path };
      choose({ source: "own", path, at: position });
    } catch {
      if (mine === sent) showMessage(UPLOAD_FAILED);
    }
  }

  // A server that ends deletes the uploaded photos.
  document.addEventListener("vitdemo:connection", ({ detail }) => {
    const { image } = store.state;
    if (detail === "restarted" && photo && image.path === photo.path) {
      send(photo.file, photo.file.name, image.at);
    }
  });

  return (blob, name) => send(blob, name);
}

// Why the requested model has no results: it does not exist, or has no weights.
function describeMissing({ name, exists }) {
  const reason = exists ? `The weights of ${name} are not available.` : `There is no model '${name}'.`;
  return `${reason} The results below are from other models.`;
}

function drawAbout({ label, missing, description }) {
  return [
    missing ? drawNotice(describeMissing(missing)) : nothing,
    description,
    label ? markup` True class: <strong>${label}</strong>.` : nothing,
  ];
}

// Without `upload`, the user can choose neither a photo nor the position of the square. `isPrivate` means that photos do
// not leave this computer.
function create(element, { upload, isPrivate = isLocalPage() }) {
  draw(LAYOUT, element);
  const findPart = (name) => element.querySelector("." + name);
  const whole = findPart("whole");
  let refusal = ""; // the last message about an image that was not shown
  let shown = null; // the last image that the server accepted

  // Show a problem, or a running step. The message covers the image, so that nothing below moves.
  function showMessage(text, isRunning = false) {
    findPart("say").textContent = text;
    findPart("say").classList.toggle("running", isRunning);
  }

  if (upload) addSources(element, findPart, createSender(upload, showMessage), showMessage);
  findPart("privacy").hidden = !upload || !isPrivate;
  findPart("ways").hidden = findPart("crop").inert = !upload;
  const setCrop = createCrop(whole, findPart("crop"), (at) => choose({ ...shown, at }));

  function render(data, state) {
    showMessage(shown ? "" : refusal); // a refusal of the URL's image remains while the first photo is shown
    shown = state.image;
    whole.classList.toggle("small", Math.max(...data.size) <= 128);
    setCrop(shown.at);
    whole.src = data.image.url;
    whole.alt = data.description;
    draw(drawAbout(data), findPart("about"));
  }

  // The server refused the image: restore the previous image, or the first photo.
  function showError(text) {
    const before = shown ?? store.getInitialImage();
    const isOther = JSON.stringify(before) !== JSON.stringify(store.state.image);
    refusal = [
      `The image could not be shown. ${text}`,
      ...(shown ? ["The previous image is still shown."] : []),
    ].join(" ");
    showMessage(refusal);
    if (isMissingDataset(text)) findPart("say").replaceChildren(makeElement(drawDatasetCard("compact")));
    if (before && isOther) choose(before, { isCorrection: true });
  }

  return { render, showError };
}

store.define("image_input", { isFirst: true, create });
