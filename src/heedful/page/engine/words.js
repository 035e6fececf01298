/** Words of a text in any script, equal to `data/words.py`, and white space as Python's `str` knows it. */

/** @typedef {[number, number]} Span  characters [start, end) of a text, in UTF-16 units */

const ALONE = /^[\p{Unified_Ideograph}\p{Script=Hiragana}\p{Script=Katakana}\u3006\u30fc\uff70\uf900-\ufaff\u{2f800}-\u{2fa1f}]$/u;
const LETTER = /^\p{L}$/u;
const NOTHING = /^[\p{Z}\p{Cc}\p{Cf}\p{Cs}]$/u;
const DIGIT = /^\p{Nd}$/u;
const MARK = /^\p{M}$/u;
const SPACES = "\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
const ENDS = new RegExp(`^[${SPACES}]+|[${SPACES}]+$`, "g");
const BETWEEN = new RegExp(`[${SPACES}]+`);

/** A text without white space around it. @param {string} text */
export function strip(text) {
  return text.replace(ENDS, "");
}

/** The parts of a text between white space. @param {string} text */
export function spaced(text) {
  const inner = strip(text);
  return inner ? inner.split(BETWEEN) : [];
}

/**
 * letter, digit, mark or alone (a word by itself); "" for characters that separate words.
 * @param {string} char
 */
function kindOf(char) {
  if (LETTER.test(char)) return ALONE.test(char) ? "alone" : "letter";
  if (NOTHING.test(char)) return "";
  return DIGIT.test(char) ? "digit" : MARK.test(char) ? "mark" : "alone";
}

/**
 * The span of every word: a run of letters with their marks, a run of digits, or a single other visible character.
 * @param {string} text
 * @returns {Span[]}
 */
export function wordSpans(text) {
  /** @type {Span[]} */
  const spans = [];
  let previous = ""; // the kind of character that would continue the last word
  let at = 0;
  for (const char of text) {
    const kind = kindOf(char);
    const end = at + char.length;
    if (kind && kind !== "alone" && (kind === previous || (kind === "mark" && previous))) spans[spans.length - 1][1] = end;
    else if (kind) {
      spans.push([at, end]);
      previous = kind === "mark" ? "letter" : kind;
    } else previous = "";
    at = end;
  }
  return spans;
}

/**
 * The number of the word that each span shares a character with, or null.
 * @param {Span[]} words
 * @param {Span[]} spans
 * @returns {(number | null)[]}
 */
export function numbersWithin(words, spans) {
  return spans.map(([start, end]) => {
    const found = words.findIndex(([begin, stop]) => begin < end && start < stop);
    return found < 0 ? null : found;
  });
}
