// Shows that the connection is lost, or the queue position of a request that has waited for more than a second.
import { fillPlural } from "../texts.js";

const SHOWN_AFTER = 1000;
const FORGOTTEN_AFTER = 60000; // milliseconds without a message after which a request counts as abandoned
const waiting = new Map(); // event id -> {since, heard, rank, eta}
let timer = null;
let isLost = false; // whether the server does not respond

function describeWait({ rank, eta }) {
  const wait = eta >= 1 ? ` (about ${Math.ceil(eta)} s)` : "";
  return rank
    ? fillPlural(
      rank,
      "The server is busy: {count} request is ahead of yours{wait}.",
      "The server is busy: {count} requests are ahead of yours{wait}.",
      { wait },
    )
    : `The server is busy: your request is next${wait}.`;
}

function draw() {
  const now = Date.now();
  for (const [id, one] of waiting) if (now - one.heard > FORGOTTEN_AFTER) waiting.delete(id);
  const late = [...waiting.values()].filter(({ since }) => now - since > SHOWN_AFTER);
  let line = document.querySelector(".vd-waiting");
  if ((late.length || isLost) && !line) {
    line = Object.assign(document.createElement("p"), { className: "vd-waiting", role: "status" });
    document.querySelector(".gradio-container").append(line);
  }
  const busy = late.length ? describeWait(late.reduce((a, b) => (a.rank > b.rank ? a : b))) : "";
  const text = isLost ? "Connection lost, trying again." : busy;
  if (line && line.textContent !== text) line.textContent = text;
  if (!waiting.size) {
    clearInterval(timer);
    timer = null;
  }
}

document.addEventListener("vitdemo:queue", ({ detail }) => {
  const { msg, event_id: id, rank, rank_eta: eta } = detail;
  const now = Date.now();
  if (msg !== "estimation") waiting.delete(id);
  else waiting.set(id, { since: waiting.get(id)?.since ?? now, heard: now, rank: rank ?? 0, eta });
  if (waiting.size) timer ??= setInterval(draw, 500);
  draw();
});

document.addEventListener("vitdemo:connection", ({ detail }) => {
  if (detail === "interrupted") return;
  isLost = detail === "lost";
  draw();
});
