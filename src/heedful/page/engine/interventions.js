/** What a person changes inside a model, asked for by the parts it concerns. */

import { InputError } from "./turns.js";

/**
 * @typedef {{
 *   heads?: {attention: string, layer: number, head?: number}[],
 *   layers?: {stack: string, layer: number}[],
 *   causal?: boolean, divisor?: number | Record<string, number> | null, positions?: boolean,
 *   residual?: boolean | {stack: string, layer: number}[],
 *   permute?: Record<string, number[]>,
 *   replace?: {sequence: string, position: number, id: number}[],
 * }} InterventionsGiven
 */

const KEYS = ["heads", "layers", "causal", "divisor", "positions", "residual", "permute", "replace"];

export class Interventions {
  /** @param {InterventionsGiven | null} [given] */
  constructor(given) {
    this.given = given ?? {};
    for (const key of Object.keys(this.given)) {
      if (!KEYS.includes(key)) throw new InputError(`there is no intervention "${key}"; there are ${KEYS.join(", ")}`);
    }
    const { divisor } = this.given;
    const numbers = divisor == null ? [] : typeof divisor === "number" ? [divisor] : Object.values(divisor);
    if (numbers.some((number) => !(number > 0 && Number.isFinite(number)))) {
      throw new InputError("the divisor of the scores must be a number above 0");
    }
    this.heads = this.given.heads ?? [];
    this.layers = this.given.layers ?? [];
    this.causal = this.given.causal !== false;
    this.positions = this.given.positions !== false;
  }

  /**
   * @param {string} attention
   * @param {number} layer from 1
   * @param {number} head from 1
   */
  headOff(attention, layer, head) {
    return this.heads.some(
      (one) => one.attention === attention && one.layer === layer && (one.head === undefined || one.head === head),
    );
  }

  /**
   * @param {string} stack
   * @param {number} layer from 1
   */
  layerOff(stack, layer) {
    return this.layers.some((one) => one.stack === stack && one.layer === layer);
  }

  /**
   * @param {string} attention
   * @param {number} usual
   */
  divisor(attention, usual) {
    const { divisor } = this.given;
    if (divisor == null) return usual;
    return typeof divisor === "number" ? divisor : divisor[attention] ?? usual;
  }

  /**
   * Whether a layer has its residual connections.
   * @param {string} stack
   * @param {number} layer from 1
   */
  residual(stack, layer) {
    const { residual } = this.given;
    if (Array.isArray(residual)) return !residual.some((one) => one.stack === stack && one.layer === layer);
    return residual !== false;
  }

  /**
   * The ids of a sequence as the model is to read them: replaced, then in another order.
   * @param {string} sequence
   * @param {number[]} ids
   * @param {number} vocabulary
   */
  sequence(sequence, ids, vocabulary) {
    const found = [...ids];
    for (const one of this.given.replace ?? []) {
      if (one.sequence !== sequence) continue;
      if (!(one.position >= 0 && one.position < found.length)) {
        throw new InputError(`position ${one.position} cannot be replaced: the ${sequence} has ${found.length} tokens`);
      }
      if (!(Number.isInteger(one.id) && one.id >= 0 && one.id < vocabulary)) {
        throw new InputError(`${one.id} is not a token of this model, which has ${vocabulary}`);
      }
      found[one.position] = one.id;
    }
    return this.order(sequence, found);
  }

  /**
   * What belongs to the positions of a sequence, such as segments or patches, in the order asked for.
   * @template T
   * @param {string} sequence
   * @param {T[]} items
   * @returns {T[]}
   */
  order(sequence, items) {
    const order = this.given.permute?.[sequence];
    if (!order) return items;
    const sorted = [...order].sort((a, b) => a - b);
    if (sorted.length !== items.length || sorted.some((value, index) => value !== index)) {
      throw new InputError(`an order of the ${sequence} must name each of its ${items.length} positions once`);
    }
    return order.map((position) => items[position]);
  }
}
