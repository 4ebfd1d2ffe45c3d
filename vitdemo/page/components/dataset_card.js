// The state of the download of CIFAR-10: cards, which `drawNotice` draws instead of messages about the missing dataset.
import { MISSING_DATASET } from "../generated.js";
import { markup, nothing, render } from "../markup.js";
import { cards } from "../notices.js";
import * as store from "../store.js";

const buttonTexts = {
  missing: "Download CIFAR-10 (170 MB)",
  stopped: "Continue the download",
  failed: "Try again",
};
let shown = { state: "missing", done: 0, text: "" }; // by all cards

function describeDownload({ state, text }, kind) {
  if (state === "running") return `CIFAR-10 downloads in the background: ${text || "connecting …"}`;
  if (state === "failed") return text;
  return { stopped: "The download of CIFAR-10 was stopped.", ready: "CIFAR-10 is downloaded." }[state] ??
    {
      banner: "The CIFAR-10 images are not downloaded yet.",
      compact: "Test images of CIFAR-10:",
      "": "This part needs the CIFAR-10 images.",
    }[kind];
}

// A card with one sentence, the progress, and a button that starts or stops the download.
class DatasetCard extends HTMLElement {
  kind = "";

  connectedCallback() {
    this.draw();
  }

  draw() {
    const { state, done, text } = shown;
    const isRunning = state === "running";
    const hadFocus = this.contains(document.activeElement);
    this.dataset.state = state;
    render(
      markup`<p role="status" title=${state === "failed" ? text : nothing}>${
        describeDownload(shown, this.kind)
      }</p>
        <progress max="1" aria-label="CIFAR-10" value=${
        done > 0 ? done : nothing
      } ?hidden=${!isRunning}></progress>
        <button type="button" class="get" ?hidden=${!(state in buttonTexts)}
          @click=${() => store.act("dataset.download")}>${buttonTexts[state]}</button>
        <button type="button" class="vd-download" ?hidden=${!isRunning}
          @click=${() => store.act("dataset.stop")}>Stop</button>`,
      this,
    );
    if (hadFocus) this.querySelector("button:not([hidden])")?.focus({ preventScroll: true });
  }
}
customElements.define("vd-dataset", DatasetCard);

// The template of a card; `kind` is "banner", "compact" or "".
export const drawDatasetCard = (kind = "") =>
  markup`<vd-dataset class="vd-dataset ${kind}" .kind=${kind}></vd-dataset>`;

export const isMissingDataset = (message) => message.includes(MISSING_DATASET);

cards.push({ matches: isMissingDataset, create: () => drawDatasetCard() });

// Show the state of the download in all cards.
export function updateDatasetCards(download) {
  shown = download;
  document.querySelectorAll("vd-dataset").forEach((card) => card.draw());
}
