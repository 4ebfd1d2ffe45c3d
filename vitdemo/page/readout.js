// The numbers of curves for who has no pointer to rest on them: a tap on a plot, or the slider above
// the plots, writes the words of that place below each of them.
(() => {
  const strips = (figure) => [...figure.querySelectorAll(".vd-hover")];

  function read(place, at) {
    for (const figure of place.querySelectorAll("figure")) {
      const all = strips(figure);
      all.forEach((strip, i) => strip.classList.toggle("vd-at", i === at));
      figure.querySelector(".vd-read").textContent = all[at]?.textContent ?? "";
    }
    const words = place.querySelector(".vd-hover.vd-at")?.textContent ?? "";
    place.querySelector(".vd-reader input").setAttribute("aria-valuetext", words.split("\n")[0]);
  }

  document.addEventListener("input", (event) => {
    if (event.target.matches(".vd-reader input"))
      read(event.target.closest(".vd-readable"), Number(event.target.value));
  });
  document.addEventListener("click", (event) => {
    const strip = event.target.closest?.(".vd-readable .vd-hover");
    if (!strip) return;
    const place = strip.closest(".vd-readable");
    const at = strips(strip.closest("figure")).indexOf(strip);
    place.querySelector(".vd-reader input").value = at;
    read(place, at);
  });
})();
