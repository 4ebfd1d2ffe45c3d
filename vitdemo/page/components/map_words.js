// Texts and tables of attention maps. A `look` is as in matrices.js. A `view` identifies the map:
// {of, layer, head, incoming}, as in attention.js. `values` (N) are the weights of one token.
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
    if (of === "similar") return `${which}: patches whose tokens are similar to ${token.name}`;
    if (isNorm(of)) return incoming ? `${which}: tokens that receive most from ${token.name}` : `${which}: tokens that pass most to ${token.name}`;
    return `${which}: attention ${incoming ? "to" : "of"} ${token.name}`;
  }

  // The fraction of one token's attention that all patches together receive; 1 without special tokens.
  function shareOfPatches(look, { of, incoming }, values) {
    return of === "similar" || incoming || !look.prefix.length ? 1 : total(patchesOf(look, values));
  }

  // The patches with the highest values, and their fraction of the sum over all patches.
  function strongest(map, few = 3) {
    const first = [...map.keys()].sort((a, b) => map[b] - map[a]).slice(0, few);
    return [first, shareOf(map, first)];
  }
  const shareOf = (map, chosen) => chosen.reduce((sum, i) => sum + map[i], 0) / total(map);

  // A note if three patches have a third of the attention weights: they may still pass on little.
  function wordsOnFew(look, { of, layer, incoming }, token, values) {
    if (!["mean", "norm"].includes(of) || incoming || token !== look.tokens.answering) return "";
    const weights = of === "mean" ? values : lineOf(look, "mean", layer, 1, token, false);
    const map = weights && patchesOf(look, weights);
    if (!map || map.length < 60) return "";
    const [first, share] = strongest(map);
    if (share < 1 / 3) return "";
    if (of === "norm") return `The three most attended patches have ${percent(share)} of the attention on patches, and ${percent(shareOf(patchesOf(look, values), first))} of the norms.`;
    return `Three of ${map.length} patches receive ${percent(share)} of the attention on patches. Choose “norm-weighted” under Show to see what they pass on.`;
  }

  function place(look, map) {
    const best = map.indexOf(Math.max(...map));
    return `row ${Math.floor(best / look.grid[1]) + 1}, column ${(best % look.grid[1]) + 1}`;
  }

  // The weight between the patch under the pointer (its number, or null) and the class token.
  function pointedWords(look, { of, layer, head, incoming }, pointed) {
    if (pointed === null || of === "similar") return "";
    const { answering } = look.tokens;
    const own = lineOf(look, of, layer, head, answering, incoming);
    const share = own && percent(own[look.prefix.length + pointed]);
    const norm = incoming ? ` receives ${share} from ${answering.name}` : ` passes ${share} to ${answering.name}`;
    const does = isNorm(of) ? norm : incoming ? ` attends to ${answering.name} with weight ${share}` : ` receives ${share} from ${answering.name}`;
    return `Row ${patchOf(look, pointed).code.replace(",", ", column ")}${own ? does : ""}. `;
  }

  function mapWords(look, view, values, pointed) {
    const map = patchesOf(look, values);
    const text = pointedWords(look, view, pointed);
    if (view.of === "similar") return "Cosine similarity of the tokens: orange is similar, purple is opposite.";
    const most = `${place(look, map)}: ${percent(largest(map))}`;
    if (isNorm(view.of)) return normWords(look, view, values, text, most);
    if (view.incoming) return `${text}Maximum: ${most} of this patch's attention.`;
    if (!look.prefix.length) return `${text}Maximum: ${most}.`;
    const share = shareOfPatches(look, view, values);
    const rest = look.prefix.length > 1 ? "special tokens" : "the class token itself";
    const all = share < 0.2 ? `only ${percent(share)}. The rest goes to ${rest}, so interpret this map with care` : percent(share);
    return `${text}Maximum: ${most}. All patches together receive ${all}.`;
  }

  function normWords(look, view, values, text, most) {
    if (view.incoming) return `${text}Maximum: ${most} of the norms that this patch receives.`;
    const all = `All patches together: ${percent(shareOfPatches(look, view, values))}.`;
    return `${text}Maximum: ${most} of the sum of norms. ${look.prefix.length ? all : ""}`.trim();
  }

  // Tables with captions: the numbers of the map, and the measurements of all heads.
  function mapTables(look, view, token, values) {
    const map = patchesOf(look, values);
    const columns = look.grid[1];
    const number = (value) => (view.of === "similar" ? value.toFixed(3) : (100 * value).toFixed(2));
    const grid = Array.from({ length: look.grid[0] }, (_, i) => [i + 1, ...Array.from(map.subarray(i * columns, (i + 1) * columns), number)]);
    const heads = look.distances.flatMap((each, l) => each.map((distance, h) => [`layer ${l + 1}, head ${h + 1}`, distance.toFixed(2), look.entropies[l][h].toFixed(2)]));
    const title = mapTitle(look, view, token);
    const file = (name) => `vitdemo-${plainName(`${look.run} ${name}`)}`;
    return [
      make("p", { text: `${title}, ${view.of === "similar" ? "cosine similarity" : isNorm(view.of) ? "in percent of the sum of norms" : "in percent"}` }),
      table({ columns: ["row", ...Array.from({ length: columns }, (_, i) => i + 1)], rows: grid, file: file(title), tall: true }),
      make("p", { text: `Attention distance: mean distance between a patch and the patches it attends to. Entropy: spread of the attention, 0 bits for one token, ${Math.log2(look.size).toFixed(1)} bits for uniform attention to all ${look.size} tokens.` }),
      table({ columns: ["head", "attention distance (patches)", "entropy (bits)"], rows: heads, file: file("heads"), tall: true }),
    ];
  }

  return { mapTables, mapTitle, mapWords, patchesOf, shareOfPatches, wordsOnFew };
})());
