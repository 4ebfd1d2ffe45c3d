const { received, taskRowsIn } = vitdemo;
const drawRows = taskRowsIn(element.querySelector("div"), "", (action) => trigger("act", action));
const draw = () => drawRows(received(props) || []);
watch("value", draw);
draw();
