// The camera of the editor.
import { createCamera } from "../components/shared.js";
import { fillPlural } from "../texts.js";

const SHOT_INTERVAL = 250; // milliseconds between two photos

// `open(name)` shows the camera for a class, `keepClasses(names)` closes it if its class was removed.
// `send(files, name)` receives the photos that were taken while the button was held.
export function createShutter(findPart, showMessage, send) {
  const screen = findPart("screen");
  const live = createCamera(screen.querySelector("video"), showMessage);
  let taken = null; // name of the class to which photos are added
  let timer = null;
  let shots = [];

  function closeCamera() {
    clearInterval(timer);
    timer = null;
    live.close();
    screen.hidden = true;
  }

  async function open(name) {
    screen.hidden = false; // Some browsers do not play hidden videos.
    if (!(await live.open())) return closeCamera();
    taken = name;
    findPart("take").focus();
  }

  function shoot() {
    const name = `camera-${Date.now()}.jpg`;
    shots.push(live.takePhoto("image/jpeg").then((blob) => new File([blob], name, { type: blob.type })));
    showMessage(fillPlural(shots.length, "{count} photo taken", "{count} photos taken"));
  }

  function hold() {
    if (timer) return;
    shots = [];
    shoot();
    timer = setInterval(shoot, SHOT_INTERVAL);
  }

  async function release() {
    if (!timer) return;
    clearInterval(timer);
    timer = null;
    const name = taken; // saved now, because the user may open the camera for another class during the upload
    await send(await Promise.all(shots), name);
  }

  function keepClasses(names) {
    if (taken !== null && !names.includes(taken)) closeCamera();
  }

  findPart("leave").addEventListener("click", closeCamera);
  for (const name of ["pointerdown", "keydown"]) {
    findPart("take").addEventListener(name, (event) => {
      if (!event.key || event.key === " ") hold();
    });
  }
  for (const name of ["pointerup", "pointerleave", "keyup", "blur"]) {
    findPart("take").addEventListener(name, release);
  }
  return { keepClasses, open };
}
