// How long the vectors of the residual stream are, by layer.

import {make} from "../dom.js";
import {matrixOf, part} from "../matrix.js";
import {lineChart} from "./chart.js";

const MOST = 60; // tokens with a line of their own

/** A chart of {stack, values (layers + 1, L)}: each token faint, their mean strong. */
export function normsChart(t, {values, stack}) {
  const matrix = matrixOf(values), [layers, length] = matrix.shape;
  const lines = Array.from({length: Math.min(length, MOST)}, (_, token) => ({faint: true, points: Array.from({length: layers}, (_, layer) => [layer, part(matrix, layer).data[token]])}));
  const mean = Array.from({length: layers}, (_, layer) => [layer, part(matrix, layer).data.reduce((sum, number) => sum + number, 0) / length]);
  return make("figure", {}, make("figcaption", {}, t(`map.${stack}`)), lineChart([...lines, {points: mean}], {x: t("norms.layer"), y: t("norms.length"), label: t("norms.title")}));
}
