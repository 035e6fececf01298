/** From a word to the ids of its tokens: byte-pair encoding, SentencePiece's unigrams, WordPiece, and whole words. */

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

const UNKNOWN = 10; // less than the log-probability of the rarest piece is that of a character without a piece

/**
 * Unigrams: of all ways to cut a word into pieces, the most probable one, found from left to right (Viterbi).
 * @param {{vocab: [string, number][], unk_id: number | null, byte_fallback?: boolean}} model
 * @returns {TokenModel}
 */
function unigram(model) {
  const ids = new Map(model.vocab.map(([piece], id) => [piece, id]));
  const longest = model.vocab.reduce((most, [piece]) => Math.max(most, piece.length), 1);
  const unknownScore = model.vocab.reduce((least, [, score]) => Math.min(least, score), Infinity) - UNKNOWN;
  const unknown = model.unk_id ?? undefined;

  /**
   * Where the last piece of the best way to each place begins; −1 where it is a character without a piece.
   * @param {string[]} chars
   */
  function bestWay(chars) {
    /** @type {{score: number, first: number, known: boolean}[]} */
    const ways = [{ score: 0, first: -1, known: true }];
    const reach = (/** @type {number} */ last, /** @type {number} */ first, /** @type {number} */ score, known = true) => {
      if (!ways[last] || score > ways[last].score) ways[last] = { score, first, known };
    };
    for (let first = 0; first < chars.length; first++) {
      const { score } = ways[first];
      let piece = "";
      for (let last = first + 1; last <= chars.length && piece.length < longest; last++) {
        piece += chars[last - 1];
        const id = ids.get(piece);
        if (id !== undefined) reach(last, first, score + model.vocab[id][1]);
      }
      if (!ids.has(chars[first])) reach(first + 1, first, score + unknownScore, false);
    }
    return ways;
  }

  return (chars) => {
    const ways = bestWay(chars);
    /** @type {{first: number, last: number, known: boolean}[]} */
    const parts = []; // unknown neighbours are one part
    for (let last = chars.length; last > 0; last = ways[last].first) {
      const { first, known } = ways[last];
      const after = parts[0];
      if (after && !known && !after.known) after.first = first;
      else parts.unshift({ first, last, known });
    }
    return parts.flatMap(({ first, last }) => {
      const text = chars.slice(first, last).join("");
      const id = ids.get(text);
      const bytes = id === undefined && model.byte_fallback ? bytesOf(text, ids) : null;
      if (bytes) return bytes.map((one) => ({ id: one, first, last }));
      if (id === undefined && unknown === undefined) throw new InputError(`the vocabulary has neither “${text}” nor a token for what it lacks`);
      return [{ id: id ?? /** @type {number} */ (unknown), first, last }];
    });
  };
}

/**
 * @param {any} model of tokenizer.json
 * @returns {TokenModel}
 */
export function buildTokenModel(model) {
  const kinds = { BPE: bpe, Unigram: unigram, WordPiece: wordPiece, WordLevel: wordLevel };
  return kinds[/** @type {keyof typeof kinds} */ (model.type)](model);
}
