// Messages, and the Markdown in texts.
import { markup } from "./markup.js";

// Convert **bold** and `code` to templates; everything else remains text.
export function drawMarkdown(text) {
  return text.split(/(\*\*.+?\*\*|`[^`]+`)/).map((part) => {
    if (/^\*\*.+\*\*$/.test(part)) return markup`<strong>${part.slice(2, -2)}</strong>`;
    return /^`.+`$/.test(part) ? markup`<code>${part.slice(1, -1)}</code>` : part;
  });
}

// Messages that are shown as a card, for example with a download: { matches(sentence), create() }.
export const cards = [];

// A highlighted message, or its card.
export function drawNotice(sentence) {
  const card = cards.find(({ matches }) => matches(sentence));
  return card ? card.create() : markup`<p class="vd-notice" role="status">${drawMarkdown(sentence)}</p>`;
}
