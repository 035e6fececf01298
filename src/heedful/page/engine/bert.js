/** The encoder-only model BERT, with the heads it was trained with. See `models/bert.py`. */

import { activate } from "./activations.js";
import { Embedding } from "./embedding.js";
import { Stack } from "./layers.js";
import { apply, normalise, rows } from "./matrix.js";
import { AttentionPooling, classScores, meanRow } from "./pooling.js";
import { absolutePositions, attentionPositions } from "./positions.js";

/**
 * @typedef {import("./matrix.js").Matrix} Matrix
 * @typedef {import("./attention.js").Run} Run
 */

export class Bert {
  /**
   * @param {import("./weights.js").Weights} weights
   * @param {any} config
   */
  constructor(weights, config) {
    const { d_model: width, heads, epsilon, activation, head, pooling } = config;
    const embedding = weights.tensor("embedding.weight");
    this.config = config;
    this.vocabulary = config.vocab;
    this.embedding = new Embedding(embedding, width, {
      positions: absolutePositions(config.positions, weights, "embedding", width),
      segments: weights.tensor("embedding.segments"),
      norm: weights.norm("embedding.norm", epsilon),
    });
    const dK = width / heads;
    const self = { part: "encoder", heads, dK, dV: dK, positions: null, kind: config.attention_kind, config };
    const shape = { stack: "encoder", norm: "post", epsilon, activation, self, crossing: false };
    this.stack = new Stack(weights, "encoder", config.layers, shape, (name) =>
      attentionPositions(config.positions, weights, name, heads, dK),
    );
    this.pooling = pooling === "attention" ? new AttentionPooling(weights, width, heads) : null;
    this.pooler = pooling === "cls" && head !== "token" ? weights.linear("pooler") : null;
    this.classifier = head === "sequence" || head === "token" ? weights.linear("classifier") : null;
    this.words = null;
    if (head === "pretraining") {
      this.words = {
        dense: weights.linear("masked_language.dense"),
        norm: weights.norm("masked_language.norm", epsilon),
        output: { weight: embedding, bias: weights.tensor("masked_language.bias"), inputs: width, outputs: config.vocab },
      };
      this.next = weights.linear("next_sentence");
    }
  }

  /**
   * One vector of the whole sequence (1, D), or one per class (classes, D).
   * @param {Run} run
   * @param {Matrix} states
   */
  async pooled(run, states) {
    if (this.config.pooling === "mean") return { vector: meanRow(states), record: null };
    if (this.pooling) {
      const { output, record } = await this.pooling.forward(run, states);
      return { vector: output, record };
    }
    const first = rows(states, 0, 1);
    if (!this.pooler) return { vector: first, record: null };
    const vector = await apply(run.turns, first, this.pooler);
    vector.data = vector.data.map(Math.tanh);
    return { vector, record: null };
  }

  /**
   * Logits (N, V) of the words at some positions, or of all states that are given.
   * @param {Run} run
   * @param {Matrix} states
   */
  async project(run, states) {
    const { dense, norm, output } = /** @type {NonNullable<Bert["words"]>} */ (this.words);
    const transformed = normalise(activate(this.config.activation, await apply(run.turns, states, dense)), norm);
    return apply(run.turns, transformed, output);
  }

  get lens() {
    return this.words ? [{ stack: "encoder", norm: this.stack.norm }] : [];
  }

  /**
   * Framed ids and the segment of each → states, the output of the head, and what was kept.
   *
   * `logits` is (1, classes) for head=sequence, (L, classes) for head=token; `follows` (1, 2) for head=pretraining.
   * @param {Run} run
   * @param {{input: number[], segments?: number[] | null}} ids
   */
  async forward(run, { input, segments }) {
    const embedded = this.embedding.forward(run, input, 0, this.config.segments > 1 ? segments : null);
    const found = await this.stack.forward(run, embedded.x);
    const { states } = found;
    const stacks = { encoder: { ...found, embedding: embedded.record } };
    let logits = null;
    let follows = null;
    let pooling = null;
    const { head } = this.config;
    if (head === "token" && this.classifier) logits = await apply(run.turns, states, this.classifier);
    if (head === "sequence" && this.classifier) {
      const { vector, record } = await this.pooled(run, states);
      pooling = record;
      logits = await classScores(run, vector, this.classifier, this.pooling !== null);
    }
    if (head === "pretraining" && this.next) follows = await apply(run.turns, (await this.pooled(run, states)).vector, this.next);
    if (head === "none" && this.pooling && run.record !== "nothing") pooling = (await this.pooled(run, states)).record;
    return { states, logits, follows, pooling, stacks };
  }
}
