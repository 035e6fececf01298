/** An image as a ViT reads it: cropped to the middle square and scaled just as Pillow does it in `data/images.py`. */

import { InputError } from "./turns.js";

const PRECISION = 22; // bits of Pillow's fixed-point coefficients
const SUPPORT = 2; // of the bicubic filter

/** @param {number} x */
function bicubic(x) {
  const a = -0.5;
  const d = Math.abs(x);
  if (d < 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  return d < 2 ? (((d - 5) * d + 8) * d - 4) * a : 0;
}

/**
 * For every output pixel the first input pixel and the coefficients.
 * @param {number} size of the input
 * @param {number} from where the crop begins
 * @param {number} to
 * @param {number} out pixels of the output
 */
function coefficients(size, from, to, out) {
  const scale = (to - from) / out;
  const wide = Math.max(1, scale);
  const support = SUPPORT * wide;
  return Array.from({ length: out }, (_, place) => {
    const centre = from + (place + 0.5) * scale;
    const first = Math.max(0, Math.trunc(centre - support + 0.5));
    const last = Math.min(size, Math.trunc(centre + support + 0.5));
    const weights = Array.from({ length: last - first }, (_, i) => bicubic((i + first - centre + 0.5) / wide));
    const sum = weights.reduce((a, b) => a + b, 0);
    const fixed = weights.map((weight) => {
      const value = (sum ? weight / sum : weight) * 2 ** PRECISION;
      return Math.trunc(value < 0 ? value - 0.5 : value + 0.5);
    });
    return { first, fixed };
  });
}

/**
 * One channel (height, width) scaled in both directions, rounded to bytes in between.
 * @param {Uint8Array} channel
 * @param {number} width
 * @param {number} height
 * @param {number} side
 */
function resized(channel, width, height, side) {
  const crop = Math.min(width, height);
  const left = (width - crop) / 2;
  const top = (height - crop) / 2;
  const half = 2 ** (PRECISION - 1);
  const byte = (/** @type {number} */ sum) => Math.max(0, Math.min(255, Math.floor(sum / 2 ** PRECISION)));
  let across = channel;
  if (side !== width || left) {
    across = new Uint8Array(height * side);
    coefficients(width, left, left + crop, side).forEach(({ first, fixed }, x) => {
      for (let y = 0; y < height; y++) {
        let sum = half;
        for (let i = 0; i < fixed.length; i++) sum += channel[y * width + first + i] * fixed[i];
        across[y * side + x] = byte(sum);
      }
    });
  }
  if (side === height && !top) return across;
  const out = new Uint8Array(side * side);
  coefficients(height, top, top + crop, side).forEach(({ first, fixed }, y) => {
    for (let x = 0; x < side; x++) {
      let sum = half;
      for (let i = 0; i < fixed.length; i++) sum += across[(first + i) * side + x] * fixed[i];
      out[y * side + x] = byte(sum);
    }
  });
  return out;
}

/**
 * RGBA bytes → floats (C, side, side) in [−1, 1]; transparent parts become white.
 * @param {{width: number, height: number, data: ArrayLike<number>}} image
 * @param {number} side
 * @param {number} channels 3 is colour, 1 is grey
 * @returns {Float32Array}
 */
export function readImage({ width, height, data }, side, channels) {
  if (!(width > 0 && height > 0 && data?.length === 4 * width * height)) {
    throw new InputError("an image needs a width, a height and four bytes for each pixel");
  }
  const count = width * height;
  const planes = Array.from({ length: channels }, () => new Uint8Array(count));
  for (let i = 0; i < count; i++) {
    const alpha = data[4 * i + 3];
    const [r, g, b] = [0, 1, 2].map((c) => overWhite(data[4 * i + c], alpha));
    if (channels === 1) planes[0][i] = (r * 19595 + g * 38470 + b * 7471 + 0x8000) >> 16;
    else [r, g, b].forEach((value, c) => (planes[c][i] = value));
  }
  const out = new Float32Array(channels * side * side);
  planes.forEach((plane, c) => {
    const pixels = resized(plane, width, height, side);
    for (let i = 0; i < pixels.length; i++) out[c * side * side + i] = Math.fround(pixels[i] / 127.5) - 1;
  });
  return out;
}

/**
 * @param {number} value
 * @param {number} alpha
 */
function overWhite(value, alpha) {
  return alpha === 255 ? value : Math.round((value * alpha + 255 * (255 - alpha)) / 255);
}
