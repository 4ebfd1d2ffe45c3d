// This script runs once: the template does not contain the value, so gradio never redraws it.
import { markup, nothing, render } from "../markup.js";
import { drawStroke } from "./line_plots.js";

export function mount({ element, props, trigger, watch }) {
  const place = element.querySelector("div");
  const isChosen = () => JSON.stringify(props.value) !== '[""]';
  const getChosen = () => new Set((isChosen() ? props.value : props.defaults) ?? []);
  let isEmpty = true; // whether no groups are drawn yet

  // The chosen names have the order of the groups, not the order of the clicks.
  function choose(names) {
    props.value = (props.groups ?? []).flatMap(([, all]) => all).filter((name) => names.has(name));
    draw();
    trigger("input");
  }

  // A checkbox of one or more runs.
  function drawCheckbox(runs, ticked, { label = nothing, value = nothing } = {}) {
    const count = runs.filter((name) => ticked.has(name)).length;
    function change({ target }) {
      const names = getChosen();
      for (const name of runs) target.checked ? names.add(name) : names.delete(name);
      target.checked = !target.checked; // the template changes it, or uses the element for another run
      choose(names);
    }
    return markup`<input type="checkbox" aria-label=${label} value=${value} .checked=${count === runs.length}
      .indeterminate=${count > 0 && count < runs.length} @change=${change}>`;
  }

  const drawRunBox = (name, ticked) => drawCheckbox([name], ticked, { value: name });
  const drawGroupBox = ([title, names], ticked) =>
    drawCheckbox(names, ticked, { label: `Select all: ${title}` });
  const drawCount = (names, ticked) =>
    markup`<b>${names.filter((name) => ticked.has(name)).length} of ${names.length}</b>`;

  // A group that can be folded.
  function drawFold(group, ticked, isOpen) {
    const [title, names] = group;
    const drawRun = (name) => markup`<label>${drawRunBox(name, ticked)}<span>${name}</span></label>`;
    return markup`<div class="group">
      ${drawGroupBox(group, ticked)}
      <details data-title=${title} .open=${isOpen}>
        <summary>${title}${drawCount(names, ticked)}</summary>
        <div class="runs">${names.map(drawRun)}</div>
      </details>
      <button type="button" aria-label="Select only these: ${title}"
        @click=${() => choose(new Set(names))}>select only these</button>
    </div>`;
  }

  // --- The list as a legend: the groups `shown`, ticked runs of other groups, and the other groups behind `more`.

  // A run with the line of its curves.
  function drawEntry(name, ticked) {
    const { colour, lighter, sign } = (ticked.has(name) && props.looks?.[name]) || {};
    const second = lighter ? drawStroke("dashed", lighter) : nothing;
    const mark = sign ? markup`<b style="color: ${colour}">${sign}</b>` : nothing;
    return markup`<label class="entry">${drawRunBox(name, ticked)}<span class="lines">${
      colour ? [drawStroke("", colour), second] : drawStroke("off", "")
    }${mark}</span><span>${name}</span></label>`;
  }

  function drawEntries(group, ticked) {
    const [title, names] = group;
    const drawTitle = () =>
      markup`<label class="all">${drawGroupBox(group, ticked)}<span>${title}</span></label>`;
    return markup`<div class="entries">${names.length > 1 ? drawTitle() : nothing}${
      names.map((name) => drawEntry(name, ticked))
    }</div>`;
  }

  function drawLegend(groups, folded, folds, ticked) {
    const others = folded.flatMap(([, names]) => names);
    const added = others.filter((name) => ticked.has(name));
    const hasTraining = Object.values(props.looks ?? {}).some(({ lighter }) => lighter);
    return markup`${groups.map((group) => drawEntries(group, ticked))}
      <div class="entries added">${added.map((name) => drawEntry(name, ticked))}</div>
      <span class="key" ?hidden=${!ticked.size}>${drawStroke("", "")}validation${
      hasTraining ? [drawStroke("dashed", ""), "training"] : nothing
    }</span>
      <details class="more" ?hidden=${!folds.length}>
        <summary>${props.more}${drawCount(others, ticked)}</summary><div>${folds}</div>
      </details>`;
  }

  // --- Both

  function draw() {
    const [groups, ticked] = [props.groups ?? [], getChosen()];
    const isShown = ([title]) => Boolean(props.more && props.shown?.includes(title));
    const opened = [...place.querySelectorAll(".group [open]")].map(({ dataset }) => dataset.title);
    const folded = groups.filter((group) => !isShown(group));
    const folds = folded.map((group) =>
      drawFold(group, ticked, isEmpty ? group === groups[0] : opened.includes(group[0]))
    );
    const added = place.querySelector(".added");
    const hadFocus = added?.contains(document.activeElement);
    render(
      markup`<fieldset class=${props.more ? "legend" : nothing}><legend>${props.label ?? ""}</legend>
        <div class="groups">${
        props.more ? drawLegend(groups.filter(isShown), folded, folds, ticked) : folds
      }</div></fieldset>`,
      place,
    );
    isEmpty = !groups.length;
    if (hadFocus && !added.contains(document.activeElement)) {
      (added.querySelector("input") ?? place.querySelector(".more summary")).focus();
    }
  }

  watch(["groups", "value", "defaults", "looks"], draw);
  draw();
}
