// This script runs once: the template does not contain the value, so gradio never redraws it.
import { fill, TEXTS } from "../texts.js";

export function mount({ element, props, trigger, watch }) {
  const texts = TEXTS.run_list;
  const place = element.querySelector(".groups");
  const isChosen = () => JSON.stringify(props.value) !== '[""]';
  const chosen = () => new Set((isChosen() ? props.value : props.defaults) ?? []);
  let drawn = ""; // the drawn groups as JSON, to skip updates without changes

  function make(tag, words = "", options = {}) {
    const made = Object.assign(document.createElement(tag), options);
    made.textContent = words;
    return made;
  }

  // The chosen names have the order of the groups, not the order of the clicks.
  function choose(names) {
    props.value = (props.groups ?? []).flatMap(([, all]) => all).filter((name) => names.has(name));
    mark();
    trigger("input");
  }

  function box(label, name) {
    const input = make("input", "", { type: "checkbox", value: name });
    input.addEventListener("change", () => {
      const names = chosen();
      if (input.checked) names.add(name);
      else names.delete(name);
      choose(names);
    });
    label.append(input, make("span", name));
    return label;
  }

  function only(title, names) {
    const made = make("button", texts.select_only, { type: "button" });
    made.setAttribute("aria-label", fill(texts.select_only_group, { group: title }));
    made.addEventListener("click", () => choose(new Set(names)));
    return made;
  }

  function selectAll(title, names) {
    const all = make("input", "", { type: "checkbox" });
    all.setAttribute("aria-label", fill(texts.select_all, { group: title }));
    all.addEventListener("change", () => {
      const kept = chosen();
      for (const name of names) all.checked ? kept.add(name) : kept.delete(name);
      choose(kept);
    });
    return all;
  }

  function group(title, names, open) {
    const made = make("div", "", { className: "group" });
    made.dataset.title = title;
    const all = selectAll(title, names);
    const details = make("details", "", { open });
    const [summary, count] = [make("summary", title), make("b")];
    summary.append(count);
    const runs = make("div", "", { className: "runs" });
    runs.append(...names.map((name) => box(make("label"), name)));
    details.append(summary, runs);
    made.append(all, details, only(title, names));
    return { made, names, all, count };
  }

  // --- The list as a legend: the groups `shown`, ticked runs of other groups, and the other groups behind `more`.

  const added = make("div", "", { className: "entries" }); // ticked runs of other groups
  const more = make("details", "", { className: "more" });
  const [moreCount, moreGroups] = [make("b"), make("div")];
  const key = make("span", "", { className: "key" });

  function stroke(className, colour) {
    const made = make("i", "", { className });
    made.style.color = colour;
    return made;
  }

  // A run with the line of its curves, which `paint` colours.
  function entry(name) {
    const label = box(make("label", "", { className: "entry" }), name);
    label.lastElementChild.before(make("span", "", { className: "lines" }));
    return label;
  }

  function paint(label) {
    const input = label.querySelector("input");
    const { colour, lighter, sign } = (input.checked && props.looks?.[input.value]) || { colour: "" };
    const lines = colour
      ? [stroke("", colour), ...(lighter ? [stroke("dashed", lighter)] : [])]
      : [stroke("off", "")];
    const mark = make("b", sign ?? "");
    mark.style.color = colour;
    label.querySelector(".lines").replaceChildren(...lines, ...(sign ? [mark] : []));
  }

  function entries(title, names) {
    const made = make("div", "", { className: "entries" });
    const all = make("label", "", { className: "all" });
    all.append(selectAll(title, names), make("span", title));
    made.append(...(names.length > 1 ? [all] : []), ...names.map(entry));
    return { made, names, all: all.firstElementChild, count: null };
  }

  function drawLegend() {
    const summary = make("summary", props.more);
    summary.append(moreCount);
    more.replaceChildren(summary, moreGroups);
    const isShown = ({ made }) => made.className === "entries";
    moreGroups.replaceChildren(...lines.filter((one) => !isShown(one)).map(({ made }) => made));
    more.hidden = !moreGroups.children.length;
    place.replaceChildren(...lines.filter(isShown).map(({ made }) => made), added, key, more);
    element.querySelector("fieldset").className = "legend";
  }

  function markLegend(names) {
    const others = lines.filter(({ count }) => count).flatMap((one) => one.names);
    const ticked = others.filter((name) => names.has(name));
    const drawnNames = [...added.querySelectorAll("input")].map((input) => input.value);
    if (JSON.stringify(ticked) !== JSON.stringify(drawnNames)) {
      const hadFocus = added.contains(document.activeElement);
      added.replaceChildren(...ticked.map(entry));
      if (hadFocus) (added.querySelector("input") ?? more.querySelector("summary")).focus();
    }
    for (const input of added.querySelectorAll("input")) input.checked = true;
    moreCount.textContent = fill(texts.chosen, { chosen: ticked.length, runs: others.length });
    const { validation, training } = TEXTS.line_plots;
    const hasTraining = Object.values(props.looks ?? {}).some(({ lighter }) => lighter);
    key.replaceChildren(stroke("", ""), validation, ...(hasTraining ? [stroke("dashed", ""), training] : []));
    key.hidden = !names.size;
    for (const label of place.querySelectorAll(".entry")) paint(label);
  }

  // --- Both

  let lines = []; // drawn groups: { made: element, names, all: checkbox, count: element or null }

  function mark() {
    const names = chosen();
    for (const { made, names: own, all, count } of lines) {
      const ticked = own.filter((name) => names.has(name)).length;
      if (count) count.textContent = fill(texts.chosen, { chosen: ticked, runs: own.length });
      Object.assign(all, {
        checked: ticked === own.length,
        indeterminate: ticked > 0 && ticked < own.length,
      });
      for (const input of made.querySelectorAll(".runs input, .entry input")) {
        input.checked = names.has(input.value);
      }
    }
    if (props.more) markLegend(names);
  }

  function draw() {
    element.querySelector("legend").textContent = props.label ?? "";
    const groups = props.groups ?? [];
    const asked = JSON.stringify(groups);
    if (asked === drawn) return mark();
    drawn = asked;
    const opened = lines.filter(({ made }) => made.querySelector("details")?.open).map(({ made }) =>
      made.dataset.title
    );
    const isFirst = !lines.length;
    lines = groups.map(([title, names], i) =>
      props.shown?.includes(title)
        ? entries(title, names)
        : group(title, names, isFirst ? i === 0 : opened.includes(title))
    );
    if (props.more) drawLegend();
    else place.replaceChildren(...lines.map(({ made }) => made));
    mark();
  }

  watch("groups", draw);
  watch(["value", "defaults", "looks"], mark);
  draw();
}
