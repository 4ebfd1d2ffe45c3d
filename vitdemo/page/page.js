// Switches to the light theme while printing.
const { classList } = document.body;
let dark = false;
addEventListener("beforeprint", () => {
  dark = classList.contains("dark");
  classList.remove("dark");
});
addEventListener("afterprint", () => classList.toggle("dark", dark));
