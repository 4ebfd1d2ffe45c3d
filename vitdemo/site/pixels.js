// The input of a model from an image, as `crop_visible_square` and `crop_and_resize` of data/image_files.py compute it. An
// image is { data, width, height }: a Uint8Array with 3 values per pixel, row by row.
const MAX_SIDE = 1024; // pixels of the square
const CHANNELS = 3;

// Pillow's filters: the support in pixels, and the weight at the distance x.
const FILTERS = {
  bilinear: { support: 1, weigh: (x) => Math.max(0, 1 - Math.abs(x)) },
  bicubic: { support: 2, weigh: computeBicubic },
  lanczos: { support: 3, weigh: (x) => Math.abs(x) < 3 ? computeSinc(x) * computeSinc(x / 3) : 0 },
};

function computeBicubic(x) {
  const [distance, a] = [Math.abs(x), -0.5];
  if (distance < 1) return ((a + 2) * distance - (a + 3)) * distance * distance + 1;
  return distance < 2 ? (((distance - 5) * distance + 8) * distance - 4) * a : 0;
}

const computeSinc = (x) => x === 0 ? 1 : Math.sin(x * Math.PI) / (x * Math.PI);

// Round as Python and numpy do: halves to the even number.
function roundEven(x) {
  const rounded = Math.round(x);
  return rounded - x === 0.5 && rounded % 2 !== 0 ? rounded - 1 : rounded;
}

// The position and the side of the largest square at `position` (0 to 1) of the longer side.
export function findSquare(width, height, position) {
  const side = Math.min(width, height);
  const [left, top] = [width, height].map((length) => Math.trunc((length - side) * position));
  return { left, top, side };
}

// The first source pixel and the weights of each pixel of a resized row or column.
function listWeights(length, resized, { support, weigh }) {
  const scale = length / resized;
  const stretch = Math.max(scale, 1);
  return Array.from({ length: resized }, (_, i) => {
    const centre = (i + 0.5) * scale;
    const first = Math.max(Math.trunc(centre - support * stretch + 0.5), 0);
    const end = Math.min(Math.trunc(centre + support * stretch + 0.5), length);
    const weights = Float64Array.from(
      { length: end - first },
      (_, j) => weigh((j + first - centre + 0.5) / stretch),
    );
    const sum = weights.reduce((total, each) => total + each, 0);
    return { first, weights: weights.map((each) => each / sum) };
  });
}

// Resize the rows of `values` (rows, length, 3) to (rows, resized, 3) 32-bit floats.
function resizeRows(values, rows, length, resized, filter) {
  const result = new Float32Array(rows * resized * CHANNELS);
  const columns = listWeights(length, resized, filter);
  for (let row = 0, target = 0; row < rows; row++) {
    for (const { first, weights } of columns) {
      let source = (row * length + first) * CHANNELS;
      let [red, green, blue] = [0, 0, 0];
      for (const weight of weights) {
        red += values[source++] * weight;
        green += values[source++] * weight;
        blue += values[source++] * weight;
      }
      result[target++] = red;
      result[target++] = green;
      result[target++] = blue;
    }
  }
  return result;
}

// Resize the columns of `values` (length, columns, 3) to (resized, columns, 3) 32-bit floats.
function resizeColumns(values, columns, length, resized, filter) {
  const width = columns * CHANNELS;
  const result = new Float32Array(resized * width);
  const sums = new Float64Array(width);
  listWeights(length, resized, filter).forEach(({ first, weights }, row) => {
    sums.fill(0);
    weights.forEach((weight, i) => {
      const source = (first + i) * width;
      for (let j = 0; j < width; j++) sums[j] += values[source + j] * weight;
    });
    result.set(sums, row * width);
  });
  return result;
}

// Resize the square `image` and return its centre crop, `size` pixels wide. `crop` is the side of the centre crop divided by
// the side of the square.
export function cropAndResize({ data, width: side }, size, crop = 1, interpolation = "bicubic") {
  const resized = Math.max(size, roundEven(size / crop));
  const start = roundEven((resized - size) / 2);
  const filter = FILTERS[interpolation];
  let values = data;
  if (resized !== side) {
    const wide = resizeRows(data, side, side, resized, filter); // (side, resized)
    values = resizeColumns(wide, resized, side, resized, filter);
  }
  const result = new Uint8Array(size * size * CHANNELS);
  for (let row = 0; row < size; row++) {
    for (let i = 0; i < size * CHANNELS; i++) {
      const value = values[((row + start) * resized + start) * CHANNELS + i];
      result[row * size * CHANNELS + i] = roundEven(Math.min(Math.max(value, 0), 255));
    }
  }
  return { data: result, width: size, height: size };
}

// Return the square as models receive it: at most `MAX_SIDE` pixels wide.
export const limitSquare = (square) => square.width > MAX_SIDE ? cropAndResize(square, MAX_SIDE) : square;

// Return the pixels as one plane per channel, the form of a graph's input.
export function separateChannels({ data, width, height }) {
  const count = width * height;
  return Uint8Array.from(
    { length: count * CHANNELS },
    (_, i) => data[(i % count) * CHANNELS + Math.floor(i / count)],
  );
}

// Return the pixels of planes, one per channel: the inverse of `separateChannels`.
export function joinChannels(planes) {
  const count = planes.length / CHANNELS;
  return Uint8Array.from(
    { length: planes.length },
    (_, i) => planes[(i % CHANNELS) * count + Math.floor(i / CHANNELS)],
  );
}
