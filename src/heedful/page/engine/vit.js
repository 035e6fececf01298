/** The Vision Transformer: an encoder over the patches of an image. See `models/vit.py`. */

import { Stack } from "./layers.js";
import { add, apply, matrix, rows } from "./matrix.js";
import { AttentionPooling, classScores, meanRow } from "./pooling.js";

/**
 * @typedef {import("./matrix.js").Matrix} Matrix
 * @typedef {import("./attention.js").Run} Run
 */

export class ViT {
  /**
   * @param {import("./weights.js").Weights} weights
   * @param {any} config
   */
  constructor(weights, config) {
    const { d_model: width, heads, epsilon, activation, pooling } = config;
    this.config = config;
    this.vocabulary = 0;
    this.grid = config.image_size / config.patch;
    this.patches = weights.linear("embedding.project");
    this.cls = matrix([1, width], weights.tensor("embedding.cls"));
    this.positions = matrix([1 + this.grid ** 2, width], weights.tensor("embedding.positions"));
    const self = { part: "encoder", heads, dK: width / heads, dV: width / heads, positions: null, kind: config.attention_kind, config };
    const shape = { stack: "encoder", norm: "pre", epsilon, activation, self, crossing: false };
    this.stack = new Stack(weights, "encoder", config.layers, shape, () => null);
    this.pooling = pooling === "attention" ? new AttentionPooling(weights, width, heads) : null;
    this.classifier = weights.linear("classifier");
  }

  get lens() {
    return [];
  }

  /**
   * An image as floats (C, size, size) → its patches, row by row, each flattened: (N, C·P·P).
   * @param {Float32Array} image
   */
  cut(image) {
    const { patch, channels, image_size: size } = this.config;
    const out = matrix([this.grid ** 2, channels * patch * patch]);
    let at = 0;
    for (let down = 0; down < this.grid; down++) {
      for (let across = 0; across < this.grid; across++) {
        for (let channel = 0; channel < channels; channel++) {
          for (let row = 0; row < patch; row++) {
            const from = (channel * size + down * patch + row) * size + across * patch;
            out.data.set(image.subarray(from, from + patch), at);
            at += patch;
          }
        }
      }
    }
    return out;
  }

  /**
   * @param {Run} run
   * @param {{image: Float32Array}} given
   */
  async forward(run, { image }) {
    const width = this.config.d_model;
    const projected = await apply(run.turns, this.cut(image), this.patches);
    const order = run.act.order("input", Array.from({ length: 1 + projected.shape[0] }, (_, index) => index));
    const tokens = matrix([order.length, width]);
    order.forEach((from, row) => {
      const vector = from ? projected.data.subarray((from - 1) * width, from * width) : this.cls.data;
      tokens.data.set(vector, row * width);
    });
    const positions = run.act.positions ? this.positions : null;
    const x = positions ? add(tokens, positions) : tokens;
    const found = await this.stack.forward(run, x);
    const { states } = found;
    const others = rows(states, 1, states.shape[0]); // the mean and the queries leave [CLS] out
    let pooling = null;
    let pooled = rows(states, 0, 1);
    if (this.config.pooling === "mean") pooled = meanRow(others);
    if (this.pooling) {
      const { output, record } = await this.pooling.forward(run, others);
      pooled = output;
      pooling = record;
    }
    const logits = await classScores(run, pooled, this.classifier, this.pooling !== null);
    const embedding = { tokens, positions, segments: null, sum: x };
    return { states, logits, pooling, stacks: { encoder: { ...found, embedding } } };
  }
}
