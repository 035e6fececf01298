/** The parts of an Explanation, from what was kept of a forward pass. */

import { lengths } from "./matrix.js";
import { largest } from "./probabilities.js";

/**
 * @typedef {import("./matrix.js").Matrix} Matrix
 * @typedef {{id: number | null, text: string, probability: number}} Candidate
 */

const FORMAT = 1;

/**
 * @param {import("./model.js").Model} model
 * @param {any} parts
 */
export function explanationOf(model, { trace, attention, ...parts }) {
  const found = {
    format: FORMAT,
    job: model.job,
    verb: model.verbs[0],
    kind: model.kind,
    model: model.name,
    ...parts,
    attention: attention.filter((/** @type {any} */ one) => one !== null),
  };
  return trace ? { ...found, trace } : found;
}

/**
 * One attention, or null if the model has none.
 * @param {string} name
 * @param {string} about
 * @param {string} queries name of a sequence
 * @param {string} keys
 * @param {({weights: Matrix, scores: Matrix} | null)[]} layers
 */
export function attentionOf(name, about, queries, keys, layers) {
  const kept = layers.filter((layer) => layer !== null);
  if (!kept.length) return null;
  return {
    name, about, queries, keys,
    layers: kept.map(({ weights, scores }, index) => ({ number: index + 1, weights, scores })),
  };
}

/** @param {Matrix[]} hidden */
function labelsOf(hidden) {
  return hidden.map((_, number) => (number ? `layer ${number}` : "embeddings"));
}

/**
 * The length of every vector of a residual stream.
 * @param {string} stack
 * @param {string} sequence
 * @param {Matrix[]} hidden
 * @param {string[]} [labels]
 */
export function normsOf(stack, sequence, hidden, labels = labelsOf(hidden)) {
  return { stack, sequence, labels, values: hidden.map(lengths) };
}

/**
 * What each layer would already say.
 * @param {string} stack
 * @param {string} sequence
 * @param {Matrix[]} hidden
 * @param {(states: Matrix) => Promise<Candidate[][]>} say
 * @param {string[]} [labels]
 * @param {string[] | null} [columns]
 */
export async function lensOf(stack, sequence, hidden, say, labels = labelsOf(hidden), columns = null) {
  const layers = [];
  for (const states of hidden) layers.push(await say(states));
  return { stack, sequence, labels, columns, layers };
}

/**
 * The most probable, with their names.
 * @param {ArrayLike<number>} probabilities
 * @param {number} count
 * @param {(id: number) => string} name
 * @returns {Candidate[]}
 */
export function topOf(probabilities, count, name) {
  return largest(probabilities, count).map(({ index, value }) => ({ id: index, text: name(index), probability: value }));
}

/**
 * Every number of a forward pass.
 * @param {{stacks: Record<string, any>, pooling?: any}} passed
 * @param {Record<string, string>} sequences of the stacks
 * @param {Matrix | null} logits
 */
export function traceOf({ stacks, pooling = null }, sequences, logits) {
  /** @type {Record<string, any>} */
  const trace = { logits, ...(pooling ? { pooling } : {}) };
  for (const [name, { embedding, records, hidden, record, states }] of Object.entries(stacks)) {
    const layers = records.length ? records
      : hidden.slice(1).map((/** @type {Matrix} */ after, /** @type {number} */ index) => ({ number: index + 1, after }));
    trace[name] = { sequence: sequences[name], embedding, layers, attention: record ?? null, final: states };
  }
  return trace;
}
