/** From a word to the ids of its tokens: byte-pair encoding, WordPiece, and whole words. */

import { InputError } from "./turns.js";

/**
 * @typedef {{id: number, first: number, last: number}} Token  covers the characters first … last − 1 of the word
 * @typedef {(chars: string[]) => Token[]} TokenModel
 */

/**
 * Byte-pair encoding: pairs of neighbours are merged, the one learned first before all others.
 * @param {any} model
 * @returns {TokenModel}
 */
function bpe(model) {
  /** @type {Map<string, number>} */
  const vocabulary = new Map(Object.entries(model.vocab));
  const prefix = model.continuing_subword_prefix ?? "";
  const suffix = model.end_of_word_suffix ?? "";
  /** @type {Map<number, Map<number, {rank: number, id: number}>>} */
  const merges = new Map();
  model.merges.forEach((/** @type {string | string[]} */ merge, /** @type {number} */ rank) => {
    const [left, right] = typeof merge === "string" ? merge.split(" ") : merge;
    const [a, b] = [vocabulary.get(left), vocabulary.get(right)];
    const id = vocabulary.get(left + (prefix && right.startsWith(prefix) ? right.slice(prefix.length) : right));
    if (a === undefined || b === undefined || id === undefined) return;
    if (!merges.has(a)) merges.set(a, new Map());
    /** @type {Map<number, {rank: number, id: number}>} */ (merges.get(a)).set(b, { rank, id });
  });
  const unknown = model.unk_token == null ? undefined : vocabulary.get(model.unk_token);

  /** @param {string[]} chars */
  function symbols(chars) {
    /** @type {Token[]} */
    const found = [];
    let last = /** @type {Token | null} */ (null); // an unknown one that the next unknown one may join
    chars.forEach((char, first) => {
      const text = (first ? prefix : "") + char + (first === chars.length - 1 ? suffix : "");
      const id = vocabulary.get(text);
      const covers = { first, last: first + 1 };
      const bytes = id === undefined && model.byte_fallback ? bytesOf(text, vocabulary) : null;
      const known = id !== undefined ? [id] : bytes;
      if (known) found.push(...known.map((one) => ({ id: one, ...covers })));
      else if (unknown !== undefined && last && model.fuse_unk) last.last = first + 1;
      else if (unknown !== undefined) found.push((last = { id: unknown, ...covers })); // otherwise it is left out
      if (known) last = null;
    });
    return found;
  }

  return (chars) => {
    if (model.ignore_merges) {
      const id = vocabulary.get(chars.join(""));
      if (id !== undefined) return [{ id, first: 0, last: chars.length }];
    }
    const tokens = symbols(chars);
    const pairs = tokens.map((token, index) => merges.get(token.id)?.get(tokens[index + 1]?.id));
    for (;;) {
      let best = -1;
      for (let index = 0; index + 1 < tokens.length; index++) {
        const pair = pairs[index];
        if (pair && (best < 0 || pair.rank < /** @type {{rank: number}} */ (pairs[best]).rank)) best = index;
      }
      const pair = pairs[best];
      if (!pair) return tokens;
      tokens.splice(best, 2, { id: pair.id, first: tokens[best].first, last: tokens[best + 1].last });
      pairs.splice(best + 1, 1);
      pairs[best] = merges.get(pair.id)?.get(tokens[best + 1]?.id);
      if (best) pairs[best - 1] = merges.get(tokens[best - 1].id)?.get(pair.id);
    }
  };
}

/**
 * The tokens <0x00> … of the bytes of a text, if the vocabulary has all of them.
 * @param {string} text
 * @param {Map<string, number>} vocabulary
 */
function bytesOf(text, vocabulary) {
  const found = [];
  for (const byte of new TextEncoder().encode(text)) {
    const id = vocabulary.get(`<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`);
    if (id === undefined) return null;
    found.push(id);
  }
  return found;
}

/**
 * WordPiece: the longest token that begins the word, then the longest that goes on.
 * @param {any} model
 * @returns {TokenModel}
 */
function wordPiece(model) {
  const vocabulary = new Map(Object.entries(model.vocab));
  const unknown = vocabulary.get(model.unk_token);
  return (chars) => {
    const whole = [{ id: unknown, first: 0, last: chars.length }];
    if (chars.length > model.max_input_chars_per_word) return whole;
    const found = [];
    for (let first = 0; first < chars.length; ) {
      let last = chars.length;
      let id;
      for (; last > first; last--) {
        id = vocabulary.get((first ? model.continuing_subword_prefix : "") + chars.slice(first, last).join(""));
        if (id !== undefined) break;
      }
      if (id === undefined) return whole;
      found.push({ id, first, last });
      first = last;
    }
    return found;
  };
}

/**
 * @param {any} model
 * @returns {TokenModel}
 */
function wordLevel(model) {
  const vocabulary = new Map(Object.entries(model.vocab));
  const unknown = vocabulary.get(model.unk_token);
  return (chars) => {
    const id = vocabulary.get(chars.join("")) ?? unknown;
    if (id === undefined) throw new InputError(`the vocabulary has neither “${chars.join("")}” nor a token for what it lacks`);
    return [{ id, first: 0, last: chars.length }];
  };
}

/**
 * @param {any} model of tokenizer.json
 * @returns {TokenModel}
 */
export function buildTokenModel(model) {
  const kinds = { BPE: bpe, WordPiece: wordPiece, WordLevel: wordLevel };
  return kinds[/** @type {keyof typeof kinds} */ (model.type)](model);
}
