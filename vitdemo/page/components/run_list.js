// This script runs once: the template does not contain the value, so gradio never redraws it.
const { fill } = vitdemo;
const texts = vitdemo.texts.run_list;
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

function group([title, names], open) {
  const made = make("div", "", { className: "group" });
  const all = make("input", "", { type: "checkbox" });
  all.setAttribute("aria-label", fill(texts.select_all, { group: title }));
  all.addEventListener("change", () => {
    const kept = chosen();
    for (const name of names) all.checked ? kept.add(name) : kept.delete(name);
    choose(kept);
  });
  const details = make("details", "", { open });
  const summary = make("summary", title);
  summary.append(make("b"));
  const runs = make("div", "", { className: "runs" });
  runs.append(...names.map((name) => box(make("label"), name)));
  details.append(summary, runs);
  const only = make("button", texts.select_only, { type: "button" });
  only.setAttribute("aria-label", fill(texts.select_only_group, { group: title }));
  only.addEventListener("click", () => choose(new Set(names)));
  made.append(all, details, only);
  return made;
}

function mark() {
  const names = chosen();
  (props.groups ?? []).forEach(([, all], i) => {
    const one = place.children[i];
    const count = all.filter((name) => names.has(name)).length;
    one.querySelector("summary b").textContent = fill(texts.chosen, { chosen: count, runs: all.length });
    Object.assign(one.firstElementChild, {
      checked: count === all.length,
      indeterminate: count > 0 && count < all.length,
    });
    for (const input of one.querySelectorAll(".runs input")) input.checked = names.has(input.value);
  });
}

function draw() {
  element.querySelector("legend").textContent = props.label ?? "";
  const [titles, opened] = [[], []];
  for (const one of place.children) {
    titles.push(one.dataset.title);
    if (one.querySelector("details").open) opened.push(one.dataset.title);
  }
  const groups = props.groups ?? [];
  const asked = JSON.stringify(groups);
  if (asked === drawn) return mark();
  drawn = asked;
  place.replaceChildren(
    ...groups.map((one, i) => {
      const made = group(one, titles.length ? opened.includes(one[0]) : i === 0);
      made.dataset.title = one[0];
      return made;
    }),
  );
  mark();
}

watch("groups", draw);
watch(["value", "defaults"], mark);
draw();
