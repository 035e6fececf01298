/** From one vector per token to one per sequence, and scores of classes from it. See `nn/pooling.py`. */

import { Attention } from "./attention.js";
import { apply, dot, matrix, rows } from "./matrix.js";

/**
 * @typedef {import("./matrix.js").Matrix} Matrix
 * @typedef {import("./attention.js").Run} Run
 */

/**
 * The mean of the rows of x (L, D) as one row.
 * @param {Matrix} x
 * @returns {Matrix}
 */
export function meanRow(x) {
  const [length, width] = x.shape;
  const out = matrix([1, width]);
  for (let row = 0; row < length; row++) for (let i = 0; i < width; i++) out.data[i] += x.data[row * width + i] / length;
  return out;
}

/** Learned query vectors, for example one per class, attend to the sequence. */
export class AttentionPooling {
  /**
   * @param {import("./weights.js").Weights} weights
   * @param {number} width
   * @param {number} heads
   */
  constructor(weights, width, heads) {
    const shape = { part: "pooling", layer: 1, heads, dK: width / heads, dV: width / heads };
    this.attention = new Attention(weights, "pooling.attention", shape);
    this.queries = matrix(weights.shape("pooling.queries"), weights.tensor("pooling.queries"));
  }

  /**
   * States (L, D) → one vector per query (Q, D).
   * @param {Run} run
   * @param {Matrix} states
   */
  async forward(run, states) {
    return this.attention.toMemory(run, this.queries, await this.attention.memory(run, states));
  }
}

/**
 * Logits (1, classes) from one vector (1, D), or from one vector per class (classes, D).
 * @param {Run} run
 * @param {Matrix} pooled
 * @param {import("./matrix.js").Linear} linear
 * @param {boolean} perClass
 * @returns {Promise<Matrix>}
 */
export async function classScores(run, pooled, linear, perClass) {
  if (!perClass) return apply(run.turns, rows(pooled, 0, 1), linear);
  const { outputs, inputs, weight, bias } = linear;
  const logits = matrix([1, outputs]);
  for (let label = 0; label < outputs; label++) {
    logits.data[label] = dot(pooled.data, label * inputs, weight, label * inputs, inputs) + (bias ? bias[label] : 0);
  }
  return logits;
}
