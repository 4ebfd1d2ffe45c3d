// Functions for texts. The page's head sets `vitdemo.language` and `vitdemo.texts`, the texts by feature (see
// texts.py). A text has placeholders, as "Layer {layer}". Plural forms are separate texts, as "images_one" and
// "images_other", with the number as {count}.
Object.assign(window.vitdemo, (() => {
  const { language } = window.vitdemo;
  const rules = new Intl.PluralRules(language);
  const format = new Intl.NumberFormat(language);

  // The text as strings and values in turns. A value may be an element.
  function fillParts(text, values) {
    return text.split(/\{(\w+)\}/).map((part, i) => {
      if (i % 2 === 0) return part;
      if (values[part] === undefined) throw new Error(`no value for {${part}} of "${text}"`);
      return values[part];
    });
  }
  const fill = (text, values) => fillParts(text, values).join("");

  // The text `name` of `texts` in the plural form of `count`.
  function fillPlural(texts, name, count, values = {}) {
    const text = texts[`${name}_${rules.select(count)}`] ?? texts[`${name}_other`];
    return fill(text, { count: format.format(count), ...values });
  }

  // HTML with escaped values, as html`<p>${text}</p>`.
  const ESCAPED = { "&": "&amp;", "<": "&lt;", '"': "&quot;" };
  const escape = (value) => String(value).replace(/[&<"]/g, (letter) => ESCAPED[letter]);
  const html = (parts, ...values) => String.raw({ raw: parts }, ...values.map(escape));

  return { fill, fillParts, fillPlural, html };
})());
