/** Tokens as a reader sees them: their text, and the word that each belongs to. See `explain/tokens.py`. */

import { numbersWithin, wordSpans } from "./words.js";

/**
 * @typedef {import("./tokenizer.js").Tokenizer} Tokenizer
 * @typedef {{id: number | null, text: string, special: boolean, word: number | null}} Token
 */

export const BEGIN = "⟨begin⟩";
export const END = "⟨end⟩";

/** @param {number | null} id @param {string} text @returns {Token} */
export function special(id, text) {
  return { id, text, special: true, word: null };
}

/**
 * @param {Tokenizer} tokenizer
 * @param {number[]} ids
 * @param {(number | null)[]} words
 * @returns {Token[]}
 */
function textTokens(tokenizer, ids, words) {
  return tokenizer.tokens(ids).map((text, index) => ({ id: ids[index], text, special: false, word: words[index] }));
}

/**
 * The tokens of a text that a model reads, at most so many.
 * @param {Tokenizer} tokenizer
 * @param {string} text
 * @param {number} [longest]
 */
export function encodedTokens(tokenizer, text, longest = Infinity) {
  const { ids, offsets } = tokenizer.encodeWithOffsets(text);
  const words = numbersWithin(wordSpans(text), offsets);
  return textTokens(tokenizer, ids.slice(0, longest), words);
}

/**
 * The tokens that a model wrote.
 * @param {Tokenizer} tokenizer
 * @param {number[]} ids
 */
export function writtenTokens(tokenizer, ids) {
  const text = tokenizer.decode(ids);
  const ends = ids.map((_, count) => Math.min(text.length, tokenizer.decode(ids.slice(0, count + 1)).length));
  const spans = ends.map((end, index) => /** @type {[number, number]} */ ([index ? ends[index - 1] : 0, Math.max(index ? ends[index - 1] : 0, end)]));
  return textTokens(tokenizer, ids, numbersWithin(wordSpans(text), spans));
}

/**
 * Special tokens called what BERT calls them; they belong to no word.
 * @param {Tokenizer} tokenizer
 * @param {Token[]} tokens
 */
export function named(tokenizer, tokens) {
  const names = new Map([[tokenizer.bos, "[CLS]"], [tokenizer.eos, "[SEP]"], [tokenizer.mask, "[MASK]"]]);
  return tokens.map((token) => (names.has(token.id) ? special(token.id, /** @type {string} */ (names.get(token.id))) : token));
}

/**
 * The tokens of two texts with [SEP] between them; the words of the second are counted on.
 * @param {Tokenizer} tokenizer
 * @param {Token[]} left
 * @param {Token[]} right
 */
export function joined(tokenizer, left, right) {
  return [...left, special(tokenizer.eos, "[SEP]"), ...countedOn(left, right, 0)];
}

/**
 * @param {Token[]} left
 * @param {Token[]} right
 * @param {number} shared 1 if the two share a word
 */
export function countedOn(left, right, shared) {
  const words = 1 + left.reduce((most, { word }) => Math.max(most, word ?? -1), -1) - shared;
  return right.map((token) => (token.word === null ? token : { ...token, word: token.word + words }));
}

/**
 * The tokens of a sequence after its replacements and in the order asked for.
 * @param {import("./interventions.js").Interventions} act
 * @param {string} sequence
 * @param {Token[]} tokens
 * @param {Tokenizer} tokenizer
 * @param {number} vocabulary
 */
export function changedTokens(act, sequence, tokens, tokenizer, vocabulary) {
  const places = act.order(sequence, tokens.map((_, place) => place));
  const before = tokens.map(({ id }) => /** @type {number} */ (id));
  const ids = act.sequence(sequence, before, vocabulary);
  return places.map((place, index) => {
    const id = ids[index];
    return id === before[place] ? tokens[place] : { ...tokens[place], id, text: tokenizer.tokens([id])[0], special: false };
  });
}
