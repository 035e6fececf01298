// Vectors as strips of colour, one row per token; positive numbers in one colour, negative ones in another.

import {labelOf, make, shortLabel} from "../dom.js";
import {largest} from "../matrix.js";
import {makeSelectable} from "./grid.js";
import {keepPainted, paint} from "./paint.js";
import {colourScale} from "./scale.js";

const TALLEST = 20, LOWEST = 9; // pixels of a row
const LINE = 12; // pixels that a name needs; where rows are lower, not every one has its name
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
 * Returns its element, the `scale` of its colours, `draw()` for when both are on the page, and `mark(cell or null)`.
 */
export function vectorStrips(matrix, {tokens, title, role = "", select = () => {}, press = null, labels = true}) {
  const shown = cut(matrix, WIDEST), [rows, columns] = shown.shape;
  const height = Math.max(LOWEST, Math.min(TALLEST, Math.round(420 / rows)));
  const most = largest(shown) || 1;
  const canvas = make("canvas");
  const cells = make("div", {class: `cells strips ${role}`, role: "application", "aria-label": title}, canvas);
  cells.style.height = `${height * rows}px`;
  const frame = makeSelectable(cells, rows, columns, select, {follow: true, press});
  const every = Math.ceil(LINE / height);
  const names = labels ? make("div", {class: "names", "aria-hidden": "true"}, tokens.map(({text}, row) => {
    const name = row % every ? null : make("bdi", {title: labelOf(text)}, shortLabel(text, 12));
    return make("span", {style: {height: `${height}px`, "font-size": `${Math.min(12.5, Math.max(11, height - 1))}px`}}, name);
  })) : null;
  const opacity = value => Math.min(1, Math.sqrt(Math.abs(value) / most));
  const scale = colourScale({least: shown.data.some(value => value < 0) ? -most : 0, most, opacity, role});
  const draw = () => {
    keepPainted(canvas, () => paint(canvas, shown, opacity, "--negative"));
    scale.draw();
  };
  return {view: make("div", {class: labels ? "vectors" : "vectors bare"}, names, cells), scale: scale.view, draw, mark: frame};
}
