// Scatter plots of test images, and the nearest neighbours of the current image. One sheet contains all thumbnails;
// each dot shows one part of the sheet. The colours are distinguishable with colour blindness (Okabe & Ito 2008).
// Colours and shapes form 8 x 5 = 40 different pairs, which repeat for more classes.
import { createDocument } from "../../components/documents.js";
import { createRoving } from "../../components/shared.js";
import { createTaskPanel } from "../../components/task_panel.js";
import { markup, nothing, render as draw } from "../../markup.js";
import * as store from "../../store.js";
import { fillPlural, formatNumber } from "../../texts.js";

const COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b08800", "#56b4e9", "#e69f00", "#7a7a7a"];
const SHAPES = [
  "circle(46%)",
  "inset(10%)",
  "polygon(50% 0, 100% 100%, 0 100%)",
  "polygon(50% 0, 100% 50%, 50% 100%, 0 50%)",
  "polygon(0 0, 100% 0, 50% 100%)",
];
const LOOKS = COLOURS.length * SHAPES.length;
const formatLooks = (k) => `--colour: ${COLOURS[k % COLOURS.length]}; --shape: ${SHAPES[k % SHAPES.length]}`;

const openTestImage = ({ source, ...others }, number) =>
  store.openImage({ ...others, image: { source: `${source}${number}`, path: null, at: 0.5 } });

// --- the scatter plots ---

function drawDot(value, i, [x, y], isStop) {
  const [label, number] = [value.labels[i], value.numbers[i]];
  const sides = `${x > 0.5 ? " west" : ""}${y > 0.5 ? " north" : ""}`;
  const part = `--x: ${i % value.columns}; --y: ${Math.floor(i / value.columns)}`;
  return markup`<button type="button" class="dot k${label}${sides}" data-pick=${number}
    style="left: ${100 * x}%; top: ${100 * y}%; ${part}; ${formatLooks(label)}" tabindex=${isStop ? 0 : -1}
    aria-label="${value.classes[label]}, test image ${number}"
    @click=${() => openTestImage(value.open, number)}></button>`;
}

// Dots are ordered in rows from the top, which makes the arrow keys work as expected.
function drawPlane(value, { name, places }) {
  const columns = Math.max(1, Math.floor(Math.sqrt(places.length)));
  const topDown = places.map((_, i) => i).sort((a, b) => places[a][1] - places[b][1]);
  const order = [];
  for (let start = 0; start < topDown.length; start += columns) {
    order.push(...topDown.slice(start, start + columns).sort((a, b) => places[a][0] - places[b][0]));
  }
  const dots = order.map((i, at) => drawDot(value, i, places[i], at === 0));
  const words = fillPlural(
    places.length,
    "{count} test image by {features}",
    "{count} test images by {features}",
    { features: name },
  );
  const keys = createRoving(() => columns);
  return markup`<section><h2>${name}</h2><div class="plane" role="group" aria-label=${words} @focusin=${keys.focus}
    @keydown=${keys.press}>${dots}</div></section>`;
}

// The classes as radio buttons: the chosen class is highlighted in all plots.
function drawLegend(place, { classes, labels }) {
  const highlight = (k) => {
    for (const each of place.querySelectorAll(".dot")) {
      each.classList.toggle("faded", k >= 0 && !each.classList.contains(`k${k}`));
    }
  };
  const drawChoice = (k, content) =>
    markup`<label><input type="radio" name="tsne-class" .checked=${k < 0} @change=${() =>
      highlight(k)}>${content}</label>`;
  const counts = classes.map(() => 0);
  for (const label of labels) counts[label] += 1;
  const drawItem = (name, k) =>
    markup`<i class="key" style=${formatLooks(k)}></i>${`${name} `}<small>${formatNumber(counts[k])}</small>`;
  const drawNote = () => markup`<small>Colours and shapes repeat after ${LOOKS} classes.</small>`;
  return markup`<fieldset><legend>Highlight class</legend>${drawChoice(-1, "all classes")}${
    classes.map((name, k) => drawChoice(k, drawItem(name, k)))
  }${classes.length > LOOKS ? drawNote() : nothing}</fieldset>`;
}

function drawMaps(place, value) {
  draw(nothing, place); // with other data, all classes are highlighted again
  if (!value.planes) return draw(markup`<p class="hint">${value.message}</p>`, place);
  place.style.setProperty("--sheet", `url("${value.sheet.url}")`);
  place.style.setProperty("--columns", value.columns);
  place.style.setProperty("--rows", Math.ceil(value.numbers.length / value.columns));
  const planes = value.planes.map((each) => drawPlane(value, each));
  return draw(markup`${drawLegend(place, value)}<div class="planes">${planes}</div>`, place);
}

// --- the views, whose data tasks compute ---

const MEASURING_POLL_SECONDS = 2; // while the server measures how long the maps take

// Define the view `name` with the task of the same name. `create` receives its parts after the task's panel.
function defineTaskView(name, { id, text, parts, hasResult, create, ...options }) {
  const starts = [{ id, text, task: name }];
  const getWatched = () => store.listNeeds([name]);
  const { buttons, progress } = createTaskPanel({
    starts,
    cancelId: `${id}-stop`,
    views: [name],
    getWatched,
  });
  store.define(name, {
    ...options,
    create(element) {
      draw(markup`${buttons}${progress}${parts}`, element);
      const [, , ...places] = element.children;
      const drawResult = create(...places);
      function render(value) {
        buttons.hidden = hasResult(value);
        drawResult(value);
      }
      return { render };
    },
  });
}

defineTaskView("similar_images", {
  id: "lay-out",
  text: "Compute t-SNE maps",
  pollSeconds: ({ is_measuring: isMeasuring }) => (isMeasuring ? MEASURING_POLL_SECONDS : 0),
  parts: markup`<div class="maps"></div><div id="parting" class="article"></div>`,
  hasResult: ({ planes }) => Boolean(planes),
  create(place, separation) {
    const drawSeparation = createDocument(separation);
    return (value) => {
      drawMaps(place, value);
      drawSeparation(value.separation ?? []);
    };
  },
});

defineTaskView("neighbours", {
  id: "find-near",
  text: "Find nearest neighbours",
  parts: markup`<div class="article"></div>`,
  hasResult: ({ blocks }) => blocks.length > 0,
  create(place) {
    let opening = null; // how `store.openImage` opens the drawn images
    const drawBlocks = createDocument(place, (number) => openTestImage(opening, number));
    return ({ blocks, open }) => {
      opening = open;
      drawBlocks(blocks);
    };
  },
});
