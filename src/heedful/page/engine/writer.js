/** Writing step by step: one token at a time, chosen, drawn or the most probable; and taken back again. */

import { argmax, draw, largest, logSoftmax, nextLogProbabilities, restrict } from "./probabilities.js";
import { PythonRandom } from "./python_random.js";
import { InputError } from "./turns.js";

/**
 * @typedef {import("./attention.js").Run} Run
 * @typedef {import("./probabilities.js").Sampling} Sampling
 * @typedef {import("./tokenizer.js").Tokenizer} Tokenizer
 * @typedef {{
 *   source: number[], first: number, longest: number, beam: number, alpha: number, nBest: number,
 *   limits: import("./probabilities.js").Limits, tokenizer: Tokenizer,
 * }} Sentence  what is to be written: ids the model reads, the token before the output, most tokens of the output, and how
 */

export class Writer {
  /**
   * @param {any} network seq2seq, recurrent or gpt
   * @param {Run} run
   * @param {Sentence} sentence
   */
  constructor(network, run, sentence) {
    this.network = network;
    this.run = run;
    this.sentence = sentence;
    /** @type {number[]} */
    this.tokens = [];
    /** @type {number[]} natural logarithms of the probabilities of the tokens, and of the end */
    this.logProbabilities = [];
    /** @type {Float32Array[]} what could have been written at each place */
    this.scores = [];
    /** @type {Float32Array} log-probabilities of the next token */
    this.next = new Float32Array(0);
    /** @type {any} what the network carries, before the output and now */
    this.start = this.state = null;
    this.finished = false;
  }

  async begin() {
    this.start = await this.network.start(this.run, this.sentence.source);
    await this.replay();
    return this;
  }

  /** Read the tokens written so far from the beginning. */
  async replay() {
    this.state = this.start.copy();
    const { first, limits } = this.sentence;
    let logits = await this.network.step(this.run, [first], [this.state]);
    for (const token of this.tokens) logits = await this.network.step(this.run, [token], [this.state]);
    this.next = nextLogProbabilities(logits.data, limits);
  }

  get text() {
    return this.sentence.tokenizer.decode(this.tokens);
  }

  get probabilities() {
    return this.logProbabilities.map(Math.exp);
  }

  get total() {
    return this.logProbabilities.reduce((a, b) => a + b, 0);
  }

  /** What may come next, most probable first. @param {{count?: number} & Sampling} [options] */
  candidates({ count = 10, ...sampling } = {}) {
    if (this.finished) return [];
    const { temperature = 1 } = sampling;
    const kept = restrict(this.next, sampling);
    const warm = logSoftmax(this.next.map((/** @type {number} */ score) => score / temperature));
    return largest(warm, count).map(({ index, value }) => ({
      id: index, text: this.textOf(index), probability: Math.exp(value), kept: kept[index] > -Infinity,
    }));
  }

  /** The uncertainty of the next token when it is drawn so, in bits. @param {Sampling} [sampling] */
  entropy(sampling = {}) {
    let bits = 0;
    for (const score of logSoftmax(restrict(this.next, sampling))) if (score > -Infinity) bits -= (Math.exp(score) * score) / Math.LN2;
    return bits;
  }

  /** @param {number} id */
  textOf(id) {
    return id === this.sentence.limits.eos ? "⟨end⟩" : this.sentence.tokenizer.tokens([id])[0];
  }

  /** Write a token, without one the most probable. @param {number} [id] */
  async write(id = argmax(this.next)) {
    if (this.finished) throw new InputError("the text has ended; take tokens back to write another");
    if (!(Number.isInteger(id) && id >= 0 && id < this.next.length)) throw new InputError(`${id} is not a token of this model`);
    const { limits, longest } = this.sentence;
    this.scores.push(this.next);
    this.logProbabilities.push(this.next[id]);
    if (id !== limits.eos) this.tokens.push(id);
    this.finished = id === limits.eos || this.tokens.length >= longest;
    const written = { id, text: this.textOf(id), probability: Math.exp(this.next[id]) };
    if (!this.finished) {
      const logits = await this.network.step(this.run, [id], [this.state]);
      this.next = nextLogProbabilities(logits.data, limits);
    }
    return written;
  }

  /** Write a drawn token. @param {Sampling & {random?: () => number}} [sampling] */
  async draw({ random = Math.random, ...sampling } = {}) {
    return this.write(draw(restrict(this.next, sampling), random()));
  }

  /** Take back the last tokens; the end counts as one. @param {number} [count] */
  async back(count = 1) {
    const left = Math.max(0, this.logProbabilities.length - count);
    this.logProbabilities.length = left;
    this.scores.length = left;
    this.tokens.length = Math.min(this.tokens.length, left);
    this.finished = false;
    await this.replay();
  }

  /**
   * Go on to the end: greedily, or drawing with a seed.
   * @param {{sampling?: Sampling & {seed?: number | string} | null, onToken?: (token: any) => void}} [options]
   */
  async finish({ sampling = null, onToken } = {}) {
    const rng = sampling && new PythonRandom(String(sampling.seed ?? 1));
    while (!this.finished) {
      const written = rng ? await this.draw({ ...sampling, random: () => rng.random() }) : await this.write();
      onToken?.(written);
    }
    return this;
  }

  /** Every written token with its probability and what else could have stood there. @param {number} [alternatives] */
  written(alternatives = 0) {
    return this.tokens.map((id, place) => ({
      id,
      text: this.textOf(id),
      probability: Math.exp(this.logProbabilities[place]),
      alternatives: alternatives
        ? largest(this.scores[place], alternatives).map(({ index, value }) => ({
          id: index, text: this.textOf(index), probability: Math.exp(value),
        })) : [],
    }));
  }
}
