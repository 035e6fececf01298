/** Beam search (Section 6.1), equal to `decoding/search.py`, and its tree: every hypothesis it looked at, and what became of it. */

import { largest, lengthPenalty, nextLogProbabilities } from "./probabilities.js";

/**
 * @typedef {{tokens: number[], totals: number[], logProbability: number, score: number}} Hypothesis
 * @typedef {{node: number, parent: number | null, id: number, text: string, log_probability: number, score: number,
 *   state: "alive" | "ended" | "dropped" | "best"}} Branch
 */

export class BeamSearch {
  /**
   * @param {any} network
   * @param {import("./attention.js").Run} run
   * @param {import("./writer.js").Sentence} sentence
   */
  constructor(network, run, sentence) {
    this.network = network;
    this.run = run;
    this.sentence = sentence;
    /** @type {Hypothesis[]} best first */
    this.ended = [];
    /** @type {{origins: number[], tokens: number[], totals: number[]}[]} */
    this.back = [];
    /** @type {Branch[][]} */
    this.steps = [];
    /** @type {(number | null)[]} the node at each place of the beam */
    this.open = [];
    /** @type {any[]} what each open hypothesis carries, its newest token and its log-probability */
    this.states = [];
    /** @type {number[]} */
    this.newest = [];
    /** @type {number[]} */
    this.totals = [];
    this.finished = false;
  }

  async begin() {
    const { source, first, beam } = this.sentence;
    const state = await this.network.start(this.run, source);
    this.states = Array.from({ length: beam }, (_, place) => (place ? state.copy() : state));
    this.newest = Array(beam).fill(first);
    // All hypotheses start equal, so only one of them may be extended.
    this.totals = Array.from({ length: beam }, (_, place) => (place ? -Infinity : 0));
    return this;
  }

  /** The next token of every hypothesis; false when the search has finished. */
  async step() {
    if (this.finished) return false;
    const { beam, limits, longest, alpha } = this.sentence;
    const { totals, states } = this;
    const alive = totals.flatMap((total, place) => (total > -Infinity ? [place] : []));
    const logits = await this.network.step(this.run, alive.map((p) => this.newest[p]), alive.map((p) => states[p]));
    const vocabulary = logits.shape[1];
    const sums = new Float32Array(beam * vocabulary).fill(-Infinity);
    alive.forEach((place, row) => {
      const scores = nextLogProbabilities(logits.data.subarray(row * vocabulary, (row + 1) * vocabulary), limits);
      for (let id = 0; id < vocabulary; id++) sums[place * vocabulary + id] = totals[place] + scores[id];
    });
    // Twice as many candidates as the beam: each hypothesis has one end token, so at least `beam` others remain.
    const best = largest(sums, Math.min(2 * beam, sums.length)).map(({ index, value }) => ({
      place: Math.floor(index / vocabulary), id: index % vocabulary, value,
    }));
    const ending = new Set(best.slice(0, beam).filter(({ id, value }) => id === limits.eos && value > -Infinity));
    // Python sorts the candidates again, with the ends last, at −∞.
    const going = [...best.filter(({ id }) => id !== limits.eos), ...best.filter(({ id }) => id === limits.eos)].slice(0, beam)
      .map((one) => (one.id === limits.eos ? { ...one, value: -Infinity } : one));
    const penalty = lengthPenalty(this.back.length + 1, alpha);
    for (const { place, value } of ending) this.end(this.path(place), value, penalty);
    this.ended = this.ended.sort((a, b) => b.score - a.score).slice(0, beam);
    this.grow(best, going, ending, penalty);
    const left = going.map(({ value }) => value);
    this.back.push({ origins: going.map(({ place }) => place), tokens: going.map(({ id }) => id), totals: left });
    if (this.back.length >= longest) {
      left.forEach((total, place) => { if (total > -Infinity) this.end(this.path(place), total, penalty); });
      this.finished = true;
    } else if (left[0] === -Infinity) this.finished = true;
    else if (this.ended.length === beam && left[0] / penalty <= this.ended[beam - 1].score) this.finished = true;
    if (this.finished) {
      this.markBest();
      return false;
    }
    this.go(going);
    return true;
  }

  /**
   * Go on with the hypotheses of the next step.
   * @param {{place: number, id: number, value: number}[]} going
   */
  go(going) {
    const before = this.states;
    const used = new Set();
    this.states = going.map(({ place, value }) => {
      if (value === -Infinity) return null;
      if (used.has(place)) return before[place].copy();
      used.add(place);
      return before[place];
    });
    // A state is copied before anything else advances it: copies are made here, steps come later.
    this.newest = going.map(({ id }) => id);
    this.totals = going.map(({ value }) => value);
  }

  /**
   * @param {{tokens: number[], totals: number[]}} path
   * @param {number} logProbability
   * @param {number} penalty
   */
  end(path, logProbability, penalty) {
    this.ended.push({ ...path, logProbability, score: logProbability / penalty });
  }

  /** The tokens of the open hypothesis at a place of the beam, and its log-probability after each. @param {number} place */
  path(place) {
    const tokens = [];
    const totals = [];
    for (let step = this.back.length - 1; step >= 0; step--) {
      tokens.push(this.back[step].tokens[place]);
      totals.push(this.back[step].totals[place]);
      place = this.back[step].origins[place];
    }
    return { tokens: tokens.reverse(), totals: totals.reverse() };
  }

  /**
   * Record a step.
   * @param {{place: number, id: number, value: number}[]} best
   * @param {{place: number, id: number, value: number}[]} going
   * @param {Set<any>} ending
   * @param {number} penalty
   */
  grow(best, going, ending, penalty) {
    const first = this.steps.reduce((sum, step) => sum + step.length, 0);
    const { limits, tokenizer } = this.sentence;
    /** @type {Branch[]} */
    const step = [];
    for (const one of best) {
      if (one.value === -Infinity) continue;
      const kept = going.some(({ place, id, value }) => value > -Infinity && place === one.place && id === one.id);
      step.push({
        node: first + step.length,
        parent: this.open.length ? this.open[one.place] : null,
        id: one.id,
        text: one.id === limits.eos ? "⟨end⟩" : tokenizer.tokens([one.id])[0],
        log_probability: one.value,
        score: one.value / penalty,
        state: ending.has(one) ? "ended" : kept ? "alive" : "dropped",
      });
    }
    const before = this.open;
    this.open = going.map(({ place, id }) => {
      const parent = before.length ? before[place] : null;
      return step.find((branch) => branch.parent === parent && branch.id === id)?.node ?? null;
    });
    this.steps.push(step);
  }

  /** Mark the path of the output. */
  markBest() {
    if (this.back.length >= this.sentence.longest) {
      for (const branch of this.steps[this.steps.length - 1]) if (branch.state === "alive") branch.state = "ended";
    }
    const [best] = this.hypotheses;
    /** @type {number | null} */
    let parent = null;
    for (const [number, id] of [...(best?.tokens ?? []), this.sentence.limits.eos].entries()) {
      const found = this.steps[number]?.find((branch) => branch.parent === parent && branch.id === id);
      if (!found) return;
      found.state = "best";
      parent = found.node;
    }
  }

  async finish() {
    while (await this.step());
    return this;
  }

  /** The best outputs, best first. */
  get hypotheses() {
    return [...this.ended].sort((a, b) => b.score - a.score).slice(0, this.sentence.nBest);
  }

  get best() {
    return this.hypotheses.map(({ tokens, totals, logProbability, score }) => ({
      tokens, text: this.sentence.tokenizer.decode(tokens), score, log_probability: logProbability,
      probabilities: totals.map((total, place) => Math.exp(total - (place ? totals[place - 1] : 0))),
    }));
  }

  get tree() {
    return { width: this.sentence.beam, alpha: this.sentence.alpha, steps: this.steps };
  }
}
