/** The activations of the feed-forward network (Section 3.3). */

/**
 * The error function, to seven digits (Numerical Recipes, 6.2).
 * @param {number} x
 */
function erf(x) {
  const t = 1 / (1 + 0.5 * Math.abs(x));
  const series =
    -1.26551223 + t * (1.00002368 + t * (0.37409196 + t * (0.09678418 + t * (-0.18628806 + t * (0.27886807 +
    t * (-1.13520398 + t * (1.48851587 + t * (-0.82215223 + t * 0.17087277))))))));
  const rest = t * Math.exp(-x * x + series);
  return x >= 0 ? 1 - rest : rest - 1;
}

const ROOT = Math.sqrt(2 / Math.PI);

/** @type {Record<string, (x: number) => number>} */
const ACTIVATIONS = {
  relu: (x) => (x > 0 ? x : 0),
  gelu: (x) => 0.5 * x * (1 + erf(x * Math.SQRT1_2)),
  "gelu-tanh": (x) => 0.5 * x * (1 + Math.tanh(ROOT * (x + 0.044715 * x * x * x))),
  silu: (x) => x / (1 + Math.exp(-x)),
};

/**
 * @param {string} name
 * @param {import("./matrix.js").Matrix} x
 * @returns {import("./matrix.js").Matrix}
 */
export function activate(name, x) {
  return { data: x.data.map(ACTIVATIONS[name]), shape: x.shape };
}
