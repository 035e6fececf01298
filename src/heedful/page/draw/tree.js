// The branches of a beam search as a tree: each column is a step, the best branch is strong, dropped ones fade.

import {isolated, make, makeSvg, shortLabel} from "../dom.js";

const [DOWN, LEFT, TOP, RIGHT] = [34, 92, 26, 56];
const ACROSS = {least: 70, most: 104}; // pixels from one step to the next
const [GAP, LETTER] = [24, 6.4]; // pixels between two steps, and of a character

/** Where every node stands: {node → {step, row}} with the best of a step on top, but parents as straight as possible. */
function layout(steps) {
  const places = new Map();
  steps.forEach((nodes, step) => {
    const order = {best: 0, ended: 1, alive: 2, dropped: 3};
    [...nodes].sort((one, other) => order[one.state] - order[other.state] || other.score - one.score)
      .forEach((node, row) => places.set(node.node, {...node, step, row}));
  });
  return places;
}

/** The nodes that lead to the best end. */
function bestPath(places) {
  const found = new Set();
  const ends = [...places.values()].filter(({state}) => state === "best");
  for (let node = ends.at(-1); node; node = places.get(node.parent)) found.add(node.node);
  return found;
}

/**
 * The tree of {width, steps: [[{node, parent, text, log_probability, score, state}]]}, up to a number of steps.
 * select(node) is called when a node is pointed at. Steps stand closer if the whole tree then fits into `room` pixels.
 */
export function beamTree({steps}, upTo, {label, begin, select = () => {}, room = Infinity}) {
  const fitting = (room - LEFT - RIGHT) / Math.max(1, steps.length - 1);
  const across = fitting >= ACROSS.least ? Math.min(ACROSS.most, fitting) : ACROSS.most, half = (across - GAP) / 2;
  const shown = steps.slice(0, upTo), places = layout(shown), best = bestPath(layout(steps));
  const rows = Math.max(1, ...shown.map(nodes => nodes.length));
  const x = step => LEFT + step * across, y = row => TOP + row * DOWN;
  const root = {x: 8, y: y(0)};
  const edges = [], nodes = [];
  for (const node of places.values()) {
    const parent = places.get(node.parent);
    const from = parent ? {x: x(parent.step) + half, y: y(parent.row)} : {x: root.x + 30, y: root.y};
    const to = {x: x(node.step) - half, y: y(node.row)};
    const last = node.step === shown.length - 1;
    const state = best.has(node.node) ? "best" : node.state === "best" ? "ended" : node.state;
    edges.push(makeSvg("path", {class: `edge ${state}`, d: `M${from.x} ${from.y}C${from.x + 14} ${from.y} ${to.x - 14} ${to.y} ${to.x} ${to.y}`}));
    nodes.push(makeSvg("g", {class: `node ${state}${last ? " new" : ""}`, transform: `translate(${x(node.step)} ${y(node.row)})`, tabindex: "0", role: "img",
      "aria-label": `${node.text} ${Math.exp(node.log_probability).toFixed(3)} ${node.state}`,
      on: {pointerenter: () => select(node), focus: () => select(node)}},
    makeSvg("rect", {x: -half, y: -13, width: 2 * half, height: 26, rx: 8}), makeSvg("text", {y: 4, "text-anchor": "middle"}, isolated(shortLabel(node.text, Math.floor((2 * half - 10) / LETTER))))));
  }
  const width = x(Math.max(0, shown.length - 1)) + RIGHT, height = y(rows - 1) + 26;
  const svg = makeSvg("svg", {class: "beam", width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": label},
    makeSvg("text", {x: root.x - 4, y: root.y + 4}, begin), edges, nodes);
  return make("div", {class: "scroller", tabindex: "0", role: "group", "aria-label": label}, svg);
}
