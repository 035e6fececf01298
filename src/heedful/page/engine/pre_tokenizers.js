/** Pre-tokenizers of Hugging Face's tokenizers: text in words, before each is split into tokens. */

import { literally } from "./aligned_text.js";
import { PUNCTUATION, WORDS_OF_GPT2 } from "./unicode_classes.js";

/**
 * @typedef {import("./aligned_text.js").AlignedText} AlignedText
 * @typedef {(text: AlignedText) => AlignedText[]} PreTokenizer
 */

const encoder = new TextEncoder();

/** The character that stands for each byte: visible ones for themselves, the others from U+0100 on. */
export const BYTE_CHARS = byteChars();

function byteChars() {
  const chars = [];
  let next = 256;
  for (let byte = 0; byte < 256; byte++) {
    const visible = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    chars.push(String.fromCharCode(visible ? byte : next++));
  }
  return chars;
}

/**
 * A pattern of Oniguruma as JavaScript reads it: `\s`, `\d` and `\w` mean all of Unicode.
 * @param {string} pattern
 */
function translated(pattern) {
  /** @type {Record<string, string>} */
  const classes = {
    "-": "\\x2d", A: "(?<![\\s\\S])", z: "(?![\\s\\S])", s: "\\p{White_Space}", S: "\\P{White_Space}", d: "\\p{Nd}", D: "\\P{Nd}", w: "[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}]",
  };
  const known = "^$\\.*+?()[]{}|/bBdDswWSpPtnrvfuxk0123456789";
  const inside = pattern.replace(/\\([\s\S])/g, (whole, /** @type {string} */ letter) => {
    if (letter in classes) return classes[letter];
    return known.includes(letter) ? whole : letter;
  });
  return new RegExp(inside, "gmu");
}

/**
 * Split at what a pattern matches.
 * @param {AlignedText} text
 * @param {RegExp} pattern
 * @param {string} behavior
 * @param {boolean} invert
 * @returns {AlignedText[]}
 */
function split(text, pattern, behavior, invert) {
  /** @type {{first: number, last: number, match: boolean}[]} */
  let parts = [];
  let end = 0;
  for (const { first, last } of text.matches(pattern)) {
    if (first > end) parts.push({ first: end, last: first, match: invert });
    if (last > first) parts.push({ first, last, match: !invert });
    end = Math.max(end, last);
  }
  if (end < text.length) parts.push({ first: end, last: text.length, match: invert });
  if (behavior === "Removed") parts = parts.filter((part) => !part.match);
  if (behavior === "Contiguous") parts = joined(parts, (before, part) => before.match === part.match);
  if (behavior === "MergedWithPrevious") parts = joined(parts, (before, part) => part.match && !before.match);
  if (behavior === "MergedWithNext") {
    parts.reverse();
    parts = joined(parts, (after, part) => part.match && !after.match).reverse();
  }
  return parts.map(({ first, last }) => text.slice(first, last));
}

/**
 * Neighbours joined; the result of a join counts as what its last part was.
 * @param {{first: number, last: number, match: boolean}[]} parts
 * @param {(before: {match: boolean}, part: {match: boolean}) => boolean} together
 */
function joined(parts, together) {
  const found = [];
  let before = null;
  for (const part of parts) {
    const last = found[found.length - 1];
    if (before && last && together(before, part)) {
      last.first = Math.min(last.first, part.first);
      last.last = Math.max(last.last, part.last);
    } else found.push({ ...part });
    before = part;
  }
  return found;
}

/**
 * @param {any} part
 * @returns {PreTokenizer}
 */
function byteLevel(part) {
  return (text) => {
    const whole = text.slice(0, text.length);
    if (part.add_prefix_space && text.chars[0] !== " ") whole.unshift(" ");
    const words = part.use_regex === false ? [whole] : split(whole, WORDS_OF_GPT2, "Isolated", false);
    return words.map((word) => word.map((char) => [...encoder.encode(char)].map((byte) => BYTE_CHARS[byte])));
  };
}

/**
 * The pattern of a part of a tokenizer.json: a regular expression, or a text as it is.
 * @param {{Regex?: string, String?: string}} pattern
 */
export function patternOf({ Regex, String: text }) {
  return Regex !== undefined ? translated(Regex) : new RegExp(literally(text ?? ""), "gu");
}

/**
 * SentencePiece's: a sign in the place of every space, and one before the text.
 * @param {any} part
 * @returns {PreTokenizer}
 */
function metaspace({ replacement, prepend_scheme: scheme, split: apart }) {
  const sign = new RegExp(literally(replacement), "gu");
  return (text) => {
    const marked = text.map((char) => (char === " " ? replacement : [char]));
    const wanted = scheme === "always" || (scheme === "first" && text.starts[0] === 0);
    if (wanted && marked.chars[0] !== replacement) marked.unshift(replacement);
    return apart === false ? [marked] : split(marked, sign, "MergedWithNext", false);
  };
}

/**
 * @param {any} part of tokenizer.json
 * @returns {PreTokenizer}
 */
export function buildPreTokenizer(part) {
  if (!part) return (text) => [text];
  const by = (/** @type {RegExp} */ pattern, behavior = "Isolated", invert = false) =>
    (/** @type {AlignedText} */ text) => split(text, pattern, behavior, invert);
  const spaces = by(/\p{White_Space}/gu, "Removed");
  switch (part.type) {
    case "Sequence": {
      const steps = part.pretokenizers.map(buildPreTokenizer);
      return (text) => steps.reduce(
        (/** @type {AlignedText[]} */ found, /** @type {PreTokenizer} */ step) => found.flatMap(step), [text]);
    }
    case "ByteLevel": return byteLevel(part);
    case "BertPreTokenizer": {
      const marks = by(PUNCTUATION);
      return (text) => spaces(text).flatMap(marks);
    }
    case "Whitespace":
      return by(/[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]+|[^\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}\p{White_Space}]+/gu, "Removed", true);
    case "WhitespaceSplit": return spaces;
    case "Punctuation": return by(PUNCTUATION, part.behavior);
    case "Digits": return by(/\p{N}/gu, part.individual_digits ? "Isolated" : "Contiguous");
    case "Metaspace": return metaspace(part);
    default: return by(patternOf(part.pattern), part.behavior, part.invert); // Split
  }
}
