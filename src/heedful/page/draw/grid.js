// A grid of cells that pointer, touch and keyboard can select.

import {make} from "../dom.js";

/** The cell {row, column} of a grid that a point of the window is in. */
export function cellAt(box, rows, columns, x, y) {
  const inside = (share, count) => Math.max(0, Math.min(count - 1, Math.floor(share * count)));
  return {row: inside((y - box.top) / box.height, rows), column: inside((x - box.left) / box.width, columns)};
}

/** The cell that a key leads to from another one, or null if the key moves nothing. */
export function cellAfter(key, {row, column}, rows, columns) {
  const moves = {
    ArrowUp: [row - 1, column], ArrowDown: [row + 1, column], ArrowLeft: [row, column - 1], ArrowRight: [row, column + 1],
    Home: [row, 0], End: [row, columns - 1], PageUp: [0, column], PageDown: [rows - 1, column],
  };
  if (!(key in moves)) return null;
  const [down, across] = moves[key];
  return {row: Math.max(0, Math.min(rows - 1, down)), column: Math.max(0, Math.min(columns - 1, across))};
}

/**
 * Make the cells of an element selectable; `select` is called with the cell. With `follow`, pointing at a cell or focusing the
 * grid is enough. `press`, if given, is called when a cell is clicked, or opened with Enter. Returns a function that puts a frame
 * around a cell, or hides it.
 */
export function makeSelectable(element, rows, columns, select, {follow = false, press = null} = {}) {
  let current = {row: 0, column: 0};
  const frame = make("span", {class: "frame", style: {width: `${100 / columns}%`, height: `${100 / rows}%`}});
  frame.hidden = true;
  const show = cell => {
    current = cell ?? {row: 0, column: 0};
    frame.hidden = !cell;
    const {row, column} = current;
    frame.style.transform = `translate(${100 * column}%, ${100 * row}%)`; // of its own size: nothing is laid out again
  };
  const under = event => cellAt(element.getBoundingClientRect(), rows, columns, event.clientX, event.clientY);
  element.append(frame);
  element.tabIndex = 0;
  element.addEventListener("pointerdown", event => select(under(event)));
  if (press) element.addEventListener("click", event => press(under(event)));
  element.addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (press && (event.key === "Enter" || event.key === " ")) {
      event.preventDefault();
      press(current);
      return;
    }
    const cell = cellAfter(event.key, current, rows, columns);
    if (!cell) return;
    event.preventDefault();
    select(cell);
    frame.scrollIntoView({block: "nearest", inline: "nearest"});
  });
  if (follow) {
    element.addEventListener("pointermove", event => {
      const cell = under(event);
      if (frame.hidden || cell.row !== current.row || cell.column !== current.column) select(cell);
    });
    element.addEventListener("focus", () => select(current));
  }
  return show;
}
