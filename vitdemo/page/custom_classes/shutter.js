// The camera of the editor.
import { createCamera } from "../components/shared.js";
import { fillPlural } from "../texts.js";

const SHOT_INTERVAL = 250; // milliseconds between two photos

// Open and close the camera, and take photos. `getName()` is the class of the photos. `send(files, name)` receives the
// photos that were taken while the button was held.
export function attachShutter(findPart, showMessage, getName, send) {
  const screen = findPart("screen");
  const live = createCamera(screen.querySelector("video"), showMessage);
  let timer = null;
  let shots = [];

  function closeCamera() {
    clearInterval(timer);
    timer = null;
    live.close();
    screen.hidden = true;
    findPart("open").hidden = false;
  }

  async function openCamera() {
    screen.hidden = false; // Some browsers do not play hidden videos.
    if (!(await live.open())) return closeCamera();
    findPart("open").hidden = true;
    findPart(getName() ? "take" : "name").focus();
  }

  function shoot() {
    const name = `camera-${Date.now()}.jpg`;
    shots.push(live.takePhoto("image/jpeg").then((blob) => new File([blob], name, { type: blob.type })));
    showMessage(fillPlural(shots.length, "{count} photo taken", "{count} photos taken"));
  }

  function hold() {
    if (timer) return;
    if (!getName()) return showMessage("Enter a class name before you take photos.");
    shots = [];
    shoot();
    timer = setInterval(shoot, SHOT_INTERVAL);
  }

  async function release() {
    if (!timer) return;
    clearInterval(timer);
    timer = null;
    const name = getName(); // saved now, because the user may enter another name during the upload
    await send(await Promise.all(shots), name);
  }

  findPart("open").addEventListener("click", openCamera);
  findPart("leave").addEventListener("click", closeCamera);
  for (const name of ["pointerdown", "keydown"]) {
    findPart("take").addEventListener(name, (event) => {
      if (!event.key || event.key === " ") hold();
    });
  }
  for (const name of ["pointerup", "pointerleave", "keyup", "blur"]) {
    findPart("take").addEventListener(name, release);
  }
}
