/** Multi-head attention (Section 3.2): projections, heads, rotary positions and the cache of keys and values. */

import { countsOf, keysOfQueries, LengthProjection } from "./attention_kinds.js";
import { apply, dot, matrix, part, rows, softmax } from "./matrix.js";

/**
 * @typedef {import("./matrix.js").Matrix} Matrix
 * @typedef {import("./matrix.js").Turns} Turns
 * @typedef {import("./interventions.js").Interventions} Interventions
 * @typedef {"nothing" | "weights" | "everything"} Record  what is kept for looking inside
 * @typedef {{turns: Turns, act: Interventions, record: Record}} Run
 * @typedef {{weights: Matrix, scores: Matrix, [more: string]: any}} AttentionRecord  see engine/README.md
 */

/** Keys (L, H·K) and values (L, H·V) of all positions so far. */
export class KeyValues {
  /**
   * @param {number} keyWidth
   * @param {number} valueWidth
   */
  constructor(keyWidth, valueWidth) {
    this.keyWidth = keyWidth;
    this.valueWidth = valueWidth;
    this.length = 0;
    this.k = new Float32Array(0);
    this.v = new Float32Array(0);
  }

  /**
   * @param {Matrix} k
   * @param {Matrix} v
   */
  append(k, v) {
    const end = this.length + k.shape[0];
    if (end * this.keyWidth > this.k.length) {
      const capacity = Math.max(16, 2 * end);
      this.k = enlarged(this.k, this.length * this.keyWidth, capacity * this.keyWidth);
      this.v = enlarged(this.v, this.length * this.valueWidth, capacity * this.valueWidth);
    }
    this.k.set(k.data, this.length * this.keyWidth);
    this.v.set(v.data, this.length * this.valueWidth);
    this.length = end;
  }

  /** The first `length` positions of a copy; without a length, all. */
  copy(length = this.length) {
    const copy = new KeyValues(this.keyWidth, this.valueWidth);
    copy.length = length;
    copy.k = enlarged(this.k, length * this.keyWidth, (length + 16) * this.keyWidth);
    copy.v = enlarged(this.v, length * this.valueWidth, (length + 16) * this.valueWidth);
    return copy;
  }
}

/**
 * @param {Float32Array} values
 * @param {number} filled
 * @param {number} capacity
 */
function enlarged(values, filled, capacity) {
  const larger = new Float32Array(capacity);
  larger.set(values.subarray(0, filled));
  return larger;
}

/** MultiHead(Q, K, V) = Concat(head_1, …, head_H) W_O, where head_i = Attention(Q W_Qi, K W_Ki, V W_Vi). */
export class Attention {
  /**
   * @param {import("./weights.js").Weights} weights
   * @param {string} name
   * @param {{part: string, layer: number, heads: number, dK: number, dV: number,
   *   positions?: import("./positions.js").AttentionPositions | null, kind?: string, config?: any}} shape
   */
  constructor(weights, name, shape) {
    const { heads, dK, dV } = shape;
    this.part = shape.part;
    this.layer = shape.layer;
    this.heads = heads;
    this.dK = dK;
    this.dV = dV;
    this.positions = shape.positions ?? null;
    const { kind = "full", config } = shape;
    this.counts = countsOf(config, kind, weights, `${name}.attend`);
    this.along = kind === "linformer" ? new LengthProjection(weights, `${name}.attend`) : null;
    const stacked = weights.linear(`${name}.project_in`); // W_Q, W_K, W_V; Reformer has no W_K
    const ownKeys = kind === "reformer" ? 0 : heads * dK;
    this.query = part(stacked, 0, heads * dK);
    this.keys = ownKeys ? part(stacked, heads * dK, heads * dK + ownKeys) : null;
    this.values = part(stacked, heads * dK + ownKeys, stacked.outputs);
    this.out = weights.linear(`${name}.project_out`); // W_O
  }

  /** An empty cache. */
  cache() {
    return new KeyValues(this.heads * this.dK, this.heads * this.dV);
  }

  /**
   * The keys and values of a memory (Lk, D).
   * @param {Run} run
   * @param {Matrix} memory
   */
  async memory(run, memory) {
    const found = this.cache();
    const keys = /** @type {import("./matrix.js").Linear} */ (this.keys);
    found.append(await apply(run.turns, memory, keys), await apply(run.turns, memory, this.values));
    return found;
  }

  /**
   * Attend from x (Lq, D) to the positions of a cache and x itself, which is added to it.
   * @param {Run} run
   * @param {Matrix} x
   * @param {{causal?: boolean, cache?: KeyValues}} options
   */
  async toSelf(run, x, { causal = false, cache = this.cache() }) {
    const start = cache.length;
    const { q, k } = this.turned(run, await apply(run.turns, x, this.query), this.keys && (await apply(run.turns, x, this.keys)), start);
    cache.append(k, await apply(run.turns, x, this.values));
    return this.attend(run, x, q, cache, causal && run.act.causal, start);
  }

  /**
   * Queries and keys rotated to their positions, where these are rotary; without keys of its own, those that queries make.
   * @param {Run} run
   * @param {Matrix} q
   * @param {Matrix | null} k
   * @param {number} start
   */
  turned(run, q, k, start) {
    const rotate = run.act.positions ? this.positions?.rotate : undefined;
    const turn = (/** @type {Matrix} */ one) => (rotate ? rotate(one, this.heads, start) : one);
    const queries = turn(q);
    return { q: queries, k: k ? turn(k) : keysOfQueries(queries, this.dK) };
  }

  /**
   * Attend from x (Lq, D) to a memory.
   * @param {Run} run
   * @param {Matrix} x
   * @param {KeyValues} memory
   */
  async toMemory(run, x, memory) {
    return this.attend(run, x, await apply(run.turns, x, this.query), memory, false, 0);
  }

  /**
   * softmax(Q Kᵀ / √d_k) V, Equation 1, of every head, and W_O.
   * @param {Run} run
   * @param {Matrix} x
   * @param {Matrix} q (Lq, H·K)
   * @param {KeyValues} memory
   * @param {boolean} causal
   * @param {number} start position of the first query
   * @returns {Promise<{output: Matrix, record: AttentionRecord | null}>}
   */
  async attend(run, x, q, memory, causal, start) {
    const queries = q.shape[0];
    const all = matrix([queries, this.heads * this.dV]); // the heads side by side
    const kept = run.record === "nothing" ? null : recordOf(run, this.heads, queries, memory.length, this.divisor(run));
    await this.weigh(run, q, memory, causal, start, all.data, kept);
    const output = await apply(run.turns, all, this.out);
    if (kept && run.record === "everything") this.complete(kept, x, q, memory, all, output);
    return { output, record: kept };
  }

  /** @param {Run} run */
  divisor(run) {
    return run.act.divisor(this.part, Math.fround(Math.sqrt(this.dK)));
  }

  /**
   * The values weighted by the softmax of the scores, for each head, added to `all` (Lq, H·V).
   * @param {Run} run
   * @param {Matrix} q
   * @param {KeyValues} memory
   * @param {boolean} causal
   * @param {number} start
   * @param {Float32Array} all
   * @param {AttentionRecord | null} kept
   */
  async weigh(run, q, memory, causal, start, all, kept) {
    if (this.along) return this.weighAlong(run, q, memory, this.along, all, kept);
    const { heads, dK, dV } = this;
    const queries = q.shape[0];
    const keys = memory.length;
    const { k, v, keyWidth, valueWidth } = memory;
    const divisor = this.divisor(run);
    const bias = run.act.positions ? this.positions?.bias : undefined;
    const row = new Float32Array(keys);
    for (let head = 0; head < heads; head++) {
      const off = run.act.headOff(this.part, this.layer, head + 1);
      const counts = this.counts?.({ memory, head, dK, queries, start, causal }) ?? null;
      for (let i = 0; i < queries; i++) {
        const at = i * keyWidth + head * dK;
        const visible = causal ? Math.min(keys, start + i + 1) : keys;
        const computed = kept ? keys : visible;
        for (let j = 0; j < computed; j++) {
          if (!kept && counts && !counts[i * keys + j]) continue;
          const product = dot(q.data, at, k, j * keyWidth + head * dK, dK);
          row[j] = product / divisor + (bias ? bias(q.data, at, head, start + i, j, divisor) : 0);
          if (kept?.products) kept.products.data[(head * queries + i) * keys + j] = product;
        }
        if (kept) kept.scores.data.set(row, (head * queries + i) * keys);
        if (counts) for (let j = 0; j < visible; j++) seeOften(row, j, counts[i * keys + j]);
        if (kept) keepMasked(kept, row, (head * queries + i) * keys, visible);
        softmax(row, 0, visible);
        if (kept) kept.weights.data.set(row.subarray(0, visible), (head * queries + i) * keys);
        if (off) continue;
        const into = i * heads * dV + head * dV;
        for (let j = 0; j < visible; j++) {
          const weight = row[j];
          if (!weight) continue;
          const from = j * valueWidth + head * dV;
          for (let d = 0; d < dV; d++) all[into + d] += weight * v[from + d];
        }
        if (run.turns.due) await run.turns.pause();
      }
    }
  }

  /**
   * The same with keys and values projected along the length. What is kept are the shares of the tokens in it.
   * @param {Run} run
   * @param {Matrix} q
   * @param {KeyValues} memory
   * @param {LengthProjection} along
   * @param {Float32Array} all
   * @param {AttentionRecord | null} kept
   */
  async weighAlong(run, q, memory, along, all, kept) {
    const { heads, dK, dV } = this;
    const [queries] = q.shape;
    const { length, keyWidth, valueWidth } = memory;
    const divisor = this.divisor(run);
    const bias = run.act.positions ? this.positions?.bias : undefined;
    const row = new Float32Array(along.slots(length));
    for (let head = 0; head < heads; head++) {
      const keys = along.project(along.keys, memory.k, { length, stride: keyWidth, from: head * dK, width: dK });
      const values = along.project(along.values, memory.v, { length, stride: valueWidth, from: head * dV, width: dV });
      for (let i = 0; i < queries; i++) {
        const at = i * keyWidth + head * dK;
        for (let slot = 0; slot < row.length; slot++) {
          row[slot] = dot(q.data, at, keys, slot * dK, dK) / divisor;
          if (bias) row[slot] += bias(q.data, at, head, i, along.middle(slot, length), divisor);
        }
        softmax(row, 0, row.length);
        if (kept) {
          const place = (head * queries + i) * length;
          for (let j = 0; j < length; j++) {
            const product = dot(q.data, at, memory.k, j * keyWidth + head * dK, dK);
            kept.scores.data[place + j] = product / divisor;
            if (kept.products) kept.products.data[place + j] = product;
          }
          kept.masked?.data.set(kept.scores.data.subarray(place, place + length), place);
          kept.weights.data.set(along.shares(row, length), place);
        }
        if (!run.act.headOff(this.part, this.layer, head + 1)) {
          const into = i * heads * dV + head * dV;
          for (let slot = 0; slot < row.length; slot++) {
            for (let d = 0; d < dV; d++) all[into + d] += row[slot] * values[slot * dV + d];
          }
        }
        if (run.turns.due) await run.turns.pause();
      }
    }
  }

  /**
   * The same for the newest positions of several hypotheses, x (R, D), each with a cache (or a memory) of its own: the matrices
   * are read once for all of them.
   * @param {Run} run
   * @param {Matrix} x
   * @param {KeyValues[]} each
   * @param {boolean} toSelf
   */
  async newest(run, x, each, toSelf) {
    const { turns } = run;
    const q = await apply(turns, x, this.query);
    const k = toSelf && this.keys ? await apply(turns, x, this.keys) : null;
    const v = toSelf ? await apply(turns, x, this.values) : null;
    const width = this.heads * this.dV;
    const all = matrix([each.length, width]);
    for (const [row, memory] of each.entries()) {
      const start = memory.length;
      const own = (/** @type {Matrix} */ matrix) => rows(matrix, row, row + 1);
      let query = own(q);
      if (v) {
        const turned = this.turned(run, query, k && own(k), start);
        memory.append(turned.k, own(v));
        query = turned.q;
      }
      await this.weigh(run, query, memory, toSelf, start, all.data.subarray(row * width, (row + 1) * width), null);
    }
    return { output: await apply(turns, all, this.out), record: null };
  }

  /**
   * Everything else that can be looked at.
   * @param {AttentionRecord} kept
   * @param {Matrix} x
   * @param {Matrix} q
   * @param {KeyValues} memory
   * @param {Matrix} all
   * @param {Matrix} output
   */
  complete(kept, x, q, memory, all, output) {
    const { heads } = this;
    Object.assign(kept, {
      input: x,
      q: byHead(q.data, q.shape[0], heads),
      k: byHead(memory.k.subarray(0, memory.length * memory.keyWidth), memory.length, heads),
      v: byHead(memory.v.subarray(0, memory.length * memory.valueWidth), memory.length, heads),
      heads: byHead(all.data, all.shape[0], heads),
      output,
    });
    /** @type {Matrix | null} */
    let parts = null;
    Object.defineProperty(kept, "parts", { enumerable: true, get: () => (parts ??= this.parts(all)) });
  }

  /**
   * What each head adds to the output: (H, Lq, D); together with the bias of W_O they are the output.
   * @param {Matrix} all (Lq, H·V)
   */
  parts(all) {
    const { heads, dV, out } = this;
    const queries = all.shape[0];
    const found = matrix([heads, queries, out.outputs]);
    for (let head = 0; head < heads; head++) {
      for (let i = 0; i < queries; i++) {
        for (let o = 0; o < out.outputs; o++) {
          found.data[(head * queries + i) * out.outputs + o] = dot(
            all.data, i * heads * dV + head * dV, out.weight, o * out.inputs + head * dV, dV,
          );
        }
      }
    }
    return found;
  }
}

/**
 * Room for the scores and weights (H, Lq, Lk) that are kept.
 * @param {Run} run
 * @param {number} heads
 * @param {number} queries
 * @param {number} keys
 * @param {number} divisor
 * @returns {AttentionRecord}
 */
export function recordOf(run, heads, queries, keys, divisor) {
  const shape = [heads, queries, keys];
  /** @type {AttentionRecord} */
  const kept = { weights: matrix(shape), scores: matrix(shape) };
  if (run.record === "everything") Object.assign(kept, { products: matrix(shape), masked: matrix(shape), divisor });
  return kept;
}

/**
 * @param {AttentionRecord} kept
 * @param {Float32Array} row
 * @param {number} at
 * @param {number} visible
 */
export function keepMasked(kept, row, at, visible) {
  if (!kept.masked) return;
  kept.masked.data.set(row, at);
  kept.masked.data.fill(-Infinity, at + visible, at + row.length);
}

/**
 * The score of a key that counts so often in a softmax; one that does not count is not seen.
 * @param {Float32Array} row
 * @param {number} key
 * @param {number} count
 */
function seeOften(row, key, count) {
  if (!count) row[key] = -Infinity;
  else if (count > 1) row[key] += Math.log(count);
}

/**
 * Rows (L, H·W) → (H, L, W).
 * @param {Float32Array} data
 * @param {number} length
 * @param {number} heads
 */
function byHead(data, length, heads) {
  const width = data.length / length / heads;
  const out = matrix([heads, length, width]);
  for (let head = 0; head < heads; head++) {
    for (let i = 0; i < length; i++) {
      const from = (i * heads + head) * width;
      out.data.set(data.subarray(from, from + width), (head * length + i) * width);
    }
  }
  return out;
}
