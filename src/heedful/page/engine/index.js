/** The engine: a heedful model in plain JavaScript. See README.md. */

import { Model } from "./model.js";
import { readModelFile } from "./weights.js";

export { InputError } from "./turns.js";

/**
 * Open a model file, gzipped or not.
 * @param {ArrayBuffer | Uint8Array} bytes
 */
export async function openModel(bytes) {
  const { header, data } = await readModelFile(bytes);
  return new Model(header, data);
}
