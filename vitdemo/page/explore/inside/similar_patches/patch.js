// The chosen patch, as the state key `PATCH` contains it: "row,column", from 1, or "" without a choice.
export const PATCH = "similar_patches.patch";

// The number of the chosen patch, from 0; null without a choice, or for a patch outside the grid.
export function parsePatch(text, [rows, columns]) {
  const [, row, column] = (/^(\d{1,4}),(\d{1,4})$/.exec(text) ?? []).map(Number);
  return row >= 1 && row <= rows && column >= 1 && column <= columns
    ? (row - 1) * columns + column - 1
    : null;
}
