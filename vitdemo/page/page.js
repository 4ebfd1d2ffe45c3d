// Shows the page as soon as its first data arrive, and switches to the light theme while printing.
import { firstAnswer, firstRequest } from "./store.js";

// gradio creates the parts of the page one after the other, so visible parts would move. If the server is slow, the page
// appears with the skeletons of its views; if gradio does not start, with the parts that exist.
const [MAX_ANSWER, MAX_START] = [2500, 15000]; // milliseconds
const wait = (time) => new Promise((done) => setTimeout(done, time));
Promise.race([firstAnswer, firstRequest.then(() => wait(MAX_ANSWER)), wait(MAX_START)]).then(() =>
  requestAnimationFrame(() => delete document.documentElement.dataset.starting)
);

const { classList } = document.body;
let dark = false;
addEventListener("beforeprint", () => {
  dark = classList.contains("dark");
  classList.remove("dark");
});
addEventListener("afterprint", () => classList.toggle("dark", dark));
