// What is true of this page, beside its name.
function draw() {
  const { words = "", problems = [] } = props.value || {};
  element.querySelector("p span").textContent = words;
  element.querySelector("div").replaceChildren(...problems.map(vitdemo.notice));
}
watch("value", draw);
draw();
