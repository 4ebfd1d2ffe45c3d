// Texts that several scripts show, and functions for texts with values. A text contains placeholders, such as
// "Layer {layer}".
import { LANGUAGE } from "./generated.js";

export const CANCEL = "Cancel";
export const CLOSE_CAMERA = "Close camera";
export const INTERRUPTED = "The connection to the server was lost. Try again.";
export const MAP_FILE = "{run} {map}";
export const OPEN_CAMERA = "Open camera";
export const PNG = "PNG";
export const ROW = "layer {layer}";
export const SAVE_AS_PNG = "Save as PNG: {name}";
export const SOURCE_HEAD = "head {head}";
export const THUMBNAIL_HEAD =
  "Layer {layer}, head {head}: distance {distance} patches, entropy {entropy} bits";
export const UPLOAD_FAILED =
  "The upload failed: the server does not respond, or its disk is full. No files were added. Try again later.";

const rules = new Intl.PluralRules(LANGUAGE);
export const formatNumber = new Intl.NumberFormat(LANGUAGE).format;

// Insert `values` for the placeholders of `text`.
export function fill(text, values) {
  return text.replace(/\{(\w+)\}/g, (_, name) => {
    if (values[name] === undefined) throw new Error(`no value for {${name}} of "${text}"`);
    return values[name];
  });
}

// Fill the text for one thing or for several; {count} is the number.
export function fillPlural(count, one, other, values = {}) {
  return fill(rules.select(count) === "one" ? one : other, { count: formatNumber(count), ...values });
}
