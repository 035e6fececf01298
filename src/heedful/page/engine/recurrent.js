/** The recurrent encoder–decoder, with and without attention. See `nn/recurrent.py`. */

import { Embedding } from "./embedding.js";
import { keepMasked, recordOf } from "./attention.js";
import { apply, dot, matrix, softmax } from "./matrix.js";

/**
 * @typedef {import("./matrix.js").Matrix} Matrix
 * @typedef {import("./attention.js").Run} Run
 * @typedef {import("./weights.js").Weights} Weights
 * @typedef {{s: Float32Array, c: Float32Array | null}} Hidden  of one layer
 */

const sigmoid = (/** @type {number} */ x) => 1 / (1 + Math.exp(-x));

/** One recurrent layer, GRU or LSTM. */
class Cell {
  /**
   * @param {Weights} weights
   * @param {string} name
   * @param {number} index of the layer inside the PyTorch module
   * @param {string} kind
   */
  constructor(weights, name, index, kind) {
    const linear = (/** @type {string} */ which) => {
      const [outputs, inputs] = weights.shape(`${name}.weight_${which}_l${index}`);
      const bias = weights.tensor(`${name}.bias_${which}_l${index}`);
      return { weight: weights.tensor(`${name}.weight_${which}_l${index}`), bias, inputs, outputs };
    };
    this.lstm = kind === "lstm";
    this.input = linear("ih");
    this.recurrent = linear("hh");
    this.width = this.recurrent.inputs;
  }

  /** @returns {Hidden} */
  zeros() {
    return { s: new Float32Array(this.width), c: this.lstm ? new Float32Array(this.width) : null };
  }

  /**
   * x (L, D) from a state → the outputs (L, width) and the final state.
   * @param {Run} run
   * @param {Matrix} x
   * @param {Hidden} hidden
   */
  async forward(run, x, hidden) {
    const { width } = this;
    const length = x.shape[0];
    const inputs = await apply(run.turns, x, this.input);
    const out = matrix([length, width]);
    let { s, c } = hidden;
    for (let t = 0; t < length; t++) {
      const inner = (await apply(run.turns, matrix([1, width], s), this.recurrent)).data;
      const given = inputs.data.subarray(t * inputs.shape[1], (t + 1) * inputs.shape[1]);
      const next = new Float32Array(width);
      const cell = c && new Float32Array(width);
      for (let i = 0; i < width; i++) {
        if (cell && c) {
          const [a, f, g, o] = [0, 1, 2, 3].map((gate) => given[gate * width + i] + inner[gate * width + i]);
          cell[i] = sigmoid(f) * c[i] + sigmoid(a) * Math.tanh(g);
          next[i] = sigmoid(o) * Math.tanh(cell[i]);
        } else {
          const r = sigmoid(given[i] + inner[i]);
          const z = sigmoid(given[width + i] + inner[width + i]);
          const n = Math.tanh(given[2 * width + i] + r * inner[2 * width + i]);
          next[i] = (1 - z) * n + z * s[i];
        }
      }
      s = next;
      c = cell;
      out.data.set(s, t * width);
    }
    return { out, hidden: { s, c } };
  }
}

/**
 * @param {Matrix} x
 * @returns {Matrix} its rows in reverse
 */
function reversed(x) {
  const [length, width] = x.shape;
  const out = matrix(x.shape);
  for (let row = 0; row < length; row++) {
    out.data.set(x.data.subarray(row * width, (row + 1) * width), (length - 1 - row) * width);
  }
  return out;
}

/** What decoding carries from step to step. */
class State {
  /**
   * @param {Hidden[]} hidden
   * @param {Matrix} memory
   * @param {Matrix} key
   */
  constructor(hidden, memory, key) {
    this.hidden = hidden;
    this.memory = memory;
    this.key = key;
  }

  copy() {
    return new State([...this.hidden], this.memory, this.key); // every step makes new arrays
  }
}

export class Recurrent {
  /**
   * @param {Weights} weights
   * @param {any} config
   */
  constructor(weights, config) {
    const { d_model: width, cell, layers, attention } = config;
    const shared = weights.tensor("output_weight");
    const embedding = (/** @type {string} */ name) =>
      new Embedding(weights.has(name) ? weights.tensor(name) : shared, width, { scale: Math.sqrt(width) });
    const numbers = Array.from({ length: layers }, (_, index) => index);
    this.config = config;
    this.vocabulary = config.target_vocab;
    this.source = embedding("source_embedding.weight");
    this.target = embedding("target_embedding.weight");
    this.rightward = numbers.map((index) => new Cell(weights, `encoder.rightward.${index}`, 0, cell));
    this.leftward = config.bidirectional ? numbers.map((index) => new Cell(weights, `encoder.leftward.${index}`, 0, cell)) : [];
    this.first = numbers.map((index) => weights.linear(`decoder.first.${index}`));
    this.cells = numbers.map((index) => new Cell(weights, "decoder.cells", index, cell));
    const linear = (/** @type {string} */ name) => (weights.has(`${name}.weight`) ? weights.linear(name) : null);
    this.attention = attention;
    this.projectKey = linear("decoder.cross_attention.project_key");
    this.projectQuery = linear("decoder.cross_attention.project_query");
    this.projectScore = linear("decoder.cross_attention.project_score");
    this.combine = linear("decoder.combine");
    this.output = { weight: shared, bias: weights.tensor("output_bias"), inputs: width, outputs: config.target_vocab };
  }

  /**
   * @param {Run} run
   * @param {number[]} ids
   */
  async encode(run, ids) {
    const embedded = this.source.forward(run, ids);
    let x = embedded.x;
    const width = this.config.d_model;
    const hidden = [x];
    /** @type {Float32Array[]} */
    const finals = [];
    for (const [index, rightward] of this.rightward.entries()) {
      const final = new Float32Array(width);
      if (!run.act.layerOff("encoder", index + 1)) {
        const right = await rightward.forward(run, x, rightward.zeros());
        let states = right.out;
        final.set(right.hidden.s);
        if (this.leftward.length) {
          const cell = this.leftward[index];
          const left = await cell.forward(run, reversed(x), cell.zeros());
          final.set(left.hidden.s, right.hidden.s.length);
          states = beside(states, reversed(left.out));
        }
        x = states;
      }
      finals.push(final);
      hidden.push(x);
    }
    return { states: x, finals, hidden, embedding: embedded.record, records: [] };
  }

  /**
   * @param {Run} run
   * @param {{states: Matrix, finals: Float32Array[]}} encoded
   */
  async begin(run, { states, finals }) {
    const width = this.config.d_model;
    /** @type {Hidden[]} */
    const hidden = [];
    for (const [index, final] of finals.entries()) {
      const both = (await apply(run.turns, matrix([1, width], final), this.first[index])).data.map(Math.tanh);
      hidden.push({ s: both.slice(0, width), c: both.length > width ? both.slice(width) : null });
    }
    return new State(hidden, states, this.projectKey ? await apply(run.turns, states, this.projectKey) : states);
  }

  /**
   * @param {Run} run
   * @param {number[]} ids
   */
  async start(run, ids) {
    return this.begin(run, await this.encode(run, ids));
  }

  /**
   * @param {Run} run
   * @param {number[]} tokens
   * @param {State[]} states
   */
  async step(run, tokens, states) {
    const width = this.config.d_model;
    const last = matrix([tokens.length, width]);
    for (const [row, token] of tokens.entries()) {
      last.data.set((await this.extend(run, [token], states[row])).data, row * width);
    }
    return this.project(run, last);
  }

  /**
   * @param {Run} run
   * @param {number[]} tokens
   * @param {State} state
   */
  async extend(run, tokens, state) {
    return (await this.decode(run, this.target.forward(run, tokens).x, state)).states;
  }

  /**
   * The next inputs (n, D) → ŝ (n, D); the state advances.
   * @param {Run} run
   * @param {Matrix} x
   * @param {State} state
   */
  async decode(run, x, state) {
    const hidden = [x];
    let states = x;
    for (const [index, cell] of this.cells.entries()) {
      if (run.act.layerOff("decoder", index + 1)) continue;
      const found = await cell.forward(run, states, state.hidden[index]);
      state.hidden[index] = found.hidden;
      states = found.out;
    }
    hidden.push(states);
    let record = null;
    if (this.combine) {
      const { context, record: kept } = await this.attend(run, states, state);
      record = kept;
      states = await apply(run.turns, beside(context, states), this.combine);
      states.data = states.data.map(Math.tanh);
      hidden.push(states);
    }
    return { states, hidden, record };
  }

  /**
   * α_t = softmax(e_t), a_t = Σ_j α_tj h_j.
   * @param {Run} run
   * @param {Matrix} s (T, D)
   * @param {State} state
   */
  async attend(run, s, { memory, key }) {
    const [queries, width] = s.shape;
    const keys = memory.shape[0];
    const query = this.projectQuery ? await apply(run.turns, s, this.projectQuery) : s;
    const divisor = run.act.divisor("cross", this.attention === "scaled-dot" ? Math.fround(Math.sqrt(width)) : 1);
    const off = run.act.headOff("cross", 1, 1);
    const kept = run.record === "nothing" ? null : recordOf(run, 1, queries, keys, divisor);
    const context = matrix([queries, width]);
    const row = new Float32Array(keys);
    for (let i = 0; i < queries; i++) {
      for (let j = 0; j < keys; j++) {
        const product = this.projectScore
          ? additive(query.data, i * width, key.data, j * width, this.projectScore.weight)
          : dot(query.data, i * width, key.data, j * width, width);
        row[j] = product / divisor;
        if (kept?.products) kept.products.data[i * keys + j] = product;
      }
      if (kept) {
        kept.scores.data.set(row, i * keys);
        keepMasked(kept, row, i * keys, keys);
      }
      softmax(row, 0, keys);
      if (kept) kept.weights.data.set(row, i * keys);
      for (let j = 0; j < keys && !off; j++) {
        for (let d = 0; d < width; d++) context.data[i * width + d] += row[j] * memory.data[j * width + d];
      }
      await run.turns.pause();
    }
    if (kept && run.record === "everything") {
      const one = (/** @type {Matrix} */ x) => matrix([1, ...x.shape], x.data);
      Object.assign(kept, { input: s, q: one(query), k: one(key), v: one(memory), heads: one(context), output: context });
      Object.assign(kept, { parts: one(context), scoring: { kind: this.attention, v: this.projectScore?.weight ?? null } });
    }
    return { context, record: kept };
  }

  /**
   * @param {Run} run
   * @param {Matrix} states
   */
  project(run, states) {
    return apply(run.turns, states, this.output);
  }

  get lens() {
    return [{ stack: "decoder", norm: null }];
  }

  /**
   * @param {Run} run
   * @param {{source: number[], target: number[]}} ids
   */
  async forward(run, { source, target }) {
    const encoder = await this.encode(run, source);
    const state = await this.begin(run, encoder);
    const embedded = this.target.forward(run, target);
    const decoder = await this.decode(run, embedded.x, state);
    return { states: decoder.states, stacks: { encoder, decoder: { ...decoder, embedding: embedded.record, records: [] } } };
  }
}

/**
 * v · tanh(q + k)
 * @param {Float32Array} q
 * @param {number} qt
 * @param {Float32Array} k
 * @param {number} kt
 * @param {Float32Array} v
 */
function additive(q, qt, k, kt, v) {
  let sum = 0;
  for (let i = 0; i < v.length; i++) sum += v[i] * Math.tanh(q[qt + i] + k[kt + i]);
  return sum;
}

/**
 * [a ; b] of every row.
 * @param {Matrix} a
 * @param {Matrix} b
 */
function beside(a, b) {
  const [length, left] = a.shape;
  const right = b.shape[1];
  const out = matrix([length, left + right]);
  for (let row = 0; row < length; row++) {
    out.data.set(a.data.subarray(row * left, (row + 1) * left), row * (left + right));
    out.data.set(b.data.subarray(row * right, (row + 1) * right), row * (left + right) + left);
  }
  return out;
}
