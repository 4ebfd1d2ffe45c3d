// A button for each head, coloured by its effect on the prediction; a pressed button means "off".
// A click switches a head immediately and triggers "toggle"; `vitdemo.headsOff` is then "3.1 4.2"
// (layer.head, from 1). Changes by a URL or a button arrive with the event "vitdemo:heads".
const { caption, folded, grid, largest, notice, received, redraw, scale, shade, signed } = vitdemo;
const place = element.querySelector(".head_wall");
let told = null; // the heads that are off, as text; null until the first change

// Parse the heads in a text, in order; ignore heads that do not exist.
function off({ change }, text) {
  const found = (text ?? "").split(/\s+/).map((word) => /^(\d{1,4})\.(\d{1,4})$/.exec(word)?.slice(1).map(Number));
  const known = found.filter((head) => head && change[head[0] - 1]?.[head[1] - 1] !== undefined);
  return new Set(known.sort((a, b) => a[0] - b[0] || a[1] - b[1]).map((head) => head.join(".")));
}

function toggle(pick) {
  const value = received(props);
  const heads = off(value, told ?? value.off);
  if (!heads.delete(pick)) heads.add(pick);
  told = [...off(value, [...heads].join(" "))].join(" ");
  draw();
  vitdemo.headsOff = told;
  trigger("toggle");
}

function wall({ name, change, probability }, heads) {
  const limit = largest(change.flat());
  const rows = change.map((line, l) => ({ name: `layer ${l + 1}`, cells: line.map((value, h) => {
    const pick = `${l + 1}.${h + 1}`;
    const words = `logit of ${name} ${signed(value)}, probability ${signed(100 * probability[l][h], 1)} percentage points`;
    return {
      text: heads.has(pick) ? "off" : signed(value), pick, pressed: heads.has(pick),
      label: `Layer ${l + 1}, head ${h + 1}, ${heads.has(pick) ? "off" : "on"}. Effect of switching off only this head: ${words}`,
      rgb: shade(limit > 0 ? (1 - value / limit) / 2 : 0.5), // the head supports the class if the logit drops without the head
    };
  }) }));
  const columns = change[0].map((_, h) => ({ text: h + 1 }));
  const title = "Change of the logit when one head is switched off. Columns are heads.";
  return [grid({ caption: title, corner: "", columns, rows, look: "vd-heads" }, toggle),
    scale(signed(-limit), signed(limit), " (change of the logit; white: no change)", true)];
}

function draw() {
  const value = received(props) || {};
  if (!value.change) return place.replaceChildren(...(value.sentence ? [notice(value.sentence)] : []));
  const numbers = value.probability.map((line, l) => [String(l + 1), ...line.map((change) => signed(100 * change))]);
  const head = ["layer", ...value.change[0].map((_, h) => `head ${h + 1}`)];
  redraw(place, caption(value.words), ...wall(value, off(value, told ?? value.off)),
    folded(`Numbers: change of the probability of ${value.name}, in percentage points`, head, numbers));
}

document.addEventListener("vitdemo:heads", function follow({ detail }) {
  if (!element.isConnected) return document.removeEventListener("vitdemo:heads", follow);
  if (detail === told) return;
  told = detail;
  draw();
});
watch("value", draw);
draw();
