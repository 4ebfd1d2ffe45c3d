// The parts of the view.
import { markup } from "../../markup.js";

const MAP = markup`<figure class="map">
  <div class="large" tabindex="0" role="application" aria-label="Large map">
    <img class="seen" alt=""><canvas></canvas><i class="ring chosen" hidden></i><i class="ring under" hidden></i>
  </div>
  <div class="under">
    <div class="legend"
      aria-hidden="true"><span class="low">0</span><i class="ramp"></i><span class="middle"></span><i class="ramp"></i><span class="top"></span><span class="kind"></span></div>
    <div class="tokens" role="group" aria-label="Special tokens and their attention weights"></div>
  </div>
  <figcaption class="words"><strong class="title"></strong> <span class="little"></span></figcaption>
  <p class="pointed" role="status"></p>
</figure>`;

export const LAYOUT = markup`<div class="where" data-state="empty">
  <p class="vd-notice sentence" role="status" hidden></p>
  <button type="button" class="other-section" hidden>Show the Grad-CAM map</button>
  <p class="result"></p>
  <div class="path"></div>
  <div class="both">
    ${MAP}
    <div class="beside">
      <div class="bar"></div>
      <figure class="wall" role="grid" tabindex="0" aria-label="Grid of all heads: choose a map to enlarge it"></figure>
    </div>
  </div>
  <details class="numbers">
    <summary>Values of the maps</summary>
    <div class="tables"></div>
  </details>
</div>`;
