// What colours mean: a strip from the smallest number of a drawing to its largest, with both numbers beside it.

import {make, shortNumber} from "../dom.js";
import {keepPainted, paint} from "./paint.js";

const STEPS = 15; // cells of the strip

/** 0.5 → "50 %", for the ends of a scale. */
export function wholePercent(share) {
  return `${Math.round(100 * share)} %`;
}

/**
 * The scale of a drawing whose numbers reach from `least` to `most`.
 *
 * opacity   the function that colours the drawing;  negative: CSS property with the colour of its negative numbers
 * role      "query", "key", "value" or "": which colour;  shown: number → text
 *
 * Returns its element and `draw()` for when it is on the page.
 */
export function colourScale({least, most, opacity, role = "", negative = "--negative", shown = shortNumber}) {
  const data = Float32Array.from({length: STEPS}, (_, step) => least + (most - least) * step / (STEPS - 1));
  const canvas = make("canvas", {"aria-hidden": "true"});
  return {
    view: make("span", {class: `scale ${role}`}, shown(least), canvas, shown(most)),
    draw: () => keepPainted(canvas, () => paint(canvas, {data, shape: [1, STEPS]}, opacity, negative)),
  };
}
