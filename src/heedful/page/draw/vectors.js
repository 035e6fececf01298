// Vectors as strips of colour, one row per token; positive numbers in one colour, negative ones in another.

import {labelOf, make, shortLabel} from "../dom.js";
import {largest} from "../matrix.js";
import {makeSelectable} from "./grid.js";
import {keepPainted, paint} from "./paint.js";

const TALLEST = 20, LOWEST = 9; // pixels of a row
const WIDEST = 520; // numbers of a vector; longer ones are shown in part

/** The first columns of a matrix. */
function cut({data, shape: [rows, columns]}, most) {
  if (columns <= most) return {data, shape: [rows, columns]};
  const found = new Float32Array(rows * most);
  for (let row = 0; row < rows; row++) found.set(data.subarray(row * columns, row * columns + most), row * most);
  return {data: found, shape: [rows, most]};
}

/**
 * The vectors of a sequence, (L, D).
 *
 * tokens          of the rows
 * role            "query", "key", "value" or "": which colour
 * select(cell)    called when a number is pointed at;  press(cell) when it is clicked
 *
 * Returns its element, `draw()` for when it is on the page, and `mark(cell or null)`.
 */
export function vectorStrips(matrix, {tokens, title, role = "", select = () => {}, press = null, labels = true}) {
  const shown = cut(matrix, WIDEST), [rows, columns] = shown.shape;
  const height = Math.max(LOWEST, Math.min(TALLEST, Math.round(420 / rows)));
  const most = largest(shown) || 1;
  const canvas = make("canvas");
  const cells = make("div", {class: `cells strips ${role}`, role: "application", "aria-label": title}, canvas);
  cells.style.height = `${height * rows}px`;
  const frame = makeSelectable(cells, rows, columns, select, {follow: true, press});
  const names = labels && height >= LOWEST ? make("div", {class: "names", "aria-hidden": "true"}, tokens.map(({text}) => {
    const name = make("bdi", {title: labelOf(text)}, shortLabel(text, 12));
    return make("span", {style: {height: `${height}px`, "font-size": `${Math.min(12.5, height - 1)}px`}}, name);
  })) : null;
  const draw = () => keepPainted(canvas, () => paint(canvas, shown, value => Math.min(1, Math.sqrt(Math.abs(value) / most)), "--negative"));
  return {view: make("div", {class: labels ? "vectors" : "vectors bare"}, names, cells), draw, mark: frame};
}
