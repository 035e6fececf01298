// The steps inside one layer, as cards with the numbers of the present input. flow.js puts them one below the other.

import {button, make, percent, quoted, shortNumber} from "../dom.js";
import {headColour} from "../draw/attention.js";
import {heatMap} from "../draw/heatmap.js";
import {links} from "../draw/links.js";
import {picturesView} from "../draw/picture.js";
import {strength} from "../draw/paint.js";
import {colourScale, wholePercent} from "../draw/scale.js";
import {vectorStrips} from "../draw/vectors.js";
import {at, largest, part as partOf} from "../matrix.js";
import {mixDetail, scoreDetail} from "./numbers.js";

/** A card: its title, formula and sentence, and what is drawn. `draws` are called when it is on the page. */
export function stage(t, id, formula, content, {draws = [], values = {}} = {}) {
  return {id, draws, view: make("section", {class: `stage stage-${id}`, "aria-label": t(`stage.${id}`)},
    make("div", {class: "head"}, make("h3", {}, t(`stage.${id}`)), formula ? make("code", {class: "formula"}, formula) : null),
    make("p", {class: "hint"}, t(`stage.${id}.about`, values)), make("div", {class: "content"}, content))};
}

/** A matrix of vectors with what is read from it below. */
function numbersOf(t, matrix, tokens, title, role = "", open = null) {
  const said = make("output", {class: "read"});
  const strips = vectorStrips(matrix, {tokens, title, role, select: cell => {
    strips.mark(cell);
    const more = open?.(cell) ?? "";
    said.replaceChildren(quoted(tokens[cell.row]?.text ?? ""), ` · ${t("numbers.dimension", {number: cell.column + 1})}: ${shortNumber(at(matrix, cell.row, cell.column))}`, more ? ` = ${more}` : "");
  }});
  return {view: make("div", {class: "numbers"}, make("h4", {}, make("span", {class: role}, title), make("small", {}, ` ${matrix.shape.join(" × ")}`), strips.scale), strips.view, said), draw: strips.draw};
}

function row(...blocks) {
  const found = blocks.filter(Boolean);
  return {content: make("div", {class: "row"}, found.map(({view}) => view)), draws: found.map(({draw}) => draw)};
}

/** An image with the borders of its patches. */
function patchPicture({source, rows, columns}) {
  const picture = make("div", {class: "patches plainpatches"}, make("img", {src: source, alt: "", class: source.startsWith("data:image/png") ? "pixels" : null}), make("span", {class: "raster"}));
  picture.style.setProperty("--rows", rows);
  picture.style.setProperty("--columns", columns);
  return picture;
}

/** Tokens, and their embeddings with positions. */
export function embeddingStages(t, {embedding}, {tokens, segments: belongs, image}) {
  const chips = make("div", {class: "chips"}, tokens.map(({text, id, special}, index) => make("span", {class: special ? "chip special" : "chip"}, quoted(text),
    id === null || id === undefined ? null : make("small", {}, id), belongs ? make("small", {}, "AB"[belongs[index]] ?? belongs[index]) : null)));
  const stages = [image ? stage(t, "patches", "", patchPicture(image), {values: {count: image.rows * image.columns}}) : stage(t, "tokens", "", chips, {values: {count: tokens.length}})];
  if (!embedding?.sum) return stages;
  const {tokens: words, positions, segments, sum} = embedding;
  const parts = [words && numbersOf(t, words, tokens, t("numbers.tokens")), positions && numbersOf(t, positions, tokens, t("numbers.positions")), segments && numbersOf(t, segments, tokens, t("numbers.segments"))];
  const total = numbersOf(t, sum, tokens, t("numbers.sumOf"), "", cell => [words, positions, segments].filter(Boolean).map(one => shortNumber(at(one, cell.row, cell.column))).join(" + "));
  const {content, draws} = row(...parts, total);
  stages.push(stage(t, positions ? "embedding" : "embeddingOnly", positions ? "x = E · √D + P" : "x = E · √D", content, {draws}));
  return stages;
}

const SCORES = {dot: "q·k", "scaled-dot": "q·k", bilinear: "q·k", additive: "v·tanh(q + k)"}; // of recurrent models
const PROJECTED = {dot: "q = s   k = h   v = h", "scaled-dot": "q = s   k = h   v = h", bilinear: "q = s   k = W·h   v = h", additive: "q = W₁·s   k = W₂·h   v = h"};

/** Lines between words, or between patches of an image colours, for one head. */
function glanceStage(t, {queries, keys, picture}, weights, head, name) {
  const values = {head: head + 1};
  if (!picture) return stage(t, name === "cross" ? "glanceCross" : "glance", "", links({queries, keys, title: t("stage.glance"), heads: [{number: head + 1, weights, colour: headColour(head)}]}).view, {values});
  const cell = {row: 0, column: null}, show = changes => {
    Object.assign(cell, changes);
    pictures.update(weights, cell.row, cell.column);
  };
  const pictures = picturesView({picture, names: queries.map(({text}) => text), t, selectRow: row => show({row}), selectColumn: column => show({column})});
  return stage(t, "glancePatches", "", pictures.view, {values, draws: [() => show({})]});
}

/** The four matrices from q·k to weights, marked together, and what one cell says. */
function scoreStage(t, found, head) {
  const {traced, queries, keys} = found;
  const rows = queries.map(({text}) => text), columns = keys.map(({text}) => text);
  const detail = make("div", {class: "detail"}), said = make("output", {class: "read"}, t("stage.scores.ask"));
  const matrices = [[traced.scoring ? "score" : "products", traced.products], ["scaled", traced.scores], ["masked", traced.masked], ["weights", traced.weights]].filter(([name, matrix]) => matrix?.data && (name !== "scaled" || traced.divisor !== 1) && (name !== "masked" || !traced.scoring));
  const maps = matrices.map(([name, matrix]) => {
    const plane = partOf(matrix, head), most = largest(plane) || 1;
    const shown = name === "masked" ? {data: Float32Array.from(plane.data, number => Number.isFinite(number) ? number : 0), shape: plane.shape} : plane;
    const map = heatMap({rows, columns, title: `${t(`numbers.${name}`)}. ${t("attention.keys")}`, width: 226, least: 4, bare: true, select, press: open,
      opacity: name === "weights" ? strength : number => Math.min(1, Math.abs(number) / most), negative: "--negative"});
    const hidden = name === "masked" ? make("small", {}, ` · ${t("numbers.hidden", {count: plane.data.filter(number => !Number.isFinite(number)).length})}`) : null;
    const scale = name === "weights" ? colourScale({least: 0, most: 1, opacity: strength, shown: wholePercent})
      : colourScale({least: -most, most, opacity: number => Math.abs(number) / most});
    const draw = () => {
      map.draw(shown);
      scale.draw();
    };
    return {...map, draw, view: make("figure", {}, make("figcaption", {}, make("b", {}, t(`numbers.${name}`)), hidden), map.view, scale.view)};
  });
  function select(cell) {
    for (const map of maps) map.mark(cell);
    const numbers = matrices.map(([name, matrix]) => name === "weights" ? percent(at(matrix, head, cell.row, cell.column)) : shortNumber(at(matrix, head, cell.row, cell.column)));
    said.replaceChildren(quoted(rows[cell.row]), " → ", quoted(columns[cell.column]), `: ${numbers.join(" → ")}`);
  }
  function open(cell) {
    select(cell);
    detail.replaceChildren(...scoreDetail({...found, head, ...cell, t}));
  }
  const content = [make("div", {class: "matrices"}, maps.map(({view}, place) => [place ? make("span", {class: "arrow", "aria-hidden": "true"}, "→") : null, view])), said, detail];
  const {scoring, divisor = 1} = traced, over = divisor === 1 ? "" : ` ÷ ${shortNumber(divisor)}`;
  const formula = `softmax(${scoring ? `${SCORES[scoring.kind]}${over}` : `mask(q·k${over})`})`;
  return stage(t, scoring ? "scoresState" : "scores", formula, content, {draws: maps.map(({draw}) => draw), values: {divisor: shortNumber(divisor), size: traced.q?.shape.at(-1) ?? ""}});
}

/** One attention: a glance at who looks at whom, then every step of it. */
export function attentionStages(t, found, {head, before, after, norm, name}) {
  const {traced, queries, keys} = found, heads = traced.weights.shape[0];
  const chosen = Math.min(Math.max(0, head), heads - 1);
  const stages = [glanceStage(t, found, partOf(traced.weights, chosen), chosen, name)], {scoring} = traced;
  if (traced.q?.data && traced.q.shape.length === 3) {
    const {content, draws} = row(
      numbersOf(t, partOf(traced.q, chosen), queries, t("numbers.query"), "query"), numbersOf(t, partOf(traced.k, chosen), keys, t("numbers.key"), "key"),
      numbersOf(t, partOf(traced.v, chosen), keys, t("numbers.value"), "value"));
    const [id, formula] = scoring ? ["qkvState", PROJECTED[scoring.kind]] : name === "cross" ? ["qkvCross", "q = x·W_Q   k = m·W_K   v = m·W_V"]
      : name === "pooling" ? ["qkvPooling", "q = learned·W_Q   k = x·W_K   v = x·W_V"] : ["qkv", "q = x·W_Q   k = x·W_K   v = x·W_V"];
    stages.push(stage(t, id, formula, content, {draws}));
  }
  if (traced.products) stages.push(scoreStage(t, found, chosen));
  if (traced.heads?.data && traced.v?.data && traced.v.shape.length === 3) {
    const detail = make("div", {class: "detail"});
    const words = make("div", {class: "chips"}, queries.map(({text}, place) => button(quoted(text), () => detail.replaceChildren(...mixDetail({...found, head: chosen, row: place, t})), {class: "chip"})));
    detail.append(...mixDetail({...found, head: chosen, row: queries.length - 1, t}));
    stages.push(stage(t, "mix", "z = Σ weight · v", [words, detail]));
    const each = row(...Array.from({length: heads}, (_, number) => numbersOf(t, partOf(traced.heads, number), queries, t("attention.head", {head: number + 1}))));
    each.content.classList.add("even");
    const joined = traced.output && !scoring ? row(numbersOf(t, traced.output, queries, t("numbers.joined"))) : null;
    if (!scoring) stages.push(stage(t, "heads", "[z₁ … z_H] · W_O", [each.content, joined?.content].filter(Boolean), {draws: [...each.draws, ...(joined?.draws ?? [])], values: {heads}}));
  }
  if (before && after && traced.output) stages.push(addStage(t, {before, change: traced.output, after, tokens: queries, norm, name: "addAttention"}));
  return stages;
}

/** What comes in plus what the sublayer adds. */
export function addStage(t, {before, change, after, tokens, norm, name}) {
  const plain = norm === "pre" ? cell => `${shortNumber(at(before, cell.row, cell.column))} + ${shortNumber(at(change, cell.row, cell.column))}` : null;
  const {content, draws} = row(numbersOf(t, before, tokens, t("numbers.before")), numbersOf(t, change, tokens, t("numbers.added")), numbersOf(t, after, tokens, t("numbers.after"), "", plain));
  return stage(t, norm === "pre" ? `${name}Pre` : name, norm === "pre" ? "x + sublayer(LayerNorm(x))" : "LayerNorm(x + sublayer(x))", content, {draws});
}

/** The feed-forward network. */
export function feedStages(t, feed, {before, after, tokens, norm}) {
  if (!feed) return [];
  const active = feed.activated.data.filter(number => number > 1e-6).length / feed.activated.data.length;
  const {content, draws} = row(numbersOf(t, feed.activated, tokens, t("numbers.activated")), numbersOf(t, feed.output, tokens, t("numbers.output")));
  return [stage(t, "feed", "W₂ · f(W₁ x + b₁) + b₂", content, {draws, values: {active: percent(active), width: feed.activated.shape[1]}}),
    addStage(t, {before, change: feed.output, after, tokens, norm, name: "addFeed"})];
}

/** States of a recurrent model, one after the other. */
export function stateStages(t, matrix, tokens, id) {
  const {content, draws} = row(numbersOf(t, matrix, tokens, t("numbers.states")));
  return [stage(t, id, id === "recurrentMixed" ? "ŝ = tanh(W_c·[a ; s])" : "h_t = f(h_{t−1}, x_t)", content, {draws})];
}

/** What a layer of a model is called; of a recurrent decoder there are its cells, and what attention makes of their states. */
export function layerName(t, kind, stack, layer) {
  if (layer === 0) return t("map.embedding");
  return kind === "recurrent" && stack === "decoder" ? t(layer === 1 ? "map.states" : "map.mixed") : t("attention.layer", {layer});
}

/** The sequence that a stack of the model reads: {tokens, segments, image}. */
export function sequenceOfStack({sequences, trace}, stack) {
  return sequences[trace[stack].sequence ?? (stack === "decoder" && sequences.target ? "target" : "source")] ?? sequences.input;
}
