// Runs once, when the page has loaded: every figure gets a button that saves it as PNG at 2x.
() => {
  const SCALE = 2;
  const layers = (figure) =>
    [...figure.querySelectorAll("img, svg, [data-tiles]")].filter(
      (part) => !part.closest("button.vd-save") && part.getBoundingClientRect().width > 0,
    );

  // What lies under a map as its background, once for each of "columns rows" tiles.
  const tiles = (part) => (part.dataset.tiles || "1 1").split(" ").map(Number);
  const background = (part) => getComputedStyle(part).backgroundImage.match(/^url\("(.*)"\)$/)?.[1];

  const asImage = (part) =>
    new Promise((resolve, reject) => {
      if (part.tagName === "IMG") return resolve(part);
      const image = new Image();
      image.onload = () => resolve(image);
      image.onerror = reject;
      if (part.dataset.tiles) {
        image.src = background(part) || "data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg'/>";
        return;
      }
      const { width, height } = part.getBoundingClientRect();
      const copy = part.cloneNode(true);
      copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
      copy.setAttribute("width", SCALE * width);
      copy.setAttribute("height", SCALE * height);
      const style = getComputedStyle(part);
      copy.style.color = style.color; // "currentColor" is nothing by itself
      copy.style.fontFamily = style.fontFamily;
      image.src =
        "data:image/svg+xml;charset=utf-8," +
        encodeURIComponent(new XMLSerializer().serializeToString(copy));
    });

  // Words that belong to the picture: the labels of a wall's rows, columns and thumbnails.
  const labels = (figure) =>
    [...figure.querySelectorAll(".vd-tops span, .vd-sides span, .vd-heads small")].filter(
      (label) => label.textContent && label.getBoundingClientRect().width > 0,
    );

  function write(context, label, left, top) {
    const style = getComputedStyle(label);
    const box = label.getBoundingClientRect();
    const [x, y] = [SCALE * (box.left - left), SCALE * (box.top - top)];
    context.globalAlpha = 1;
    context.fillStyle = style.backgroundColor;
    context.fillRect(x, y, SCALE * box.width, SCALE * box.height);
    const words = document.createRange();
    words.selectNodeContents(label);
    const place = words.getBoundingClientRect();
    context.font = `${style.fontWeight} ${SCALE * parseFloat(style.fontSize)}px ${style.fontFamily}`;
    context.fillStyle = style.color;
    context.textBaseline = "middle";
    context.fillText(words.toString(), SCALE * (place.left - left), y + (SCALE * box.height) / 2);
  }

  async function draw(figure) {
    const parts = layers(figure);
    const words = labels(figure);
    const boxes = [...parts, ...words].map((part) => part.getBoundingClientRect());
    const left = Math.min(...boxes.map((box) => box.left));
    const top = Math.min(...boxes.map((box) => box.top));
    const canvas = document.createElement("canvas");
    canvas.width = Math.round(SCALE * (Math.max(...boxes.map((box) => box.right)) - left));
    canvas.height = Math.round(SCALE * (Math.max(...boxes.map((box) => box.bottom)) - top));
    const context = canvas.getContext("2d");
    if (words.length || parts.some((part) => part.tagName === "svg")) {
      context.fillStyle = getComputedStyle(document.body).backgroundColor; // they have none
      context.fillRect(0, 0, canvas.width, canvas.height);
    }
    for (const [i, part] of parts.entries()) {
      const style = getComputedStyle(part);
      context.globalAlpha = Number(style.opacity);
      context.imageSmoothingEnabled = style.imageRendering !== "pixelated";
      const image = await asImage(part);
      const [across, down] = tiles(part);
      const width = (SCALE * boxes[i].width) / across;
      const height = (SCALE * boxes[i].height) / down;
      for (let tile = 0; tile < across * down; tile++)
        context.drawImage(
          image,
          SCALE * (boxes[i].left - left) + (tile % across) * width,
          SCALE * (boxes[i].top - top) + Math.floor(tile / across) * height,
          width,
          height,
        );
    }
    for (const label of words) write(context, label, left, top);
    return canvas;
  }

  const nameOf = (figure) => {
    const words = figure.getAttribute("aria-label") || layers(figure).find((part) => part.alt)?.alt || "figure";
    const plain = words.split(/: maximum|, brightest|: brightest/)[0].toLowerCase().replace(/[^a-z0-9]+/g, "-");
    return "vitdemo-" + plain.slice(0, 60).replace(/^-+|-+$/g, "") + ".png";
  };

  async function save(figure) {
    const link = document.createElement("a");
    link.download = nameOf(figure);
    link.href = (await draw(figure)).toDataURL("image/png");
    link.click();
  }

  function offer(figure) {
    if (figure.querySelector("button.vd-save") || !figure.querySelector("img, svg")) return;
    const button = document.createElement("button");
    button.className = "vd-save";
    button.type = "button";
    button.textContent = "PNG";
    button.title = "Save this figure as PNG";
    button.setAttribute("aria-label", "Save as PNG: " + nameOf(figure));
    button.addEventListener("click", () => save(figure));
    figure.append(button);
  }

  const offerAll = () => document.querySelectorAll("figure").forEach(offer);
  let waiting = false;
  new MutationObserver(() => {
    if (waiting) return; // many changes of one redraw count once
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      offerAll();
    });
  }).observe(document.body, { childList: true, subtree: true });
  offerAll();
}
