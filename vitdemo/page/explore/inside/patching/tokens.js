// The replaced tokens, as the state key `patching.tokens` lists them: "t0 3,4" (a special token; row and column of a
// patch, from 1), and "patches" for all patches.
const ALL = "patches";

// The replaced special tokens and patches, as two sorted lists of numbers.
export function parseTokens(text, { special, grid: [rows, columns] }) {
  const [names, cells] = [new Set(), new Set()];
  for (const code of text.split(/\s+/)) {
    const [, token] = /^t(\d{1,4})$/.exec(code) ?? [];
    const [, row, column] = (/^(\d{1,4}),(\d{1,4})$/.exec(code) ?? []).map(Number);
    if (code === ALL) { for (let i = 0; i < rows * columns; i++) cells.add(i); }
    else if (Number(token) < special.length) names.add(Number(token));
    else if (row >= 1 && row <= rows && column >= 1 && column <= columns) {
      cells.add((row - 1) * columns + column - 1);
    }
  }
  const sort = (numbers) => [...numbers].sort((a, b) => a - b);
  return { special: sort(names), cells: sort(cells) };
}

export function formatTokens({ special, cells }, [rows, columns]) {
  const sorted = cells.toSorted((a, b) => a - b);
  const places = sorted.map((cell) => `${Math.floor(cell / columns) + 1},${(cell % columns) + 1}`);
  const patches = cells.length === rows * columns ? [ALL] : places;
  return [...special.map((token) => `t${token}`), ...patches].join(" ");
}
