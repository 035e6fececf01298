// A matrix of queries and keys as a heat map with the tokens at its sides.

import {isolated, labelOf, make, makeSvg, shortLabel} from "../dom.js";
import {makeSelectable} from "./grid.js";
import {keepPainted, paint, strength} from "./paint.js";

const LABEL = 15; // characters of a label at most
const LINE = 12; // pixels that a label needs; where cells are smaller, not every one has its label
const SLANTED = 16; // pixels of a cell from which on labels above the columns may slant without touching each other
const BARE = 96; // columns from which on there are no labels: patches of a large image

/** The side of a cell in pixels: as large as the width allows, and never too small to point at. */
export function cellSize(width, columns, least = 14) {
  return columns > BARE ? 5 : Math.max(least, Math.min(28, Math.floor(width / columns)));
}

/** How long the longest label is, in characters of the labels' font. */
function longest(names) {
  return Math.max(...names.map(name => shortLabel(name, LABEL).length * (/[\u1100-\uffff]/.test(name) ? 1.7 : 1)));
}

/** By how many degrees the labels above the columns are turned: narrow columns have steep ones. */
function slant(cell) {
  return cell < SLANTED ? 80 : 55;
}

/** The labels of one side as SVG: slanting above the columns, or straight at the left of the rows. */
function labels(names, side, cell, room) {
  const top = side === "top", length = names.length * cell, angle = slant(cell);
  const every = Math.ceil(LINE / cell);
  const texts = names.map((name, index) => {
    if (index % every) return makeSvg("text", {}); // so that the texts are numbered like the names
    const middle = (index + 0.5) * cell;
    const place = top ? {transform: `translate(${middle + 4} ${room - 4}) rotate(-${angle})`} : {x: room - 6, y: middle + 4, "text-anchor": "end"};
    return makeSvg("text", place, makeSvg("title", {}, labelOf(name)), isolated(shortLabel(name, LABEL)));
  });
  const [width, height] = top ? [length + 60, room] : [room, length];
  return makeSvg("svg", {class: side, width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true"}, texts);
}

/**
 * The heat map of a matrix (queries, keys).
 *
 * rows, columns   names of the tokens
 * title           what it shows, for screen readers
 * select(cell)    called when a cell is pointed at or reached by keys;  press(cell), if given, when it is clicked
 * opacity         number → 0 to 1; by default for weights
 * negative        CSS property with the colour of negative numbers, if they have another one
 * width, least    pixels it may have before it scrolls, and of a cell at least
 * bare            without the tokens at its sides
 *
 * Returns its element, `draw(matrix)` and `mark(cell or null)`.
 */
export function heatMap({rows, columns, title, select, press = null, opacity = strength, negative = "", width = 600, least = 14, bare = false}) {
  const hidden = bare || columns.length > BARE;
  const left = Math.min(118, 14 + 6.6 * longest(rows));
  const cell = cellSize(Math.max(width - (hidden ? 0 : left + 20), 120), columns.length, least);
  const above = 16 + 6.5 * Math.sin(slant(cell) * Math.PI / 180) * longest(columns);
  const canvas = make("canvas");
  const cells = make("div", {class: "cells", role: "application", "aria-label": title}, canvas);
  cells.style.width = `${cell * columns.length}px`;
  cells.style.height = `${cell * rows.length}px`;
  const frame = makeSelectable(cells, rows.length, columns.length, select, {follow: true, press});
  const sides = hidden ? [] : [labels(columns, "top", cell, above), labels(rows, "left", cell, left)];
  const view = make("div", {class: hidden ? "matrix bare" : "matrix"}, sides, cells);
  const mark = chosen => {
    frame(chosen);
    for (const [number, side] of sides.entries()) {
      side.querySelector(".chosen")?.classList.remove("chosen");
      if (chosen) side.children[number === 0 ? chosen.column : chosen.row]?.classList.add("chosen");
    }
  };
  const draw = matrix => keepPainted(canvas, () => paint(canvas, matrix, opacity, negative));
  return {view: make("div", {class: "scroller"}, view), canvas, draw, mark};
}

/** A small picture of a matrix, without labels. Returns its canvas, to be drawn when it is on the page. */
export function thumbnail(matrix, opacity = strength) {
  const canvas = make("canvas", {"aria-hidden": "true"});
  return {canvas, draw: () => keepPainted(canvas, () => paint(canvas, matrix, opacity))};
}
