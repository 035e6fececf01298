/** The encoder–decoder Transformer (Section 3, Figure 1). See `models/seq2seq.py`. */

import { Embedding } from "./embedding.js";
import { Stack } from "./layers.js";
import { apply, matrix, normalise, rows, softmax } from "./matrix.js";
import { absolutePositions, attentionPositions } from "./positions.js";

/**
 * @typedef {import("./matrix.js").Matrix} Matrix
 * @typedef {import("./attention.js").Run} Run
 * @typedef {import("./attention.js").KeyValues} KeyValues
 */

/** What decoding carries from step to step. */
class State {
  /**
   * @param {KeyValues[]} sources
   * @param {KeyValues[]} caches
   * @param {number[]} ids read so far
   */
  constructor(sources, caches, ids) {
    this.sources = sources;
    this.caches = caches;
    this.ids = ids;
  }

  copy() {
    return new State(this.sources, this.caches.map((cache) => cache.copy()), [...this.ids]);
  }
}

export class Seq2Seq {
  /**
   * @param {import("./weights.js").Weights} weights
   * @param {any} config
   */
  constructor(weights, config) {
    const width = config.d_model;
    const dK = config.d_k ?? width / config.heads;
    const dV = config.d_v ?? width / config.heads;
    const shared = weights.tensor("output_weight");
    const matrixOf = (/** @type {string} */ name) => (weights.has(name) ? weights.tensor(name) : shared);
    const embedding = (/** @type {string} */ name) =>
      new Embedding(matrixOf(`${name}.weight`), width, {
        scale: config.scale_embedding ? Math.sqrt(width) : 1,
        positions: absolutePositions(config.positions, weights, name, width),
      });
    const stack = (/** @type {string} */ name, /** @type {number} */ layers) => {
      const kind = (name === "decoder" && config.decoder_attention_kind) || config.attention_kind;
      const self = { part: name, heads: config.heads, dK, dV, positions: null, kind, config };
      const { norm, activation } = config;
      const shape = { stack: name, norm, activation, epsilon: 1e-5, self, crossing: name === "decoder" };
      return new Stack(weights, name, layers, shape, (attention) =>
        attentionPositions(config.positions, weights, attention, config.heads, dK),
      );
    };
    this.config = config;
    this.depth = config.decoder_layers ?? config.layers;
    this.vocabulary = config.target_vocab;
    this.source = embedding("source_embedding");
    this.target = embedding("target_embedding");
    this.encoder = stack("encoder", config.layers);
    this.decoder = stack("decoder", this.depth);
    this.mixes = config.reads === "mix"
      ? Array.from({ length: this.depth }, (_, index) => weights.tensor(`mixes.${index}.scores`)) : [];
    this.output = { weight: shared, bias: weights.tensor("output_bias"), inputs: width, outputs: config.target_vocab };
  }

  /**
   * Source ids → the memory (L, D) of each decoder layer, and what was kept.
   * @param {Run} run
   * @param {number[]} ids
   */
  async encode(run, ids) {
    const embedded = this.source.forward(run, ids);
    const found = await this.encoder.forward(run, embedded.x);
    return { memories: this.memories(found), embedding: embedded.record, ...found };
  }

  /**
   * @param {{states: Matrix, hidden: Matrix[]}} found
   * @returns {Matrix[]}
   */
  memories({ states, hidden }) {
    if (this.config.reads === "last") return Array(this.depth).fill(states);
    const layers = hidden.slice(1).map((x) => normalise(x, this.encoder.norm));
    if (this.config.reads === "layerwise") return layers;
    return this.mixes.map((scores) => {
      const shares = scores.slice();
      softmax(shares, 0, shares.length);
      const mixed = matrix(states.shape);
      layers.forEach((layer, number) => layer.data.forEach((value, i) => (mixed.data[i] += shares[number] * value)));
      return mixed;
    });
  }

  /**
   * Encode the source once; the state that `step` continues.
   * @param {Run} run
   * @param {number[]} ids
   */
  async start(run, ids) {
    const { memories } = await this.encode(run, ids);
    return new State(await this.decoder.memories(run, memories), this.decoder.caches(), []);
  }

  /**
   * The newest token of each row → logits (R, V) of the next ones; the states advance.
   * @param {Run} run
   * @param {number[]} tokens
   * @param {State[]} states
   */
  async step(run, tokens, states) {
    if (run.act.causal) {
      const x = this.target.each(run, tokens, states.map(({ ids }) => ids.length));
      const found = await this.decoder.newest(run, x, states);
      tokens.forEach((token, row) => states[row].ids.push(token));
      return this.project(run, found);
    }
    const last = matrix([tokens.length, this.config.d_model]);
    for (const [row, token] of tokens.entries()) {
      const found = await this.extend(run, [token], states[row]);
      last.data.set(found.data.subarray(found.data.length - this.config.d_model), row * this.config.d_model);
    }
    return this.project(run, last);
  }

  /**
   * Append tokens to a state; returns their states (n, D).
   * @param {Run} run
   * @param {number[]} tokens
   * @param {State} state
   */
  async extend(run, tokens, state) {
    const start = state.ids.length;
    state.ids.push(...tokens);
    if (!run.act.causal) {
      // Earlier positions may look at later ones, so that all are computed anew.
      const { x } = this.target.forward(run, state.ids);
      const { states } = await this.decoder.forward(run, x, { memories: state.sources });
      return rows(states, start, state.ids.length);
    }
    const { x } = this.target.forward(run, tokens, start);
    const { states } = await this.decoder.forward(run, x, { causal: true, caches: state.caches, memories: state.sources });
    return states;
  }

  /**
   * @param {Run} run
   * @param {Matrix} states (…, D)
   */
  project(run, states) {
    return apply(run.turns, states, this.output);
  }

  /** The final LayerNorm of a stack that leads to the output, for the logit lens. */
  get lens() {
    return [{ stack: "decoder", norm: this.decoder.norm }];
  }

  /**
   * The whole way of a source and the tokens that the decoder reads.
   * @param {Run} run
   * @param {{source: number[], target: number[]}} ids
   */
  async forward(run, { source, target }) {
    const encoder = await this.encode(run, source);
    const memories = await this.decoder.memories(run, encoder.memories);
    const embedded = this.target.forward(run, target);
    const decoder = await this.decoder.forward(run, embedded.x, { causal: true, memories });
    return {
      states: decoder.states,
      stacks: { encoder, decoder: { ...decoder, embedding: embedded.record } },
    };
  }
}
