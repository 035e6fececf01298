/** Token embeddings (Section 3.4) with their positions; for BERT, also segments and a LayerNorm. */

import { add, matrix, normalise } from "./matrix.js";

/**
 * @typedef {import("./matrix.js").Matrix} Matrix
 * @typedef {{tokens: Matrix, positions: Matrix | null, segments: Matrix | null, sum: Matrix}} EmbeddingRecord
 */

export class Embedding {
  /**
   * @param {Float32Array} weight (vocabulary, D)
   * @param {number} width D
   * @param {{scale?: number, positions?: ((length: number, start: number) => Matrix) | null, segments?: Float32Array | null,
   *   norm?: any}} options
   */
  constructor(weight, width, { scale = 1, positions = null, segments = null, norm = null }) {
    this.weight = weight;
    this.width = width;
    this.scale = Math.fround(scale);
    this.positions = positions;
    this.segments = segments;
    this.norm = norm;
  }

  /**
   * Ids (and the segment of each) at the positions from `start` on → (L, D), and its parts.
   * @param {import("./attention.js").Run} run
   * @param {number[]} ids
   * @param {number} [start]
   * @param {number[] | null} [segments]
   * @returns {{x: Matrix, record: EmbeddingRecord}}
   */
  forward(run, ids, start = 0, segments = null) {
    const tokens = matrix([ids.length, this.width]);
    ids.forEach((id, row) => this.copy(this.weight, id, tokens, row, this.scale));
    const positions = this.positions && run.act.positions ? this.positions(ids.length, start) : null;
    let kinds = null;
    if (this.segments) {
      kinds = matrix([ids.length, this.width]);
      for (let row = 0; row < ids.length; row++) this.copy(this.segments, segments?.[row] ?? 0, kinds, row, 1);
    }
    let sum = tokens;
    if (positions) sum = add(sum, positions);
    if (kinds) sum = add(sum, kinds);
    const x = normalise(sum, this.norm);
    return { x, record: { tokens, positions, segments: kinds, sum: x } };
  }

  /**
   * One token of each of several texts, each at a position of its own → (R, D).
   * @param {import("./attention.js").Run} run
   * @param {number[]} ids
   * @param {number[]} starts
   */
  each(run, ids, starts) {
    const x = matrix([ids.length, this.width]);
    ids.forEach((id, row) => x.data.set(this.forward(run, [id], starts[row]).x.data, row * this.width));
    return x;
  }

  /**
   * @param {Float32Array} table
   * @param {number} id
   * @param {Matrix} into
   * @param {number} row
   * @param {number} scale
   */
  copy(table, id, into, row, scale) {
    const from = id * this.width;
    for (let i = 0; i < this.width; i++) into.data[row * this.width + i] = table[from + i] * scale;
  }
}
