const { linePlotsIn, received } = vitdemo;
const drawPlots = linePlotsIn(element.querySelector(".curves"));
const draw = () => drawPlots(received(props));
watch("value", draw);
draw();
