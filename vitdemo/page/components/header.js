// What is true of this page, beside its name.
const { notice, received } = vitdemo;

function draw() {
  const { words = "", problems = [] } = received(props) || {};
  element.querySelector("p span").textContent = words;
  element.querySelector("div").replaceChildren(...problems.map(notice));
}
// By hand: gradio keeps a link's own jump from happening, and the map is on a tab that may be closed.
element.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  document.querySelector("#tabs [role=tab][data-tab-id=look]")?.click();
  requestAnimationFrame(() => {
    const map = document.querySelector("#attention .large");
    map?.focus({ preventScroll: true });
    map?.scrollIntoView({ block: "center" });
  });
});
watch("value", draw);
draw();
