// Where a number comes from: the parts of a trace, and the arithmetic behind a cell, shown number by number.

import {make, percent, quoted, shortNumber} from "../dom.js";
import {tokensOf} from "../draw/attention.js";
import {vectorStrips} from "../draw/vectors.js";
import {at, part as partOf} from "../matrix.js";

/** The traced attention of a part ("encoder", "decoder", "cross") and layer, with its tokens; null if it was not traced. */
export function attentionAt({trace, attention, ...rest}, part, layer) {
  const name = part || attention[0]?.name, shown = attention.find(one => one.name === name);
  if (!trace || !shown) return null;
  const stack = name === "encoder" ? trace.encoder : name === "pooling" ? null : trace.decoder;
  const traced = name === "pooling" ? trace.pooling : stack?.layers?.[layer - 1]?.[name === "cross" ? "cross" : "self"] ?? (name === "cross" ? stack?.attention : null);
  if (!traced?.weights) return null;
  const picture = shown.queries === shown.keys ? rest.sequences[shown.queries]?.image ?? null : null;
  return {traced, part: name, layer, queries: tokensOf({...rest}, shown.queries), keys: tokensOf({...rest}, shown.keys), picture};
}

/** A step of an arithmetic: what is done, and the number afterwards. */
function step(sign, text, number, role = "") {
  return make("span", {class: `sum ${role}`}, make("small", {}, text), make("b", {}, sign, number));
}

/** How one query meets one key: products of their numbers, their sum, and what becomes of it. */
export function scoreDetail({traced, queries, keys, head, row, column, t}) {
  const masked = traced.masked && !Number.isFinite(at(traced.masked, head, row, column));
  const heading = make("h3", {}, quoted(queries[row].text), " → ", quoted(keys[column].text), ` · ${t("attention.head", {head: head + 1})}`);
  const weight = at(traced.weights, head, row, column);
  if (!traced.q?.data || !traced.k?.data || traced.q.shape.at(-1) !== traced.k.shape.at(-1) || !traced.products) {
    return [heading, make("p", {class: "sums"}, traced.scores ? step("", t("numbers.score"), shortNumber(at(traced.scores, head, row, column))) : null, step("", t("numbers.softmax"), percent(weight)))];
  }
  const q = partOf(traced.q, head, row).data, k = partOf(traced.k, head, column).data, size = q.length;
  const data = new Float32Array(3 * size), tops = [0, 0, 0], {v = null} = traced.scoring ?? {};
  const meeting = index => v ? v[index] * Math.tanh(q[index] + k[index]) : q[index] * k[index];
  const sign = v ? "v · tanh(q + k)" : "q × k";
  for (let index = 0; index < size; index++) {
    [q[index], k[index], meeting(index)].forEach((number, place) => {
      data[place * size + index] = number;
      tops[place] = Math.max(tops[place], Math.abs(number));
    });
  }
  const scaled = data.map((number, index) => number / (tops[Math.floor(index / size)] || 1));
  const said = make("output", {class: "hint"}, t("numbers.point"));
  const strips = vectorStrips({data: scaled, shape: [3, size]}, {
    tokens: [{text: "q"}, {text: "k"}, {text: sign}], title: t("numbers.meeting"),
    select: cell => {
      strips.mark(cell);
      const [one, other] = [q, k].map(numbers => shortNumber(numbers[cell.column]));
      const sum = v ? `${shortNumber(v[cell.column])} · tanh(${one} + ${other})` : `${one} × ${other}`;
      said.textContent = `${t("numbers.dimension", {number: cell.column + 1})}: ${sum} = ${shortNumber(meeting(cell.column))}`;
    },
  });
  queueMicrotask(() => strips.draw());
  const product = at(traced.products, head, row, column), score = at(traced.scores, head, row, column);
  const divided = product / traced.divisor;
  const bias = Math.abs(score - divided) > 1e-4 ? step("+ ", t("numbers.bias"), `${shortNumber(score - divided)} = ${shortNumber(score)}`) : null;
  return [heading, strips.view, said, make("p", {class: "sums"},
    step("", `Σ ${sign}`, shortNumber(product)), traced.divisor === 1 ? null : [step("÷ ", t("numbers.divisor"), shortNumber(traced.divisor)), step("= ", t("numbers.score"), shortNumber(divided))], bias,
    masked ? step("→ ", t("numbers.masked"), "−∞") : null, step("→ ", t("numbers.softmax"), percent(weight)))];
}

/** Which values make up one row of a head's output: the largest shares, with the vectors they bring. */
export function mixDetail({traced, queries, keys, head, row, t}) {
  const weights = partOf(traced.weights, head, row).data;
  const order = Array.from(weights, (weight, key) => ({weight, key})).sort((one, other) => other.weight - one.weight).slice(0, 5).filter(({weight}) => weight > 0);
  const size = traced.v.shape.at(-1), rows = order.length + 1;
  const data = new Float32Array(rows * size);
  order.forEach(({weight, key}, place) => partOf(traced.v, head, key).data.forEach((number, index) => { data[place * size + index] = weight * number; }));
  data.set(partOf(traced.heads, head, row).data, order.length * size);
  const strips = vectorStrips({data, shape: [rows, size]}, {
    tokens: [...order.map(({weight, key}) => ({text: `${Math.round(100 * weight)} % ${keys[key].text.trim()}`})), {text: t("numbers.sum")}],
    title: t("numbers.mix"), role: "value",
  });
  queueMicrotask(() => strips.draw());
  return [make("h3", {}, t("numbers.mixOf"), " ", quoted(queries[row].text)), strips.view];
}
