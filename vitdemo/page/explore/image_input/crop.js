// The square that the models receive, which the user moves along the longer side of the image.
import { clamp } from "../../components/shared.js";

const KEY_STEPS = { ArrowLeft: -0.05, ArrowUp: -0.05, ArrowRight: 0.05, ArrowDown: 0.05, Home: -1, End: 1 };
const KEY_DELAY = 300; // milliseconds, so that several key presses cause one request

// The square `crop` over the image `whole`. `choose(position)` is called with a new position, 0 to 1. Return
// `setPosition(position)`. The square is then shown when the image is loaded, unless the image is square.
export function createCrop(whole, crop, choose) {
  let position = null; // along the longer side, null without an image
  let timer = null;

  const isWide = () => whole.naturalWidth > whole.naturalHeight;

  function isNearlySquare() {
    const [width, height] = [whole.naturalWidth, whole.naturalHeight];
    return Math.abs(width - height) <= 0.02 * Math.max(width, height);
  }

  function placeSquare() {
    crop.hidden = position === null || !whole.naturalWidth || isNearlySquare();
    if (crop.hidden) return;
    const side = Math.min(whole.clientWidth, whole.clientHeight);
    const room = Math.max(whole.clientWidth, whole.clientHeight) - side;
    crop.style.width = crop.style.height = `${side}px`;
    crop.style.left = `${whole.offsetLeft + (isWide() ? position * room : 0)}px`;
    crop.style.top = `${whole.offsetTop + (isWide() ? 0 : position * room)}px`;
    crop.setAttribute("aria-valuenow", Math.round(100 * position));
    crop.setAttribute("aria-orientation", isWide() ? "horizontal" : "vertical");
  }

  function move(to) {
    position = clamp(to, 0, 1);
    placeSquare();
  }

  function chooseSoon(delay) {
    clearTimeout(timer);
    timer = setTimeout(() => choose(position), delay);
  }

  crop.addEventListener("pointerdown", (event) => {
    const getPlace = ({ clientX, clientY }) => (isWide() ? clientX : clientY);
    const [start, before] = [getPlace(event), position];
    const room = Math.abs(whole.clientWidth - whole.clientHeight);
    crop.setPointerCapture(event.pointerId);
    crop.onpointermove = (moved) => move(before + (getPlace(moved) - start) / room);
    crop.onpointerup = crop.onpointercancel = () => {
      crop.onpointermove = crop.onpointerup = crop.onpointercancel = null;
      if (position !== before) chooseSoon(0);
    };
  });
  crop.addEventListener("keydown", (event) => {
    const step = KEY_STEPS[event.key];
    if (!step) return;
    event.preventDefault();
    move(position + step);
    chooseSoon(KEY_DELAY);
  });
  new ResizeObserver(placeSquare).observe(whole.parentElement);
  whole.addEventListener("load", placeSquare);

  return function setPosition(to) {
    position = to;
  };
}
