// Create an SVG element with attributes (null: none) and children.
export function svg(tag, properties = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(properties)) if (value !== null) made.setAttribute(name, value);
  made.append(...children);
  return made;
}
