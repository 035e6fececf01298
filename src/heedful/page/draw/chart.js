// A small line chart.

import {makeSvg, shortNumber} from "../dom.js";

const [WIDTH, HEIGHT, LEFT, BOTTOM, TOP] = [360, 200, 58, 34, 10];

/** lines: [{points: [[x, y]], faint, colour}] */
export function lineChart(lines, {x, y, label}) {
  const points = lines.flatMap(line => line.points).filter(([, value]) => Number.isFinite(value));
  const right = Math.max(1, ...points.map(([place]) => place)), most = Math.max(1e-9, ...points.map(([, value]) => value)) * 1.05;
  const across = place => LEFT + (WIDTH - LEFT - 10) * place / right, up = value => HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * value / most;
  const ticks = [0, most / 2, most].map(value => [
    makeSvg("line", {class: "grid", x1: LEFT, x2: WIDTH - 10, y1: up(value), y2: up(value)}),
    makeSvg("text", {x: LEFT - 6, y: up(value) + 4, "text-anchor": "end"}, shortNumber(value)),
  ]);
  const step = Math.max(1, Math.ceil(right / 8));
  const marks = Array.from({length: Math.floor(right / step) + 1}, (_, index) => makeSvg("text", {x: across(index * step), y: HEIGHT - BOTTOM + 15, "text-anchor": "middle"}, index * step));
  return makeSvg("svg", {class: "chart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label}, ticks, marks,
    makeSvg("text", {x: (LEFT + WIDTH) / 2, y: HEIGHT - 3, "text-anchor": "middle"}, x), makeSvg("text", {x: 10, y: TOP + 60, transform: `rotate(-90 10 ${TOP + 60})`, "text-anchor": "middle"}, y),
    lines.map(({points: all, faint, colour}) => makeSvg("polyline", {class: faint ? "line faint" : "line", points: all.map(([place, value]) => `${across(place).toFixed(1)},${up(value).toFixed(1)}`).join(" "), style: colour ? {stroke: colour} : {}})));
}
