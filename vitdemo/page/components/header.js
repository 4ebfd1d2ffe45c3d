// What is true of this page, beside its name.
const { notice, received } = vitdemo;

function draw() {
  const { words = "", problems = [] } = received(props) || {};
  element.querySelector("p span").textContent = words;
  element.querySelector("div").replaceChildren(...problems.map(notice));
}
watch("value", draw);
draw();
