/** Kinds of self-attention for long inputs: which keys a query sees. See `nn/attention/`; here every score has its place in a
 *  full matrix, because people look at it. */

import { dot } from "./matrix.js";
import { InputError } from "./turns.js";

/**
 * @typedef {import("./weights.js").Weights} Weights
 * @typedef {import("./attention.js").KeyValues} KeyValues
 * @typedef {{memory: KeyValues, head: number, dK: number, queries: number, start: number, causal: boolean}} Asked
 * @typedef {(asked: Asked) => Uint8Array} Counts  how often each query sees each key, (Lq, Lk); a softmax counts it as often
 */

/**
 * Counts that are the same for all heads, from whether a query sees a key.
 * @param {(query: number, key: number, keys: number, causal: boolean) => boolean} sees
 * @returns {Counts}
 */
function pattern(sees) {
  let known = "";
  let counts = new Uint8Array(0);
  return ({ memory, queries, start, causal }) => {
    const keys = memory.length;
    const wanted = [queries, keys, start, causal].join();
    if (wanted === known) return counts;
    counts = new Uint8Array(queries * keys);
    for (let i = 0; i < queries; i++) {
      for (let j = 0; j < keys; j++) if (sees(start + i, j, keys, causal)) counts[i * keys + j] = 1;
    }
    known = wanted;
    return counts;
  };
}

/**
 * A window, and the first tokens, which are global: seen by all, and, without a causal mask, seeing all.
 * @param {number} window
 * @param {number} globals
 */
function windowed(window, globals) {
  return pattern((query, key, keys, causal) => Math.abs(query - key) <= window || key < globals || (query < globals && !causal));
}

/**
 * Blocks of tokens: those beside the own one, the first ones, which are global, and drawn ones.
 * @param {any} config
 * @param {Float32Array | null} drawn (blocks, random_blocks)
 */
function bigbird({ window, global_tokens, random_blocks, attention_block: size }, drawn) {
  const beside = Math.ceil(window / size);
  const globals = Math.ceil(global_tokens / size);

  /** @param {number} block @param {number} keys @param {boolean} causal */
  function further(block, keys, causal) {
    if (!drawn) return [];
    if ((block + 1) * random_blocks > drawn.length) throw new InputError("the text is too long for this page");
    const before = Math.max(0, block - beside - globals);
    const after = Math.max(block + beside + 1, globals);
    const count = before + (causal ? 0 : Math.max(0, Math.ceil(keys / size) - after));
    return Array.from({ length: random_blocks }, (_, part) => {
      const begin = Math.floor((part * count) / random_blocks);
      const room = Math.floor(((part + 1) * count) / random_blocks) - begin;
      const spread = begin + Math.min(Math.floor(drawn[block * random_blocks + part] * room), Math.max(0, room - 1));
      const index = count > random_blocks ? spread : part;
      if (index >= count) return -1;
      return index + (index < before ? globals : after - before);
    });
  }

  /** @type {Map<string, number[]>} */
  const found = new Map();
  return pattern((query, key, keys, causal) => {
    const [own, other] = [Math.floor(query / size), Math.floor(key / size)];
    if (Math.abs(own - other) <= beside || other < globals || (own < globals && !causal)) return true;
    const name = `${own},${causal ? "" : keys}`;
    if (!found.has(name)) found.set(name, further(own, keys, causal));
    return /** @type {number[]} */ (found.get(name)).includes(other);
  });
}

/**
 * Hashing: in each round, a token sees those of its bucket that are at most `chunk` places away among them.
 * @param {any} config
 * @param {Float32Array | null} rotations (H, R, K, buckets / 2)
 * @returns {Counts}
 */
function reformer({ hash_buckets: buckets, hash_rounds: rounds, hash_chunk: chunk }, rotations) {
  const half = buckets / 2;

  /** The bucket of every key in a round. @param {Asked} asked @param {number} round */
  function hashes({ memory, head, dK }, round) {
    const found = new Uint32Array(memory.length);
    if (!rotations) return found;
    const rotated = new Float32Array(half);
    for (let key = 0; key < memory.length; key++) {
      rotated.fill(0);
      for (let k = 0; k < dK; k++) {
        const value = memory.k[key * memory.keyWidth + head * dK + k];
        const row = ((head * rounds + round) * dK + k) * half;
        for (let b = 0; b < half; b++) rotated[b] += value * rotations[row + b];
      }
      let best = -Infinity;
      for (let b = 0; b < buckets; b++) {
        const value = b < half ? rotated[b] : -rotated[b - half];
        if (value > best) [best, found[key]] = [value, b];
      }
    }
    return found;
  }

  return (asked) => {
    const { memory, queries, start, causal } = asked;
    const keys = memory.length;
    const counts = new Uint8Array(queries * keys);
    for (let round = 0; round < rounds; round++) {
      const bucket = hashes(asked, round);
      const place = new Uint32Array(keys); // among those of the bucket
      const seen = new Uint32Array(buckets);
      for (let key = 0; key < keys; key++) place[key] = seen[bucket[key]]++;
      for (let i = 0; i < queries; i++) {
        const own = start + i;
        for (let j = 0; j < (causal ? own : keys); j++) {
          if (j !== own && bucket[j] === bucket[own] && Math.abs(place[j] - place[own]) <= chunk) counts[i * keys + j]++;
        }
      }
    }
    for (let i = 0; i < queries; i++) { // a token sees itself only if it sees no other
      const row = counts.subarray(i * keys, (i + 1) * keys);
      if (!row.some(Boolean)) row[start + i] = 1;
    }
    return counts;
  };
}

/**
 * The counts of a kind of attention; null for full attention.
 * @param {any} config of the model
 * @param {string} kind
 * @param {Weights} weights
 * @param {string} name of the attention
 * @returns {Counts | null}
 */
export function countsOf(config, kind, weights, name) {
  const constant = (/** @type {string} */ which) => (weights.has(`${name}.${which}`) ? weights.tensor(`${name}.${which}`) : null);
  if (kind === "window") return windowed(config.window, 0);
  if (kind === "longformer") return windowed(config.window, config.global_tokens);
  if (kind === "bigbird") return bigbird(config, constant("drawn"));
  if (kind === "reformer") return reformer(config, constant("rotations"));
  return null;
}

/** Linformer: keys and values are projected along the length. */
export class LengthProjection {
  /**
   * @param {Weights} weights
   * @param {string} name of the attention
   */
  constructor(weights, name) {
    const [most, longest] = weights.shape(`${name}.project_keys`);
    this.most = most;
    this.longest = longest;
    this.keys = weights.tensor(`${name}.project_keys`); // E
    this.values = weights.tensor(`${name}.project_values`); // F
  }

  /** How many projected keys a text of so many tokens has. @param {number} length */
  slots(length) {
    if (length > this.longest) throw new InputError(`${length} tokens are more than the ${this.longest} that this model can read`);
    return Math.min(this.most, length);
  }

  /**
   * The position in the middle of the part of a text that a projected key stands for.
   * @param {number} slot
   * @param {number} length
   */
  middle(slot, length) {
    const parts = Math.max(1, Math.min(length, this.slots(length)));
    return Math.floor((Math.floor(((2 * slot + 1) * length) / parts) - 1) / 2);
  }

  /**
   * (S, width) from the features of one head of all positions.
   * @param {Float32Array} projection
   * @param {Float32Array} data
   * @param {{length: number, stride: number, from: number, width: number}} place
   */
  project(projection, data, { length, stride, from, width }) {
    const slots = this.slots(length);
    const out = new Float32Array(slots * width);
    for (let slot = 0; slot < slots; slot++) {
      for (let j = 0; j < length; j++) {
        const share = projection[slot * this.longest + j];
        for (let d = 0; d < width; d++) out[slot * width + d] += share * data[j * stride + from + d];
      }
    }
    return out;
  }

  /**
   * What each token has in the values that a query takes, as shares of one: from weights of the projected keys.
   * @param {Float32Array} weights (S)
   * @param {number} length
   */
  shares(weights, length) {
    const out = new Float32Array(length);
    let total = 0;
    for (let j = 0; j < length; j++) {
      for (let slot = 0; slot < weights.length; slot++) out[j] += weights[slot] * Math.abs(this.values[slot * this.longest + j]);
      total += out[j];
    }
    return total ? out.map((share) => share / total) : out;
  }
}

/**
 * Reformer's keys: queries (L, H·K), each made as long as √K.
 * @param {import("./matrix.js").Matrix} q
 * @param {number} dK
 */
export function keysOfQueries(q, dK) {
  const data = new Float32Array(q.data.length);
  for (let at = 0; at < data.length; at += dK) {
    const scale = Math.sqrt(dK) / Math.max(1e-12, Math.sqrt(dot(q.data, at, q.data, at, dK)));
    for (let k = at; k < at + dK; k++) data[k] = q.data[k] * scale;
  }
  return { data, shape: q.shape };
}
