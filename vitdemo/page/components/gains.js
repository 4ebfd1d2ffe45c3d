// Differences with their intervals around a line at 0; the numbers stand in the table below.
const { make } = vitdemo;
const figure = element.querySelector("figure");

function draw() {
  const { label, signs, rows = [] } = props.value || {};
  figure.hidden = !rows.length;
  if (!rows.length) return;
  figure.setAttribute("aria-label", `${label}; its numbers are below`);
  figure.querySelector("figcaption").textContent = label;
  figure.querySelector(".signs").textContent = signs;
  const ends = [0, ...rows.flatMap(({ gain, low, high }) => [gain, low, high])];
  const [least, most] = [Math.min(...ends), Math.max(...ends)];
  const room = 0.06 * (most - least || 1);
  const place = (value) => (100 * (value - least + room)) / (most - least + 2 * room);
  const row = ({ words, gain, low, high, clear }) => {
    const kind = !clear ? "unsure" : gain > 0 ? "better" : "worse";
    const sign = { unsure: "○", better: "●", worse: "■" }[kind];
    const track = make(
      "div",
      { className: "track" },
      make("i", { className: "zero", style: `left: ${place(0)}%` }),
      make("i", { className: "span", style: `left: ${place(low)}%; width: ${place(high) - place(low)}%` }),
      make("i", { className: "dot", style: `left: ${place(gain)}%`, text: sign }),
    );
    return make("div", { className: `row ${kind}` }, make("span", { text: words }), track);
  };
  figure.querySelector(".rows").replaceChildren(...rows.map(row));
  const end = (value) => make("span", { text: `${value > 0 ? "+" : value < 0 ? "−" : ""}${Math.abs(value).toFixed(1)}` });
  figure.querySelector(".axis").replaceChildren(end(least), make("span", { text: "percentage points" }), end(most));
}
watch("value", draw);
draw();
