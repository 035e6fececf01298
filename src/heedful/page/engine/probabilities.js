/** From logits to the next token: log-probabilities, the best of them, and which of them sampling may draw. */

import { InputError } from "./turns.js";

/**
 * @typedef {{bos: number, eos: number, pad: number}} Limits
 * @typedef {{temperature?: number, top_k?: number, top_p?: number}} Sampling
 * @typedef {{index: number, value: number}} Ranked
 */

/**
 * Log-probabilities of a row of logits, −∞ for padding and begin (unless one of them is also the end).
 * @param {Float32Array} logits
 * @param {Limits} limits
 * @returns {Float32Array}
 */
export function nextLogProbabilities(logits, { bos, eos, pad }) {
  const kept = logits.slice();
  for (const id of [pad, bos]) if (id !== eos) kept[id] = -Infinity;
  return logSoftmax(kept);
}

/**
 * @param {Float32Array} values
 * @returns {Float32Array}
 */
export function logSoftmax(values) {
  let most = -Infinity;
  for (const value of values) if (value > most) most = value;
  let sum = 0;
  for (const value of values) sum += Math.exp(value - most);
  const total = most + Math.log(sum);
  return values.map((value) => value - total);
}

/**
 * The largest values with their places, largest first; of equal ones the first.
 * @param {ArrayLike<number>} values
 * @param {number} count
 * @returns {Ranked[]}
 */
export function largest(values, count) {
  /** @type {Ranked[]} */
  const best = [];
  const most = Math.min(count, values.length);
  for (let index = 0; index < values.length; index++) {
    const value = values[index];
    if (best.length === most && value <= best[most - 1].value) continue;
    let place = best.length;
    while (place > 0 && best[place - 1].value < value) place--;
    best.splice(place, 0, { index, value });
    if (best.length > most) best.pop();
  }
  return best;
}

/** @param {ArrayLike<number>} values */
export function argmax(values) {
  let best = 0;
  for (let index = 1; index < values.length; index++) if (values[index] > values[best]) best = index;
  return best;
}

/**
 * Log-probabilities divided by a temperature, −∞ outside the `top_k` best and outside the smallest set whose probability
 * reaches `top_p`.
 * @param {Float32Array} scores
 * @param {Sampling} sampling
 * @returns {Float32Array}
 */
export function restrict(scores, { temperature = 1, top_k = 0, top_p = 1 }) {
  if (!(temperature > 0)) throw new InputError(`temperature must be above 0, not ${temperature}`);
  if (!(top_p > 0)) throw new InputError(`top_p must be above 0, not ${top_p}`);
  const kept = scores.map((score) => score / temperature);
  if (top_k > 0 && top_k < kept.length) {
    const lowest = Float32Array.from(kept).sort()[kept.length - top_k];
    for (let index = 0; index < kept.length; index++) if (kept[index] < lowest) kept[index] = -Infinity;
  }
  if (top_p < 1) {
    const probabilities = logSoftmax(kept).map(Math.exp);
    const order = Array.from(probabilities.keys()).sort((a, b) => probabilities[b] - probabilities[a] || a - b);
    let before = 0; // a token is removed if those before it already reach top_p; the first always stays
    order.forEach((index, place) => {
      if (place && before >= top_p) kept[index] = -Infinity;
      before = Math.fround(before + probabilities[index]);
    });
  }
  return kept;
}

/**
 * The first token whose cumulative probability exceeds a random number.
 * @param {Float32Array} scores
 * @param {number} number in [0, 1)
 */
export function draw(scores, number) {
  const most = scores[argmax(scores)];
  const shares = Float64Array.from(scores, (score) => Math.exp(score - most));
  const wanted = number * shares.reduce((a, b) => a + b, 0);
  let sum = 0;
  for (let index = 0; index < shares.length; index++) {
    sum += shares[index];
    if (sum > wanted) return index;
  }
  return argmax(scores);
}

/**
 * ((5 + length) / 6)^α (Wu et al., 2016), by which a log-probability is divided.
 * @param {number} length
 * @param {number} alpha
 */
export function lengthPenalty(length, alpha) {
  return ((5 + length) / 6) ** alpha;
}
