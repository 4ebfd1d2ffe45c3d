// Shows the chosen part of the section "Inside the model".
import * as store from "../../store.js";

const show = ({ inside }) => {
  document.documentElement.dataset.part = inside;
};
store.watch(["inside"], show);
document.addEventListener("vitdemo:started", () => show(store.state));
