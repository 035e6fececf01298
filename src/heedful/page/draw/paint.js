// Fills canvases with numbers as colours, and again when the colours of the page change between light and dark.

const painters = new Map(); // canvas → the function that paints it

const PATIENCE = 60; // frames to wait for a canvas that is not on the page yet

/** Paint as soon as the canvas is on the page, and again whenever the colours of the page change. */
export function keepPainted(canvas, painter) {
  painters.set(canvas, painter);
  const paintWhenShown = tries => {
    if (painters.get(canvas) !== painter) return;
    if (canvas.isConnected) painter();
    else if (tries > 0) requestAnimationFrame(() => paintWhenShown(tries - 1));
  };
  paintWhenShown(PATIENCE);
}

/** Call when the colours of the page have changed. */
export function repaintAll() {
  for (const [canvas, painter] of painters) {
    if (canvas.isConnected) painter();
    else painters.delete(canvas);
  }
}

if (typeof matchMedia === "function") matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaintAll);

/** A CSS colour of an element as [red, green, blue]; `name` is a custom property, or "" for its text colour. */
export function colourOf(element, name = "") {
  const style = getComputedStyle(element);
  const value = (name && style.getPropertyValue(name).trim()) || style.color;
  if (value.startsWith("#")) {
    const digits = value.length === 4 ? [...value.slice(1)].map(digit => digit + digit).join("") : value.slice(1);
    return [0, 2, 4].map(start => parseInt(digits.slice(start, start + 2), 16));
  }
  return value.match(/[\d.]+/g).slice(0, 3).map(Number);
}

/** One pixel for each number, in the text colour of the canvas; `opacity` turns a number into 0 to 1. */
export function paint(canvas, {data, shape: [rows, columns]}, opacity, negative = "") {
  [canvas.width, canvas.height] = [columns, rows];
  const context = canvas.getContext("2d");
  const above = colourOf(canvas), below = negative ? colourOf(canvas, negative) : above;
  const pixels = context.createImageData(columns, rows);
  for (let cell = 0; cell < data.length; cell++) {
    const [red, green, blue] = data[cell] < 0 ? below : above;
    const share = opacity(data[cell], cell);
    const at = 4 * cell;
    pixels.data[at] = red;
    pixels.data[at + 1] = green;
    pixels.data[at + 2] = blue;
    pixels.data[at + 3] = Math.round(255 * Math.min(1, Math.max(0, share)));
  }
  context.putImageData(pixels, 0, 0);
}

/** How strongly a weight is coloured, from 0 to 1. The root makes small weights visible and keeps the order. */
export function strength(weight) {
  return Math.sqrt(Math.min(1, Math.max(0, weight)));
}
