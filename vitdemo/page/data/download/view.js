// The download of CIFAR-10: a banner above all tabs, and cards, which `notice` draws instead of messages about the
// missing dataset. All have the same state.
import { cards, make } from "../../components/shared.js";
import * as store from "../../store.js";
import { fill, TEXTS } from "../../texts.js";

const texts = TEXTS.download;
const READY_MS = 6000; // how long the banner reports the end of a download
const CARD = ".vd-dataset";
const buttonTexts = { missing: texts.download, stopped: texts.continue, failed: texts.again };
let shown = { state: "missing", done: 0, text: "" };
let hasRun = false; // since the page was loaded

function sentence({ state, text }, card) {
  if (state === "running") return fill(texts.running, { progress: text || texts.connecting });
  if (state === "failed") return text;
  return { stopped: texts.stopped, ready: texts.ready }[state] ??
    (card.matches(".banner") ? texts.offer : card.matches(".compact") ? texts.images : texts.needed);
}

// Change only texts and visibility, because a click on a button that is replaced meanwhile is lost.
function draw(card) {
  const { state, done } = shown;
  const [words, bar, get, stop] = card.children;
  const hadFocus = card.contains(document.activeElement);
  card.dataset.state = state;
  words.textContent = sentence(shown, card);
  words.title = shown.state === "failed" ? shown.text : "";
  bar.hidden = stop.hidden = state !== "running";
  if (done > 0) bar.value = done;
  else bar.removeAttribute("value");
  get.hidden = !(state in buttonTexts);
  get.textContent = buttonTexts[state] ?? "";
  if (hadFocus) (stop.hidden ? get : stop).focus({ preventScroll: true });
}

// A card with one sentence, the progress, and a button that starts or stops the download.
export function datasetCard(className = "") {
  const button = (name, action, text) => {
    const made = make("button", { type: "button", className: name, text });
    made.addEventListener("click", () => store.act(action));
    return made;
  };
  const card = make("div", { className: `vd-dataset ${className}` });
  card.append(
    make("p", { role: "status" }),
    make("progress", { max: 1, "aria-label": texts.label }),
    button("get", "dataset.download", ""),
    button("vd-download", "dataset.stop", texts.stop),
  );
  draw(card);
  return card;
}

export const isMissingDataset = (message) => message.includes(texts.missing);

cards.push({ matches: isMissingDataset, create: () => datasetCard() });

store.define("dataset", {
  needs: [],
  pollSeconds: ({ state }) => (state === "running" ? 1 : 0),
  create(element) {
    const banner = datasetCard("banner");
    banner.hidden = true;
    element.replaceChildren(banner);
    return {
      render(data) {
        shown = data;
        hasRun ||= data.state === "running";
        banner.hidden = data.state === "ready" && !hasRun;
        if (data.state === "ready" && hasRun) {
          setTimeout(() => {
            banner.hidden = shown.state === "ready";
          }, READY_MS);
        }
        if (data.state === "ready") hasRun = false;
        document.querySelectorAll(CARD).forEach(draw);
      },
    };
  },
});
store.define("dataset_card", {
  create(element) {
    element.replaceChildren(datasetCard());
    return { render() {} };
  },
});
// The command line may have downloaded the dataset since.
store.watch(["tab"], () => {
  if (!["ready", "running"].includes(shown.state)) store.invalidate("dataset");
});
