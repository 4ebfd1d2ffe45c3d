// A document of blocks. Its buttons trigger "pick".
const { documentIn, newest, received } = vitdemo;
const asked = newest();
const place = element.querySelector("div");
place.className = "article";
const drawBlocks = documentIn(place, (name) => trigger("pick", asked({ pick: name })));
const draw = () => drawBlocks(received(props) || []);
watch("value", draw);
draw();
