// A map of attention in words and in numbers. A `look` is as in matrices.js; a `view` says which map
// it is: {of, layer, head, incoming}, as attention.js has them; `values` (N) are of one token.
Object.assign(window.vitdemo, (() => {
  const { largest, lineOf, make, patchOf, percent, plainName, table } = window.vitdemo;
  const patchesOf = (look, values) => values.subarray(look.prefix.length);
  const isNorm = (of) => of === "norm" || of === "norm-head";
  const total = (map) => map.reduce((sum, value) => sum + value, 0);

  function mapTitle(look, { of, layer, head, incoming }, token) {
    const first = look.rollout.first;
    const which = {
      head: `Layer ${layer}, head ${head}`,
      mean: `Layer ${layer}, mean of ${look.heads} heads`,
      norm: `Layer ${layer}, norm-weighted attention of ${look.heads} heads`,
      "norm-head": `Layer ${layer}, head ${head}, norm-weighted attention`,
      rollout: `Attention rollout of ${layer > first ? `layers ${first} to ${layer}` : `layer ${layer}`}${look.rollout.words}`,
      similar: `After layer ${layer}`,
    }[of];
    if (of === "similar") return `${which}: which patches have tokens similar to that of ${token.name}`;
    if (isNorm(of)) return incoming ? `${which}: which tokens receive most from ${token.name}` : `${which}: what ${token.name} receives`;
    return incoming ? `${which}: who attends to ${token.name}` : `${which}: what ${token.name} attends to`;
  }

  // What all patches together get of one token's attention; 1 where the rest is with no other token.
  function shareOfPatches(look, { of, incoming }, values) {
    return of === "similar" || incoming || !look.prefix.length ? 1 : total(patchesOf(look, values));
  }

  // The three patches with most of the mean attention of `values`, and their share of what all patches get.
  function strongest(map, few = 3) {
    const first = [...map.keys()].sort((a, b) => map[b] - map[a]).slice(0, few);
    return [first, shareOf(map, first)];
  }
  const shareOf = (map, chosen) => chosen.reduce((sum, i) => sum + map[i], 0) / total(map);

  // Where three patches of many get a third of the weight: that is not yet what they pass on.
  function wordsOnFew(look, { of, layer, incoming }, token, values) {
    if (!["mean", "norm"].includes(of) || incoming || token !== look.tokens.answering) return "";
    const weights = of === "mean" ? values : lineOf(look, "mean", layer, 1, token, false);
    const map = weights && patchesOf(look, weights);
    if (!map || map.length < 60) return "";
    const [first, share] = strongest(map);
    if (share < 1 / 3) return "";
    if (of === "norm") return `The three most attended patches have ${percent(share)} of the attention on patches, and ${percent(shareOf(patchesOf(look, values), first))} of the norms.`;
    return `Three of ${map.length} patches get ${percent(share)} of the attention on patches. See “norm-weighted” under Show.`;
  }

  function place(look, map) {
    const best = map.indexOf(Math.max(...map));
    return `row ${Math.floor(best / look.grid[1]) + 1}, column ${(best % look.grid[1]) + 1}`;
  }

  // What the patch under the pointer (its number, or null) gives or gets.
  function pointedWords(look, { of, layer, head, incoming }, pointed) {
    if (pointed === null || of === "similar") return "";
    const { answering } = look.tokens;
    const own = lineOf(look, of, layer, head, answering, incoming);
    const share = own && percent(own[look.prefix.length + pointed]);
    const norm = incoming ? ` receives ${share} from ${answering.name}` : ` passes ${share} to ${answering.name}`;
    const does = isNorm(of) ? norm : incoming ? ` gives ${share} to ${answering.name}` : ` gets ${share} from ${answering.name}`;
    return `Row ${patchOf(look, pointed).code.replace(",", ", column ")}${own ? does : ""}. `;
  }

  function mapWords(look, view, values, pointed) {
    const map = patchesOf(look, values);
    const text = pointedWords(look, view, pointed);
    if (view.of === "similar") return "Cosine of the tokens: most similar besides itself where orange is deepest, opposite where purple.";
    const most = `${place(look, map)}: ${percent(largest(map))}`;
    if (isNorm(view.of)) return normWords(look, view, values, text, most);
    if (view.incoming) return `${text}Most from ${most} of that patch's attention.`;
    if (!look.prefix.length) return `${text}Most at ${most}.`;
    const share = shareOfPatches(look, view, values);
    const rest = look.prefix.length > 1 ? "tokens that are no patch" : "the class token itself";
    const all = share < 0.2 ? `only ${percent(share)}: the rest is with ${rest}, so read this map with care` : percent(share);
    return `${text}Most at ${most}. All patches together get ${all}.`;
  }

  function normWords(look, view, values, text, most) {
    if (view.incoming) return `${text}Largest in ${most} of the norms that this patch receives.`;
    const all = `All patches together: ${percent(shareOfPatches(look, view, values))}.`;
    return `${text}Largest at ${most} of the sum of norms. ${look.prefix.length ? all : ""}`.trim();
  }

  // The map's numbers as a table, and what is measured of all heads as another one, with words above.
  function mapTables(look, view, token, values) {
    const map = patchesOf(look, values);
    const columns = look.grid[1];
    const number = (value) => (view.of === "similar" ? value.toFixed(3) : (100 * value).toFixed(2));
    const grid = Array.from({ length: look.grid[0] }, (_, i) => [i + 1, ...Array.from(map.subarray(i * columns, (i + 1) * columns), number)]);
    const heads = look.distances.flatMap((each, l) => each.map((distance, h) => [`layer ${l + 1}, head ${h + 1}`, distance.toFixed(2), look.entropies[l][h].toFixed(2)]));
    const title = mapTitle(look, view, token);
    const file = (name) => `vitdemo-${plainName(`${look.run} ${name}`)}`;
    return [
      make("p", { text: `${title}, ${view.of === "similar" ? "as cosines" : isNorm(view.of) ? "in percent of the sum of norms" : "in percent"}` }),
      table({ columns: ["row", ...Array.from({ length: columns }, (_, i) => i + 1)], rows: grid, file: file(title), tall: true }),
      make("p", { text: `Attention distance: how far from itself a patch looks, on average. Entropy: over how many places attention is spread, 0 bits for one, ${Math.log2(look.size).toFixed(1)} for all ${look.size} tokens alike.` }),
      table({ columns: ["head", "attention distance (patches)", "entropy (bits)"], rows: heads, file: file("heads"), tall: true }),
    ];
  }

  return { mapTables, mapTitle, mapWords, patchesOf, shareOfPatches, wordsOnFew };
})());
