/** From tokens back to text. */

import { BYTE_CHARS } from "./pre_tokenizers.js";

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
  return (tokens) => [tokens.join("")]; // Fuse
}
