/** Encoder and decoder layers and stacks of them (Section 3.1), with everything that happens inside kept when asked for. */

import { activate } from "./activations.js";
import { Attention } from "./attention.js";
import { add, apply, matrix, normalise } from "./matrix.js";

/**
 * @typedef {import("./matrix.js").Matrix} Matrix
 * @typedef {import("./attention.js").Run} Run
 * @typedef {import("./attention.js").KeyValues} KeyValues
 * @typedef {import("./weights.js").Weights} Weights
 * @typedef {{number: number, before: Matrix, self: any, afterSelf: Matrix, cross: any, afterCross: Matrix | null, feed: any,
 *   after: Matrix}} LayerRecord
 * @typedef {{stack: string, number: number, norm: string, epsilon: number, activation: string,
 *   self: {part: string, heads: number, dK: number, dV: number, positions: any, kind?: string, config?: any}, crossing: boolean}} LayerShape
 */

export class Layer {
  /**
   * @param {Weights} weights
   * @param {string} name
   * @param {LayerShape} shape
   */
  constructor(weights, name, shape) {
    const { number, epsilon } = shape;
    this.stack = shape.stack;
    this.number = number;
    this.pre = shape.norm === "pre";
    this.activation = shape.activation;
    this.selfAttention = new Attention(weights, `${name}.self_attention`, { ...shape.self, layer: number });
    this.crossAttention = shape.crossing
      ? new Attention(weights, `${name}.cross_attention`, { ...shape.self, part: "cross", positions: null, kind: "full", layer: number })
      : null;
    this.in = weights.linear(`${name}.feed_forward.project_in`);
    this.out = weights.linear(`${name}.feed_forward.project_out`);
    this.aroundSelf = weights.norm(`${name}.around_self.norm`, epsilon);
    this.aroundCross = shape.crossing ? weights.norm(`${name}.around_cross.norm`, epsilon) : null;
    this.aroundFeed = weights.norm(`${name}.around_feed.norm`, epsilon);
  }

  /**
   * x (L, D) → (L, D)
   * @param {Run} run
   * @param {Matrix} x
   * @param {{causal?: boolean, cache?: KeyValues, memory?: KeyValues | null}} options
   * @returns {Promise<{x: Matrix, record: LayerRecord | null}>}
   */
  async forward(run, x, { causal, cache, memory = null }) {
    if (run.act.layerOff(this.stack, this.number)) return { x, record: this.nothing(run, x, memory) };
    const before = x;
    const self = await this.around(run, x, this.aroundSelf, (y) => this.selfAttention.toSelf(run, y, { causal, cache }));
    const afterSelf = (x = self.after);
    let cross = null;
    const { crossAttention } = this;
    if (crossAttention && memory) {
      cross = await this.around(run, x, this.aroundCross, (y) => crossAttention.toMemory(run, y, memory));
      x = cross.after;
    }
    const fed = await this.around(run, x, this.aroundFeed, (y) => this.feed(run, y));
    const record = run.record === "nothing" ? null : {
      number: this.number, before, self: self.record, afterSelf, cross: cross && cross.record,
      afterCross: cross && cross.after, feed: fed.record, after: fed.after,
    };
    return { x: fed.after, record };
  }

  /**
   * The newest positions of several hypotheses, x (R, D), each with a cache and a memory of its own.
   * @param {Run} run
   * @param {Matrix} x
   * @param {KeyValues[]} caches
   * @param {KeyValues[] | null} memories
   */
  async newest(run, x, caches, memories) {
    if (run.act.layerOff(this.stack, this.number)) return x;
    x = (await this.around(run, x, this.aroundSelf, (y) => this.selfAttention.newest(run, y, caches, true))).after;
    const { crossAttention } = this;
    if (crossAttention && memories) {
      x = (await this.around(run, x, this.aroundCross, (y) => crossAttention.newest(run, y, memories, false))).after;
    }
    return (await this.around(run, x, this.aroundFeed, (y) => this.feed(run, y))).after;
  }

  /**
   * A sub-layer in its residual connection. Post-norm: LayerNorm(x + f(x)); pre-norm: x + f(LayerNorm(x)).
   * @param {Run} run
   * @param {Matrix} x
   * @param {any} norm
   * @param {(y: Matrix) => Promise<{output: Matrix, record: any}>} sublayer
   */
  async around(run, x, norm, sublayer) {
    const { output, record } = await sublayer(this.pre ? normalise(x, norm) : x);
    const total = run.act.residual(this.stack, this.number) ? add(x, output) : output;
    return { after: this.pre ? total : normalise(total, norm), record };
  }

  /**
   * FFN(x) = f(x W_1 + b_1) W_2 + b_2, Equation 2.
   * @param {Run} run
   * @param {Matrix} input
   */
  async feed(run, input) {
    const hidden = await apply(run.turns, input, this.in);
    const activated = activate(this.activation, hidden);
    const output = await apply(run.turns, activated, this.out);
    return { output, record: run.record === "everything" ? { input, hidden, activated, output } : null };
  }

  /**
   * What is kept of a layer that is switched off: no weights.
   * @param {Run} run
   * @param {Matrix} x
   * @param {KeyValues | null} memory
   * @returns {LayerRecord | null}
   */
  nothing(run, x, memory) {
    const length = x.shape[0];
    if (run.record === "nothing") return null;
    const empty = (/** @type {number} */ heads, /** @type {number} */ keys) => ({
      weights: matrix([heads, length, keys]), scores: matrix([heads, length, keys]),
    });
    const cross = this.crossAttention && memory && empty(this.crossAttention.heads, memory.length);
    return {
      number: this.number, before: x, self: empty(this.selfAttention.heads, length), afterSelf: x, cross,
      afterCross: cross && x, feed: null, after: x,
    };
  }
}

/** N layers; with pre-norm, one more LayerNorm at the end. */
export class Stack {
  /**
   * @param {Weights} weights
   * @param {string} name
   * @param {number} layers
   * @param {Omit<LayerShape, "number">} shape
   * @param {(name: string) => any} positions of the self-attention of a name
   */
  constructor(weights, name, layers, shape, positions) {
    this.name = shape.stack;
    this.layers = Array.from({ length: layers }, (_, index) => {
      const layer = `${name}.layers.${index}`;
      const self = { ...shape.self, positions: positions(`${layer}.self_attention`) };
      return new Layer(weights, layer, { ...shape, self, number: index + 1 });
    });
    this.norm = shape.norm === "pre" ? weights.norm(`${name}.norm`, shape.epsilon) : null;
  }

  /** One empty cache per layer. */
  caches() {
    return this.layers.map((layer) => layer.selfAttention.cache());
  }

  /**
   * The keys and values of the memory of every layer.
   * @param {Run} run
   * @param {Matrix[]} memories
   */
  async memories(run, memories) {
    const found = [];
    for (const [index, layer] of this.layers.entries()) {
      found.push(await /** @type {Attention} */ (layer.crossAttention).memory(run, memories[index]));
    }
    return found;
  }

  /**
   * x (L, D) → the states of the last layer after the final LayerNorm, and what was kept.
   * @param {Run} run
   * @param {Matrix} x
   * @param {{causal?: boolean, caches?: KeyValues[], memories?: KeyValues[]}} [options]
   */
  async forward(run, x, { causal = false, caches, memories } = {}) {
    const hidden = [x];
    /** @type {LayerRecord[]} */
    const records = [];
    for (const [index, layer] of this.layers.entries()) {
      const found = await layer.forward(run, x, { causal, cache: caches?.[index], memory: memories?.[index] ?? null });
      x = found.x;
      hidden.push(x);
      if (found.record) records.push(found.record);
    }
    return { states: normalise(x, this.norm), hidden, records };
  }

  /**
   * The newest positions of several hypotheses, x (R, D) → their states.
   * @param {Run} run
   * @param {Matrix} x
   * @param {{caches: KeyValues[], sources?: KeyValues[]}[]} each
   */
  async newest(run, x, each) {
    for (const [index, layer] of this.layers.entries()) {
      const memories = layer.crossAttention ? each.map(({ sources }) => /** @type {KeyValues[]} */ (sources)[index]) : null;
      x = await layer.newest(run, x, each.map(({ caches }) => caches[index]), memories);
    }
    return normalise(x, this.norm);
  }
}
