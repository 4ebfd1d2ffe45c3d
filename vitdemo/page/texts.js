// Texts, which Python defines by feature (see texts.py), and functions for them. A text contains placeholders, such as
// "Layer {layer}". Plural forms are separate texts, such as "images_one" and "images_other", with the number as
// {count}.
import { LANGUAGE, TEXTS } from "./generated.js";

export { LANGUAGE, TEXTS };
const rules = new Intl.PluralRules(LANGUAGE);
export const formatNumber = new Intl.NumberFormat(LANGUAGE).format;

// The text as alternating strings and values. A value may be an element.
export function fillParts(text, values) {
  return text.split(/\{(\w+)\}/).map((part, i) => {
    if (i % 2 === 0) return part;
    if (values[part] === undefined) throw new Error(`no value for {${part}} of "${text}"`);
    return values[part];
  });
}
export const fill = (text, values) => fillParts(text, values).join("");

// The text `name` of `texts` in the plural form of `count`.
export function fillPlural(texts, name, count, values = {}) {
  const text = texts[`${name}_${rules.select(count)}`] ?? texts[`${name}_other`];
  return fill(text, { count: formatNumber(count), ...values });
}
