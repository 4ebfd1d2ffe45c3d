// The parts of the view.
import { markup } from "../../markup.js";

// Images, and formats that some systems do not list as images.
const ACCEPTED =
  "image/*,.apng,.avif,.avifs,.bmp,.dib,.gif,.heic,.heics,.heif,.heifs,.hif,.jfi,.jfif,.jif,.jpe,.jpeg,.jpg,.mpo,.pbm,.pfm,.pgm,.pjp,.pjpeg,.png,.pnm,.ppm,.tif,.tiff,.webp";

export const LAYOUT = markup`
  <div class="given">
    <div class="frame" data-state="image">
      <img class="whole" alt="">
      <div class="crop" role="slider" tabindex="0" aria-label="Crop: the square input of the models" title="Drag the square to choose the input of the models" aria-valuemin="0"
        aria-valuemax="100" hidden></div>
      <video class="camera" muted playsinline hidden></video>
    </div>
    <p class="about"></p>
    <div class="ways">
      <label class="choose">
        <input type="file" accept="${ACCEPTED}">
        <span>Choose a photo</span>
      </label>
      <button type="button" class="open-camera">Open camera</button>
      <button type="button" class="take" hidden>Take photo</button>
      <button type="button" class="leave" hidden>Close camera</button>
    </div>
    <p class="privacy" hidden>Your photo stays on this computer.</p>
    <p class="say" role="status"></p>
  </div>
`;
