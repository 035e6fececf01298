/** Text ↔ token ids, equal to `text/tokenizer.py`: added tokens, normalizer, pre-tokenizer, model and decoder of a tokenizer.json. */

import { AlignedText, literally } from "./aligned_text.js";
import { buildDecoder, shownBytes } from "./decoders.js";
import { buildNormalizer } from "./normalizers.js";
import { buildPreTokenizer } from "./pre_tokenizers.js";
import { buildTokenModel } from "./token_models.js";
import { SPACE, WORD } from "./unicode_classes.js";

/** @typedef {{id: number, content: string, special: boolean, normalized: boolean, lstrip: boolean, rstrip: boolean,
 *   single_word: boolean}} AddedToken */

export class Tokenizer {
  /** @param {{json: any, special: Record<string, number>, spaced: boolean, size: number}} given of the model file */
  constructor({ json, special, spaced, size }) {
    this.size = size;
    this.spaced = spaced;
    this.pad = special.pad;
    this.unk = special.unk;
    this.bos = special.bos;
    this.eos = special.eos;
    /** @type {number | null} */
    this.mask = special.mask ?? null;
    /** @type {Map<string, number>} */
    this.ids = new Map(Array.isArray(json.model.vocab) // unigrams are numbered by their places, and have scores
      ? json.model.vocab.map((/** @type {[string, number]} */ [piece], /** @type {number} */ id) => [piece, id]) : Object.entries(json.model.vocab));
    /** @type {string[]} */
    this.names = [];
    for (const [token, id] of this.ids) this.names[id] = token;
    this.special = new Set();
    /** @type {AddedToken[]} */
    const added = json.added_tokens;
    for (const token of added) {
      this.ids.set(token.content, token.id);
      this.names[token.id] = token.content;
      if (token.special) this.special.add(token.content);
    }
    // A text that happens to contain "</s>" is encoded as text, not as the end of a sentence.
    this.plain = added.filter((token) => !token.special && token.content);
    this.normalize = buildNormalizer(json.normalizer);
    this.preTokenize = buildPreTokenizer(json.pre_tokenizer);
    this.model = buildTokenModel(json.model);
    this.decodeTokens = buildDecoder(json.decoder);
    this.before = finder(this.plain.filter((token) => !token.normalized), (text) => text);
    this.after = finder(this.plain.filter((token) => token.normalized), (text) => this.normalize(AlignedText.of(text)).text);
  }

  /**
   * Ids, and for each the span of the text that it covers, in UTF-16 units. Special tokens are never added.
   * @param {string} text
   * @returns {{ids: number[], offsets: [number, number][]}}
   */
  encodeWithOffsets(text) {
    /** @type {number[]} */
    const ids = [];
    /** @type {[number, number][]} */
    const offsets = [];
    const add = (/** @type {AddedToken} */ token, /** @type {AlignedText} */ part) => {
      ids.push(token.id);
      offsets.push([part.starts[0], part.ends[part.length - 1]]);
    };
    for (const outer of this.before(AlignedText.of(text))) {
      if (outer.token) {
        add(outer.token, outer.part);
        continue;
      }
      for (const { part, token } of this.after(this.normalize(outer.part))) {
        if (token) add(token, part);
        else for (const word of part.length ? this.preTokenize(part) : []) this.words(word, ids, offsets);
      }
    }
    return { ids, offsets };
  }

  /**
   * @param {AlignedText} word
   * @param {number[]} ids
   * @param {[number, number][]} offsets
   */
  words(word, ids, offsets) {
    if (!word.length) return;
    for (const { id, first, last } of this.model(word.chars)) {
      ids.push(id);
      offsets.push([word.starts[first], word.ends[last - 1]]);
    }
  }

  /** @param {string} text */
  encode(text) {
    return this.encodeWithOffsets(text).ids;
  }

  /**
   * Words → ids, and for each the index of its word.
   * @param {string[]} words
   */
  encodeWords(words) {
    /** @type {number[]} */
    const ids = [];
    /** @type {number[]} */
    const wordOf = [];
    words.forEach((word, index) => {
      for (const id of this.encode(index && this.spaced ? ` ${word}` : word)) {
        ids.push(id);
        wordOf.push(index);
      }
    });
    return { ids, wordOf };
  }

  /**
   * Ids → text, without special tokens.
   * @param {number[]} ids
   */
  decode(ids) {
    const tokens = ids.map((id) => this.names[id]).filter((token) => token !== undefined && !this.special.has(token));
    return this.decodeTokens(tokens).join("");
  }

  /**
   * Each token as text, for display.
   * @param {number[]} ids
   */
  tokens(ids) {
    return ids.map((id) => {
      const name = this.names[id] ?? "None";
      const text = (this.spaced && this.decode([id])) || name;
      return this.spaced && text.includes("\ufffd") ? shownBytes(name) ?? text : text;
    });
  }

  /**
   * The id of a token by its name or by the text it stands for, or null.
   * @param {string} text
   * @returns {number | null}
   */
  find(text) {
    const known = this.ids.get(text);
    if (known !== undefined) return known;
    const ids = this.encode(text);
    return ids.length === 1 ? ids[0] : null;
  }

  /**
   * Tokens whose text begins with a prefix, for choosing one.
   * @param {string} prefix
   * @param {number} [count]
   */
  search(prefix, count = 10) {
    const found = [];
    const wanted = prefix.trimStart().toLowerCase();
    for (let id = 0; id < this.names.length && found.length < count; id++) {
      if (this.names[id] === undefined || this.special.has(this.names[id])) continue;
      const [text] = this.tokens([id]);
      if (text.trimStart().toLowerCase().startsWith(wanted)) found.push({ id, text });
    }
    return found;
  }
}

/**
 * Finds added tokens in a text: the leftmost first, and the longest of those.
 * @param {AddedToken[]} tokens
 * @param {(text: string) => string} written how a token's content stands in the text
 * @returns {(text: AlignedText) => {part: AlignedText, token: AddedToken | null}[]}
 */
function finder(tokens, written) {
  const byText = new Map(tokens.map((token) => [written(token.content), token]));
  byText.delete("");
  if (!byText.size) return (text) => [{ part: text, token: null }];
  const sorted = [...byText.keys()].sort((a, b) => b.length - a.length);
  const pattern = new RegExp(sorted.map(literally).join("|"), "gu");
  return (text) => {
    const found = [];
    let end = 0;
    for (let { first, last } of text.matches(pattern)) {
      const token = /** @type {AddedToken} */ (byText.get(text.slice(first, last).text));
      if (first < end) continue;
      if (token.single_word && (WORD.test(text.chars[first - 1] ?? "") || WORD.test(text.chars[last] ?? ""))) continue;
      if (token.lstrip) while (first > end && SPACE.test(text.chars[first - 1])) first--;
      if (token.rstrip) while (last < text.length && SPACE.test(text.chars[last])) last++;
      if (first > end) found.push({ part: text.slice(end, first), token: null });
      found.push({ part: text.slice(first, last), token });
      end = last;
    }
    if (end < text.length || !found.length) found.push({ part: text.slice(end, text.length), token: null });
    return found;
  };
}
