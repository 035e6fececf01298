/** From tokens back to text. */

import { BYTE_CHARS, patternOf } from "./pre_tokenizers.js";

/** @typedef {(tokens: string[]) => string[]} Decoder */

const BYTES = new Map(BYTE_CHARS.map((char, byte) => [char, byte]));
const encoder = new TextEncoder();

/** @type {Decoder} */
function byteLevel(tokens) {
  /** @type {number[]} */
  const bytes = [];
  for (const token of tokens) {
    const own = [...token].map((char) => BYTES.get(char));
    const all = own.every((byte) => byte !== undefined);
    for (const byte of all ? own : encoder.encode(token)) bytes.push(/** @type {number} */ (byte));
  }
  return [new TextDecoder("utf-8", { ignoreBOM: true }).decode(new Uint8Array(bytes))];
}

/**
 * The name of a byte-level token as its characters, and in ⟨⟩ bytes that are only a part of one; null if it is none.
 * @param {string} name
 */
export function shownBytes(name) {
  const bytes = [...name].map((char) => BYTES.get(char));
  if (bytes.includes(undefined)) return null;
  const data = Uint8Array.from(/** @type {number[]} */ (bytes));
  let shown = "";
  for (let at = 0; at < data.length;) {
    const size = [1, 2, 3, 4].find((length) => at + length <= data.length && characterOf(data.subarray(at, at + length)) !== null);
    shown += size ? characterOf(data.subarray(at, at + size)) : `⟨${data[at].toString(16).toUpperCase().padStart(2, "0")}⟩`;
    at += size ?? 1;
  }
  return shown.replaceAll("⟩⟨", " ");
}

/** @param {Uint8Array} bytes */
function characterOf(bytes) {
  try {
    const text = new TextDecoder("utf-8", { ignoreBOM: true, fatal: true }).decode(bytes);
    return [...text].length === 1 ? text : null;
  } catch {
    return null;
  }
}

const CLEAN = [
  [" .", "."], [" ?", "?"], [" !", "!"], [" ,", ","], [" ' ", "'"], [" n't", "n't"], [" 'm", "'m"], [" do not", " don't"],
  [" 's", "'s"], [" 've", "'ve"], [" 're", "'re"],
];

/**
 * @param {any} part
 * @returns {Decoder}
 */
function wordPiece(part) {
  return (tokens) => tokens.map((token, index) => {
    let text = token;
    if (index) text = token.startsWith(part.prefix) ? token.slice(part.prefix.length) : ` ${token}`;
    if (part.cleanup) for (const [from, to] of CLEAN) text = text.replaceAll(from, to);
    return text;
  });
}

/**
 * SentencePiece's: its sign for a space becomes one, and that before the text nothing.
 * @param {any} part
 * @returns {Decoder}
 */
function metaspace({ replacement, prepend_scheme: scheme }) {
  return (tokens) => tokens.map((token, index) => token.replaceAll(replacement, index || scheme === "never" ? " " : ""));
}

const BYTE = /^<0x([0-9A-F]{2})>$/i;

/** @type {Decoder} The tokens <0x00> … as the characters whose bytes they are; bytes of none become U+FFFD each. */
function byteFallback(tokens) {
  /** @type {string[]} */
  const found = [];
  /** @type {number[]} */
  let bytes = [];
  const flush = () => {
    if (!bytes.length) return;
    try {
      found.push(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(new Uint8Array(bytes)));
    } catch {
      found.push(..."\ufffd".repeat(bytes.length));
    }
    bytes = [];
  };
  for (const token of tokens) {
    const byte = BYTE.exec(token);
    if (byte) bytes.push(parseInt(byte[1], 16));
    else {
      flush();
      found.push(token);
    }
  }
  flush();
  return found;
}

/**
 * A character removed from both ends of every token, so many times at most.
 * @param {any} part
 * @returns {Decoder}
 */
function strip({ content, start, stop }) {
  return (tokens) => tokens.map((token) => {
    const chars = [...token];
    let first = 0;
    while (first < start && chars[first] === content) first++;
    let last = chars.length;
    while (chars.length - last < stop && last > first && chars[last - 1] === content) last--;
    return chars.slice(first, last).join("");
  });
}

/**
 * @param {any} part of tokenizer.json
 * @returns {Decoder}
 */
export function buildDecoder(part) {
  if (!part) return (tokens) => [tokens.join(" ")];
  if (part.type === "Sequence") {
    const steps = part.decoders.map(buildDecoder);
    return (tokens) => steps.reduce((/** @type {string[]} */ found, /** @type {Decoder} */ step) => step(found), tokens);
  }
  if (part.type === "ByteLevel") return byteLevel;
  if (part.type === "WordPiece") return wordPiece(part);
  if (part.type === "Metaspace") return metaspace(part);
  if (part.type === "Replace") return (tokens) => tokens.map((token) => token.replace(patternOf(part.pattern), () => part.content));
  if (part.type === "ByteFallback") return byteFallback;
  if (part.type === "Strip") return strip(part);
  return (tokens) => [tokens.join("")]; // Fuse
}
