// This script runs once: the template does not contain the value, so gradio never redraws it.
const [label, info, select] = ["label", "small", "select"].map((tag) => element.querySelector(tag));
select.id = label.htmlFor = `${element.id}-select`;
info.id = `${element.id}-info`;
select.setAttribute("aria-describedby", info.id);

function option(name, words = name) {
  const made = document.createElement("option");
  made.value = name;
  made.textContent = words;
  return made;
}

function draw() {
  label.textContent = props.label ?? "";
  info.textContent = props.info ?? "";
  const groups = (props.groups ?? []).map(([title, names]) => {
    const made = document.createElement("optgroup");
    made.label = title;
    made.append(...names.map((name) => option(name)));
    return made;
  });
  select.replaceChildren(...(props.nobody ? [option("", props.nobody)] : []), ...groups);
  select.value = props.value ?? "";
  share();
}

// The model of Explore, and the stamp of all models, are part of the view state.
function share() {
  if (element.closest("#model")) vitdemo.store.set({ model: props.value, models: props.stamp });
}

select.addEventListener("change", () => {
  props.value = select.value;
  share();
  trigger("input");
});
watch(["groups", "value", "stamp"], draw);
draw();
