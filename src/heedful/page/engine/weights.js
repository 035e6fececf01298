/** A model file: its header, and the numbers of its tensors, made 32-bit when they are needed. See `page/model_file.py`. */

import { InputError } from "./turns.js";

/**
 * @typedef {{name: string, shape: number[], type: "float16" | "float32" | "int8", at: number, scales?: number}} Entry
 * @typedef {{name: string, job: string, kind: string, verbs: string[], about: string, parameters: number, bits: number,
 *   config: any, settings: any, labels: string[], tokenizers: any, samples: any[], weights: Entry[],
 *   checkpoints: {step: number, weights: Entry[]}[]}} Header
 */

const FORMAT = 1;

/** @type {Float32Array | null} the value of every 16-bit pattern */
let halves = null;

/** @returns {Float32Array} */
function valuesOfHalves() {
  if (halves) return halves;
  halves = new Float32Array(65536);
  for (let bits = 0; bits < 65536; bits++) {
    const sign = bits & 0x8000 ? -1 : 1;
    const exponent = (bits >> 10) & 31;
    const fraction = bits & 1023;
    if (exponent === 0) halves[bits] = sign * fraction * 2 ** -24;
    else if (exponent === 31) halves[bits] = fraction ? NaN : sign * Infinity;
    else halves[bits] = sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
  }
  return halves;
}

/**
 * @param {Uint8Array} bytes
 * @returns {Promise<Uint8Array>}
 */
async function unpacked(bytes) {
  const stream = new Blob([/** @type {any} */ (bytes)]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/**
 * @param {ArrayBuffer | Uint8Array} given
 * @returns {Promise<{header: Header, data: Uint8Array}>}
 */
export async function readModelFile(given) {
  let bytes = given instanceof Uint8Array ? given : new Uint8Array(given);
  if (bytes[0] === 0x1f && bytes[1] === 0x8b) bytes = await unpacked(bytes);
  if (bytes.length < 12 || String.fromCharCode(...bytes.subarray(0, 4)) !== "HEED") {
    throw new InputError("this is not a model file; `heedful page` writes one");
  }
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  if (view.getUint32(4, true) !== FORMAT) throw new InputError("this model file was written by another version of heedful");
  const end = 12 + view.getUint32(8, true);
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(12, end)));
  const data = bytes.subarray(Math.ceil(end / 8) * 8);
  return { header, data };
}

/** The tensors of a model by name. */
export class Weights {
  /**
   * @param {Entry[]} entries
   * @param {Uint8Array} data
   */
  constructor(entries, data) {
    this.entries = new Map(entries.map((entry) => [entry.name, entry]));
    this.data = data;
    /** @type {Map<string, Float32Array>} */
    this.read = new Map();
  }

  /** @param {string} name */
  has(name) {
    return this.entries.has(name);
  }

  /** @param {string} name */
  shape(name) {
    return this.entry(name).shape;
  }

  /**
   * @param {string} name
   * @returns {Entry}
   */
  entry(name) {
    const entry = this.entries.get(name);
    if (!entry) throw new InputError(`the model file has no weights ${name}`);
    return entry;
  }

  /**
   * A tensor by name; the same array every time.
   * @param {string} name
   * @returns {Float32Array}
   */
  tensor(name) {
    const known = this.read.get(name);
    if (known) return known;
    const found = this.decode(this.entry(name));
    this.read.set(name, found);
    return found;
  }

  /**
   * @param {Entry} entry
   * @returns {Float32Array}
   */
  decode(entry) {
    const count = entry.shape.reduce((a, b) => a * b, 1);
    const at = this.data.byteOffset + entry.at;
    const { buffer } = this.data;
    if (entry.type === "float32") return new Float32Array(buffer.slice(at, at + 4 * count));
    const found = new Float32Array(count);
    if (entry.type === "float16") {
      const table = valuesOfHalves();
      const bits = new Uint16Array(buffer.slice(at, at + 2 * count));
      for (let i = 0; i < count; i++) found[i] = table[bits[i]];
      return found;
    }
    const bytes = new Int8Array(buffer, at, count);
    const [rows, width] = entry.shape;
    const from = this.data.byteOffset + /** @type {number} */ (entry.scales);
    const scales = new Float32Array(buffer.slice(from, from + 4 * rows));
    for (let row = 0, i = 0; row < rows; row++) for (let j = 0; j < width; j++, i++) found[i] = bytes[i] * scales[row];
    return found;
  }

  /**
   * A linear map by the name of its weight and bias, such as `classifier`.
   * @param {string} name
   * @returns {import("./matrix.js").Linear}
   */
  linear(name) {
    const [outputs, inputs] = this.shape(`${name}.weight`);
    const bias = this.has(`${name}.bias`) ? this.tensor(`${name}.bias`) : null;
    return { weight: this.tensor(`${name}.weight`), bias, inputs, outputs };
  }

  /**
   * A LayerNorm by name.
   * @param {string} name
   * @param {number} [epsilon]
   */
  norm(name, epsilon = 1e-5) {
    return { gain: this.tensor(`${name}.weight`), bias: this.tensor(`${name}.bias`), epsilon };
  }
}
