// Blocks of words and tables, one below the other.
const { csv, make, markdown, notice, saveText, table } = vitdemo;
const LONG = 40; // letters of a cell, of whose column are words, no numbers
const place = element.querySelector(".notes");

function tableOf({ head, rows, file, raw, whole }) {
  const made = table(head, rows);
  head.forEach((_, column) => {
    if (column === 0 || !rows.some((row) => row[column].length > LONG)) return;
    for (const row of made.querySelectorAll("tr")) row.children[column].className = "words";
  });
  if (!file) return [made];
  const button = (text, save) => {
    const one = make("button", { type: "button", className: "save", text });
    one.addEventListener("click", save);
    return one;
  };
  return [
    made,
    button("Download CSV", () => saveText(csv(whole ?? [head, ...(raw ?? rows)]), `${file}.csv`, "text/csv")),
    button("Download Markdown", () => saveText(markdown(whole ?? [head, ...rows]), `${file}.md`, "text/markdown")),
  ];
}

function link({ link: text, pick }) {
  const made = make("button", { type: "button", className: "link", text });
  made.addEventListener("click", () => trigger("pick", { pick }));
  return make("p", {}, made);
}

function block(one) {
  if (one.title) return [make("h2", { text: one.title })];
  if (one.notice) return [notice(one.notice)];
  if (one.link) return [link(one)];
  if (one.items) return [make("ul", {}, ...one.items.map(([bold, rest]) => make("li", {}, bold ? make("strong", { text: bold }) : null, rest)))];
  if (one.fold) return [make("details", {}, make("summary", { text: one.fold }), ...one.blocks.flatMap(block))];
  if (one.head) return tableOf(one);
  return [make("p", { className: one.quiet ? "quiet" : "", text: one.quiet ?? one.text })];
}

function draw() {
  const open = [...place.querySelectorAll("details[open] > summary")].map((one) => one.textContent);
  place.replaceChildren(...(props.value || []).flatMap(block));
  for (const one of place.querySelectorAll("summary")) one.parentElement.open = open.includes(one.textContent);
}
watch("value", draw);
draw();
