/** Positions (Section 3.5): added to the embeddings, or part of the attention itself. See `nn/positions.py`. */

import { dot, matrix } from "./matrix.js";

/**
 * @typedef {import("./matrix.js").Matrix} Matrix
 * @typedef {import("./weights.js").Weights} Weights
 * @typedef {{rotate?: (x: Matrix, heads: number, start: number) => Matrix,
 *   bias?: (q: Float32Array, at: number, head: number, query: number, key: number, divisor: number) => number}} AttentionPositions
 */

/**
 * Sinusoidal encodings (length, width) of the positions from `start` on.
 * @param {number} width
 * @param {number} length
 * @param {number} start
 * @returns {Matrix}
 */
export function sinusoidal(width, length, start) {
  const table = matrix([length, width]);
  for (let position = 0; position < length; position++) {
    for (let i = 0; i < width; i++) {
      const angle = (start + position) * Math.exp((i - (i % 2)) * (-Math.log(10000) / width));
      table.data[position * width + i] = i % 2 ? Math.cos(angle) : Math.sin(angle);
    }
  }
  return table;
}

/**
 * Rows of a learned table; positions beyond its last row share it.
 * @param {Float32Array} table
 * @param {number} width
 * @param {number} length
 * @param {number} start
 * @returns {Matrix}
 */
export function learned(table, width, length, start) {
  const out = matrix([length, width]);
  const last = table.length / width - 1;
  for (let position = 0; position < length; position++) {
    const row = Math.min(last, start + position) * width;
    out.data.set(table.subarray(row, row + width), position * width);
  }
  return out;
}

/**
 * The encodings to add to embeddings of a kind of positions, or null.
 * @param {string} kind
 * @param {Weights} weights
 * @param {string} name of the embedding
 * @param {number} width
 * @returns {((length: number, start: number) => Matrix) | null}
 */
export function absolutePositions(kind, weights, name, width) {
  if (kind === "sinusoidal") return (length, start) => sinusoidal(width, length, start);
  if (kind === "learned") {
    const table = weights.tensor(`${name}.positions.table`);
    return (length, start) => learned(table, width, length, start);
  }
  return null;
}

/**
 * Positions inside a self-attention, or null.
 * @param {string} kind
 * @param {Weights} weights
 * @param {string} name of the attention
 * @param {number} heads
 * @param {number} dK
 * @returns {AttentionPositions | null}
 */
export function attentionPositions(kind, weights, name, heads, dK) {
  if (kind === "rotary") return { rotate: (x, count, start) => rotate(x, count, start) };
  if (kind === "linear-bias") {
    return {
      bias: (q, at, head, query, key) => {
        const behind = query - key;
        return -Math.fround(2 ** ((-8 * (head + 1)) / heads)) * (behind < 0 ? -1.5 * behind : behind);
      },
    };
  }
  if (kind === "relative") {
    const table = weights.tensor(`${name}.positions.table`);
    const most = (table.length / dK - 1) / 2;
    return {
      bias: (q, at, head, query, key, divisor) => {
        const distance = Math.max(-most, Math.min(most, query - key)) + most;
        return dot(q, at, table, distance * dK, dK) / divisor;
      },
    };
  }
  return null;
}

/**
 * Queries or keys (L, H·K), each pair of features rotated by position · 10000^(−2i/K).
 * @param {Matrix} x
 * @param {number} heads
 * @param {number} start
 * @returns {Matrix}
 */
function rotate(x, heads, start) {
  const [length, width] = x.shape;
  const dK = width / heads;
  const out = matrix(x.shape);
  const step = Math.fround(-Math.log(10000) / dK);
  for (let i = 0; i < dK; i += 2) {
    const frequency = Math.fround(Math.exp(Math.fround(i * step)));
    for (let position = 0; position < length; position++) {
      const angle = Math.fround((start + position) * frequency);
      const cos = Math.cos(angle);
      const sin = Math.sin(angle);
      for (let head = 0; head < heads; head++) {
        const at = position * width + head * dK + i;
        const a = x.data[at];
        const b = x.data[at + 1];
        out.data[at] = a * cos - b * sin;
        out.data[at + 1] = a * sin + b * cos;
      }
    }
  }
  return out;
}
