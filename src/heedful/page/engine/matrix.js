/** Matrices of 32-bit floats, row-major, and the products that nearly all time is spent in. */

/**
 * @typedef {{data: Float32Array, shape: number[]}} Matrix
 * @typedef {{weight: Float32Array, bias: Float32Array | null, inputs: number, outputs: number}} Linear  weight (outputs, inputs)
 * @typedef {import("./turns.js").Turns} Turns
 */

const PRODUCTS_PER_TURN = 2_000_000; // about 2 ms

/**
 * @param {number[]} shape
 * @param {Float32Array} [data]
 * @returns {Matrix}
 */
export function matrix(shape, data) {
  return { data: data ?? new Float32Array(shape.reduce((a, b) => a * b, 1)), shape };
}

/**
 * Rows `from` … `to` of x (rows, inputs) · Wᵀ + b, for the outputs `first` … `last`.
 *
 * Two rows and four outputs at a time: eight sums stay in registers while the weights pass through once.
 * @param {Float32Array} x
 * @param {number} from
 * @param {number} to
 * @param {Linear} linear
 * @param {number} first
 * @param {number} last
 * @param {Float32Array} out (rows, outputs)
 */
function multiply(x, from, to, linear, first, last, out) {
  const { weight, bias, inputs, outputs } = linear;
  let row = from;
  for (; row + 1 < to; row += 2) {
    const x0 = row * inputs;
    const x1 = x0 + inputs;
    let o = first;
    for (; o + 3 < last; o += 4) {
      const w0 = o * inputs;
      const w1 = w0 + inputs;
      const w2 = w1 + inputs;
      const w3 = w2 + inputs;
      let a0 = 0, a1 = 0, a2 = 0, a3 = 0, b0 = 0, b1 = 0, b2 = 0, b3 = 0;
      for (let i = 0; i < inputs; i++) {
        const a = x[x0 + i];
        const b = x[x1 + i];
        const v0 = weight[w0 + i];
        const v1 = weight[w1 + i];
        const v2 = weight[w2 + i];
        const v3 = weight[w3 + i];
        a0 += a * v0; a1 += a * v1; a2 += a * v2; a3 += a * v3;
        b0 += b * v0; b1 += b * v1; b2 += b * v2; b3 += b * v3;
      }
      const y0 = row * outputs + o;
      const y1 = y0 + outputs;
      out[y0] = a0; out[y0 + 1] = a1; out[y0 + 2] = a2; out[y0 + 3] = a3;
      out[y1] = b0; out[y1 + 1] = b1; out[y1 + 2] = b2; out[y1 + 3] = b3;
    }
    for (; o < last; o++) {
      out[row * outputs + o] = dot(x, x0, weight, o * inputs, inputs);
      out[(row + 1) * outputs + o] = dot(x, x1, weight, o * inputs, inputs);
    }
  }
  for (; row < to; row++) {
    const x0 = row * inputs;
    let o = first;
    for (; o + 3 < last; o += 4) {
      const w0 = o * inputs;
      const w1 = w0 + inputs;
      const w2 = w1 + inputs;
      const w3 = w2 + inputs;
      let a0 = 0, a1 = 0, a2 = 0, a3 = 0;
      for (let i = 0; i < inputs; i++) {
        const a = x[x0 + i];
        a0 += a * weight[w0 + i];
        a1 += a * weight[w1 + i];
        a2 += a * weight[w2 + i];
        a3 += a * weight[w3 + i];
      }
      const y0 = row * outputs + o;
      out[y0] = a0; out[y0 + 1] = a1; out[y0 + 2] = a2; out[y0 + 3] = a3;
    }
    for (; o < last; o++) out[row * outputs + o] = dot(x, x0, weight, o * inputs, inputs);
  }
  if (bias) {
    for (let r = from; r < to; r++) for (let o = first; o < last; o++) out[r * outputs + o] += bias[o];
  }
}

/**
 * @param {Float32Array} a
 * @param {number} at
 * @param {Float32Array} b
 * @param {number} bt
 * @param {number} count
 */
export function dot(a, at, b, bt, count) {
  let s0 = 0, s1 = 0;
  let i = 0;
  for (; i + 1 < count; i += 2) {
    s0 += a[at + i] * b[bt + i];
    s1 += a[at + i + 1] * b[bt + i + 1];
  }
  if (i < count) s0 += a[at + i] * b[bt + i];
  return s0 + s1;
}

/**
 * x (rows, inputs) → x Wᵀ + b (rows, outputs), in turns.
 * @param {Turns} turns
 * @param {Matrix} x
 * @param {Linear} linear
 * @returns {Promise<Matrix>}
 */
export async function apply(turns, x, linear) {
  const [rows] = x.shape;
  const { inputs, outputs } = linear;
  const out = matrix([rows, outputs]);
  const step = Math.max(4, Math.floor(PRODUCTS_PER_TURN / inputs / 2) & ~3); // outputs of two rows in one go
  const together = Math.max(2, Math.floor(PRODUCTS_PER_TURN / (inputs * outputs)) & ~1); // rows
  for (let row = 0; row < rows; row += together) {
    for (let first = 0; first < outputs; first += step) {
      const last = Math.min(outputs, first + step);
      multiply(x.data, row, Math.min(rows, row + together), linear, first, last, out.data);
      if (turns.due) await turns.pause();
    }
  }
  return out;
}

/**
 * The outputs `first` … `last` of a linear map as a map of its own; the numbers are shared.
 * @param {Linear} linear
 * @param {number} first
 * @param {number} last
 * @returns {Linear}
 */
export function part(linear, first, last) {
  const { weight, bias, inputs } = linear;
  return {
    weight: weight.subarray(first * inputs, last * inputs),
    bias: bias && bias.subarray(first, last),
    inputs,
    outputs: last - first,
  };
}

/**
 * LayerNorm of every row.
 * @param {Matrix} x
 * @param {{gain: Float32Array, bias: Float32Array, epsilon: number} | null} norm  null changes nothing
 * @returns {Matrix}
 */
export function normalise(x, norm) {
  if (!norm) return x;
  const width = x.shape[x.shape.length - 1];
  const out = matrix(x.shape);
  const { gain, bias, epsilon } = norm;
  for (let start = 0; start < x.data.length; start += width) {
    let mean = 0;
    for (let i = 0; i < width; i++) mean += x.data[start + i];
    mean /= width;
    let variance = 0;
    for (let i = 0; i < width; i++) variance += (x.data[start + i] - mean) ** 2;
    const scale = 1 / Math.sqrt(variance / width + epsilon);
    for (let i = 0; i < width; i++) out.data[start + i] = (x.data[start + i] - mean) * scale * gain[i] + bias[i];
  }
  return out;
}

/**
 * @param {Matrix} a
 * @param {Matrix} b of the same shape
 * @returns {Matrix} a + b
 */
export function add(a, b) {
  const out = matrix(a.shape);
  for (let i = 0; i < out.data.length; i++) out.data[i] = a.data[i] + b.data[i];
  return out;
}

/**
 * Softmax of `count` numbers in place.
 * @param {Float32Array} values
 * @param {number} start
 * @param {number} count
 */
export function softmax(values, start, count) {
  let most = -Infinity;
  for (let i = start; i < start + count; i++) if (values[i] > most) most = values[i];
  let sum = 0;
  for (let i = start; i < start + count; i++) {
    const e = most === -Infinity ? 0 : Math.exp(values[i] - most); // nothing may be attended to: zeros
    values[i] = e;
    sum += e;
  }
  if (sum) for (let i = start; i < start + count; i++) values[i] /= sum;
}

/**
 * Log-softmax of `count` numbers, as doubles.
 * @param {Float32Array} values
 * @param {number} [start]
 * @param {number} [count]
 */
export function logSoftmax(values, start = 0, count = values.length) {
  let most = -Infinity;
  for (let i = start; i < start + count; i++) if (values[i] > most) most = values[i];
  let sum = 0;
  for (let i = start; i < start + count; i++) sum += Math.exp(values[i] - most);
  const total = most + Math.log(sum);
  const out = new Float64Array(count);
  for (let i = 0; i < count; i++) out[i] = values[start + i] - total;
  return out;
}

/**
 * Some rows of a matrix, copied.
 * @param {Matrix} x
 * @param {number} first
 * @param {number} last
 * @returns {Matrix}
 */
export function rows(x, first, last) {
  const width = x.shape[1];
  return matrix([last - first, width], x.data.slice(first * width, last * width));
}

/**
 * The length of every row.
 * @param {Matrix} x
 */
export function lengths(x) {
  const [count, width] = x.shape;
  const found = new Float32Array(count);
  for (let row = 0; row < count; row++) found[row] = Math.sqrt(dot(x.data, row * width, x.data, row * width, width));
  return found;
}
