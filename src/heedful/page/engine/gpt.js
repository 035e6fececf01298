/** The decoder-only language model GPT. See `models/gpt.py`. */

import { Embedding } from "./embedding.js";
import { Stack } from "./layers.js";
import { apply, matrix, rows } from "./matrix.js";
import { absolutePositions, attentionPositions } from "./positions.js";

/**
 * @typedef {import("./matrix.js").Matrix} Matrix
 * @typedef {import("./attention.js").Run} Run
 * @typedef {import("./attention.js").KeyValues} KeyValues
 */

/** What decoding carries from step to step: the tokens in the context, and their keys and values. */
class State {
  /**
   * @param {KeyValues[]} caches
   * @param {number[]} ids
   */
  constructor(caches, ids) {
    this.caches = caches;
    this.ids = ids;
  }

  copy() {
    return new State(this.caches.map((cache) => cache.copy()), [...this.ids]);
  }
}

export class GPT {
  /**
   * @param {import("./weights.js").Weights} weights
   * @param {any} config
   */
  constructor(weights, config) {
    const width = config.d_model;
    const output = weights.tensor("output_weight");
    const dK = width / config.heads;
    this.config = config;
    this.vocabulary = config.vocab;
    this.embedding = new Embedding(weights.has("embedding.weight") ? weights.tensor("embedding.weight") : output, width, {
      positions: absolutePositions(config.positions, weights, "embedding", width),
    });
    const { norm, epsilon, activation, heads } = config;
    const self = { part: "decoder", heads, dK, dV: dK, positions: null, kind: config.attention_kind, config };
    const shape = { stack: "decoder", norm, epsilon, activation, self, crossing: false };
    this.stack = new Stack(weights, "encoder", config.layers, shape, (name) =>
      attentionPositions(config.positions, weights, name, heads, dK),
    );
    this.output = { weight: output, bias: null, inputs: width, outputs: config.vocab };
  }

  /** How many of the last tokens a text goes on from once the context is full. */
  get half() {
    return Math.max(1, Math.floor(this.config.context / 2));
  }

  /**
   * Process a prompt, which may be empty; the state that `step` continues.
   * @param {Run} run
   * @param {number[]} ids
   */
  async start(run, ids) {
    const state = new State(this.stack.caches(), []);
    const kept = ids.length <= this.config.context ? ids : ids.slice(-this.half);
    if (kept.length) await this.extend(run, kept, state);
    return state;
  }

  /**
   * The newest token of each row → logits (R, V) of the next ones; the states advance. A text may have any length: when the
   * context is full, it starts again from the last half of it.
   * @param {Run} run
   * @param {number[]} tokens
   * @param {State[]} states
   */
  async step(run, tokens, states) {
    const width = this.config.d_model;
    if (run.act.causal && states.every(({ ids }) => ids.length < this.config.context)) {
      const x = this.embedding.each(run, tokens, states.map(({ ids }) => ids.length));
      const found = await this.stack.newest(run, x, states);
      tokens.forEach((token, row) => states[row].ids.push(token));
      return this.project(run, found);
    }
    const last = matrix([tokens.length, width]);
    for (const [row, token] of tokens.entries()) {
      const state = states[row];
      let added = [token];
      if (state.ids.length + 1 > this.config.context) {
        added = [...state.ids, token].slice(-this.half);
        state.ids = [];
        state.caches = this.stack.caches();
      }
      const found = await this.extend(run, added, state);
      last.data.set(found.data.subarray(found.data.length - width), row * width);
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
      const { states } = await this.stack.forward(run, this.embedding.forward(run, state.ids).x);
      return rows(states, start, state.ids.length);
    }
    const { x } = this.embedding.forward(run, tokens, start);
    const { states } = await this.stack.forward(run, x, { causal: true, caches: state.caches });
    return states;
  }

  /**
   * @param {Run} run
   * @param {Matrix} states (…, D)
   */
  project(run, states) {
    return apply(run.turns, states, this.output);
  }

  get lens() {
    return [{ stack: "decoder", norm: this.stack.norm }];
  }

  /**
   * @param {Run} run
   * @param {{input: number[]}} ids
   */
  async forward(run, { input }) {
    const embedded = this.embedding.forward(run, input);
    const found = await this.stack.forward(run, embedded.x, { causal: true });
    return { states: found.states, stacks: { decoder: { ...found, embedding: embedded.record } } };
  }
}
