// A document of blocks. Its buttons trigger "pick".
const { documentIn, newest, received } = vitdemo;
const asked = newest();
const drawBlocks = documentIn(element.querySelector(".article"), (name) => trigger("pick", asked({ pick: name })));
const draw = () => drawBlocks(received(props) || []);
watch("value", draw);
draw();
