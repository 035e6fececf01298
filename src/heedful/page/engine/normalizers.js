/** Normalizers of Hugging Face's tokenizers: what happens to text before it is split. */

import { AlignedText } from "./aligned_text.js";
import { patternOf } from "./pre_tokenizers.js";
import { COMBINING_MARK, CONTROL, NON_SPACING_MARK, SPACE } from "./unicode_classes.js";

/** @typedef {(text: AlignedText) => AlignedText} Normalizer */

const CONTINUES = /^[\p{M}\u1160-\u11ff\ud7b0-\ud7ff]$/u; // combining marks, and the later parts of a Hangul syllable
const CHINESE = [
  [0x4e00, 0x9fff], [0x3400, 0x4dbf], [0x20000, 0x2a6df], [0x2a700, 0x2b73f], [0x2b740, 0x2b81f], [0x2b920, 0x2ceaf],
  [0xf900, 0xfaff], [0x2f800, 0x2fa1f],
];

/**
 * What a cluster of characters becomes, each with the number of characters it adds (above 0) or swallows (below 0).
 * @param {string[]} chars
 * @param {string} form
 * @returns {{char: string, change: number}[]}
 */
function changes(chars, form) {
  const apart = form.includes("K") ? "NFKD" : "NFD";
  const whole = chars.join("");
  const entries = chars.flatMap((char) => [...char.normalize(apart)].map((one, index) => ({ char: one, change: index ? 1 : 0 })));
  const take = (/** @type {{char: string, change: number}[]} */ from, /** @type {string} */ char) => {
    const [found] = from.splice(Math.max(0, from.findIndex((entry) => entry.char === char)), 1);
    return found ?? { char, change: 1 };
  };
  const sorted = [...whole.normalize(apart)].map((char) => take(entries, char)); // marks in canonical order
  if (form === apart) return sorted;
  return [...whole.normalize(form)].map((char) => {
    const parts = [...char.normalize(apart)].map((one) => take(sorted, one));
    return { char, change: parts.reduce((sum, one) => sum + one.change, 1 - parts.length) };
  });
}

/**
 * A Unicode normal form, cluster by cluster, so that every character keeps its place.
 * @param {string} form
 * @returns {Normalizer}
 */
function normalForm(form) {
  return (text) => {
    const out = new AlignedText([], [], []);
    for (let first = 0; first < text.length; ) {
      let last = first + 1;
      while (last < text.length && CONTINUES.test(text.chars[last])) last++;
      const chars = text.chars.slice(first, last);
      const simple = chars.length === 1 && chars[0].normalize(form) === chars[0];
      let next = first; // the character that the next one comes from
      for (const { char, change } of simple ? [{ char: chars[0], change: 0 }] : changes(chars, form)) {
        const from = Math.min(last - 1, change > 0 ? Math.max(0, next - 1) : next);
        out.push(char, text.starts[from], text.ends[from]);
        if (change <= 0) next += 1 - change;
      }
      first = last;
    }
    return out;
  };
}

/** @type {Normalizer} */
const stripMarks = (text) => text.map((char) => (COMBINING_MARK.test(char) ? "" : char));
/** @type {Normalizer} BERT's, which leaves marks that take space */
const stripAccents = (text) => text.map((char) => (NON_SPACING_MARK.test(char) ? "" : char));
/** @type {Normalizer} */
const lowercase = (text) => text.map((char) => char.toLowerCase());

/** @param {string} char */
function isChinese(char) {
  const code = /** @type {number} */ (char.codePointAt(0));
  return CHINESE.some(([first, last]) => code >= first && code <= last);
}

/**
 * BERT's: control characters removed, spaces around Chinese characters, accents stripped, lower case.
 * @param {any} part
 * @returns {Normalizer}
 */
function bertNormalizer(part) {
  /** @type {Normalizer[]} */
  const steps = [];
  if (part.clean_text) {
    steps.push((text) => text.map((char) => {
      if ("\t\n\r".includes(char)) return " ";
      if (char === "\0" || char === "\ufffd" || CONTROL.test(char)) return "";
      return SPACE.test(char) ? " " : char;
    }));
  }
  if (part.handle_chinese_chars) steps.push((text) => text.map((char) => (isChinese(char) ? [" ", char, " "] : [char])));
  if (part.strip_accents ?? part.lowercase) steps.push(normalForm("NFD"), stripAccents);
  if (part.lowercase) steps.push(lowercase);
  return (text) => steps.reduce((found, step) => step(found), text);
}

const SMALL = 6; // bytes of a cluster of characters that SentencePiece looks up as a whole

/**
 * SentencePiece's table of what characters become. In a double array, the bytes of a text lead from unit to unit; where one of
 * them ends an entry, it gives the place of the replacement among texts that end with a zero.
 * @param {string} table in base64
 * @returns {Normalizer}
 */
function precompiled(table) {
  const bytes = Uint8Array.from(atob(table), (char) => char.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  const size = view.getUint32(0, true);
  const units = Array.from({ length: size / 4 }, (_, index) => view.getUint32(4 + 4 * index, true));
  const texts = bytes.subarray(4 + size);
  const offset = (/** @type {number} */ unit) => (unit >>> 10) << ((unit & 512) >>> 6);
  const utf8 = new TextEncoder();

  /** What the shortest entry that the text begins with becomes, or null. @param {Uint8Array} text */
  function found(text) {
    let place = offset(units[0]);
    for (const byte of text) {
      if (!byte) return null;
      place ^= byte;
      const unit = units[place];
      if (unit === undefined || (unit & 0x800000ff) >>> 0 !== byte) return null;
      place ^= offset(unit);
      if ((unit >>> 8) & 1) {
        const start = units[place] & 0x7fffffff;
        return new TextDecoder().decode(texts.subarray(start, texts.indexOf(0, start)));
      }
    }
    return null;
  }

  const clusters = new Intl.Segmenter("en", { granularity: "grapheme" });
  return (text) => {
    const out = new AlignedText([], [], []);
    let at = 0;
    /** @param {number} count @param {string} other */
    const put = (count, other) => {
      const last = at + count - 1;
      [...other].forEach((char, index) => {
        const from = Math.min(last, at + index);
        out.push(char, text.starts[from], text.ends[from]);
      });
      at += count;
    };
    for (const { segment } of clusters.segment(text.text)) {
      const whole = utf8.encode(segment);
      const chars = [...segment];
      const other = whole.length < SMALL ? found(whole) : null;
      if (other !== null) put(chars.length, other);
      else for (const char of chars) put(1, found(utf8.encode(char)) ?? char);
    }
    return out;
  };
}

/**
 * White space removed from the ends.
 * @param {any} part
 * @returns {Normalizer}
 */
function strip(part) {
  return (text) => {
    let first = 0;
    let last = text.length;
    if (part.strip_left) while (first < last && SPACE.test(text.chars[first])) first++;
    if (part.strip_right) while (last > first && SPACE.test(text.chars[last - 1])) last--;
    return text.slice(first, last);
  };
}

/**
 * @param {string} prefix
 * @returns {Normalizer}
 */
function prepend(prefix) {
  return (text) => {
    const whole = text.slice(0, text.length);
    if (text.length) for (const char of [...prefix].reverse()) whole.unshift(char);
    return whole;
  };
}

/**
 * @param {any} part of tokenizer.json
 * @returns {Normalizer}
 */
export function buildNormalizer(part) {
  if (!part) return (text) => text;
  if (part.type === "Sequence") {
    const steps = part.normalizers.map(buildNormalizer);
    return (text) => steps.reduce((/** @type {AlignedText} */ found, /** @type {Normalizer} */ step) => step(found), text);
  }
  if (part.type === "BertNormalizer") return bertNormalizer(part);
  if (part.type === "Lowercase") return lowercase;
  if (part.type === "StripAccents") return stripMarks;
  if (part.type === "Precompiled") return precompiled(part.precompiled_charsmap);
  if (part.type === "Replace") return (text) => text.replace(patternOf(part.pattern), part.content);
  if (part.type === "Prepend") return prepend(part.prepend);
  if (part.type === "Strip") return strip(part);
  return normalForm(part.type); // NFC, NFD, NFKC, NFKD
}
