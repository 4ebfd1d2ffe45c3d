// Sources of the user's own image: a file, drop, paste or camera.
import { createCamera } from "../../components/shared.js";

function addFileInput(input, send) {
  input.addEventListener("change", () => {
    if (input.files[0]) send(input.files[0]);
    input.value = ""; // so that the same file can be chosen again
  });
}

function addDrop(frame, send, showMessage) {
  frame.addEventListener("dragover", (event) => {
    event.preventDefault();
    frame.classList.add("over");
  });
  frame.addEventListener("dragleave", () => frame.classList.remove("over"));
  frame.addEventListener("drop", (event) => {
    event.preventDefault();
    frame.classList.remove("over");
    const file = event.dataTransfer.files[0];
    if (file) send(file);
    else showMessage("Only a file can be dropped here. Save the image as a file first.");
  });
}

function addPaste(element, send) {
  document.addEventListener("paste", (event) => {
    const file = [...(event.clipboardData?.files ?? [])].find((each) => each.type.startsWith("image/"));
    if (!file || !element.offsetParent) return; // another tab of the page is open
    event.preventDefault();
    send(file, "pasted.png");
  });
}

function addCamera(findPart, send, showMessage) {
  const [frame, screen, take, leave, open] = ["frame", "camera", "take", "leave", "open-camera"].map(
    findPart,
  );
  const live = createCamera(screen, showMessage);

  function show(isLive) {
    frame.dataset.state = isLive ? "camera" : "image";
    screen.hidden = take.hidden = leave.hidden = !isLive;
    open.hidden = isLive;
  }

  function closeCamera() {
    live.close();
    show(false);
  }

  open.addEventListener("click", async () => {
    if (!(await live.open())) return;
    showMessage("");
    show(true);
    take.focus();
  });
  leave.addEventListener("click", () => {
    closeCamera();
    open.focus();
  });
  take.addEventListener("click", () => {
    live.takePhoto("image/png").then((blob) => send(blob, "camera.png"));
    closeCamera();
  });
}

// `send(blob, name)` is called with each image, and `showMessage(text)` with each problem.
export function addSources(element, findPart, send, showMessage) {
  addFileInput(element.querySelector("input[type=file]"), send);
  addDrop(findPart("frame"), send, showMessage);
  addPaste(element, send);
  addCamera(findPart, send, showMessage);
}
