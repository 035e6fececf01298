// The attention of an explanation: a button for each part of the model, one head large (heat map, lines or over an image), and
// small pictures of every head to choose from. The page, the report of a run and `heedful explain` all draw with this.

import {choices, make, percent, quoted} from "../dom.js";
import {at, matrixOf, meanOfHeads, part, rollout} from "../matrix.js";
import {heatMap, thumbnail} from "./heatmap.js";
import {links} from "./links.js";
import {strength} from "./paint.js";
import {picturesView} from "./picture.js";
import {colourScale, wholePercent} from "./scale.js";

const HEAD_COLOURS = 8; // --head-1 … --head-8 of the style sheet

/** The CSS colour of a head, counted from 0. */
export function headColour(head) {
  return `var(--head-${head % HEAD_COLOURS + 1})`;
}

/** Tokens of the sequence that a part of the model reads, as {text, special}. */
export function tokensOf(explanation, name) {
  const found = explanation.sequences[name] ?? explanation.sequences.input;
  return found.tokens;
}

/** Parts of the model that attend, with matrices ready to be read: [{name, about, queries, keys, layers: [{number, weights, scores}]}]. */
export function partsOf(explanation) {
  return explanation.attention.filter(({layers}) => layers.length).map(one => ({
    ...one,
    layers: one.layers.map(layer => ({...layer, weights: matrixOf(layer.weights), scores: matrixOf(layer.scores)})),
  }));
}

/** The whole view of one part of the model. */
class PartView {
  constructor({explanation, one, chosen, changed, inspect, t, width, rolled}) {
    Object.assign(this, {explanation, one, chosen, changed, inspect, t, width});
    this.queries = tokensOf(explanation, one.queries);
    this.keys = tokensOf(explanation, one.keys);
    this.rows = this.queries.map(({text}) => text);
    this.columns = this.keys.map(({text}) => text);
    this.picture = one.queries === one.keys ? explanation.sequences[one.queries]?.image ?? null : null;
    this.cell = {row: 0, column: 0};
    this.asked = false;
    this.heads = one.layers.flatMap((layer, place) => Array.from({length: layer.weights.shape[0]}, (_, head) => ({
      place, head, layer: layer.number, weights: part(layer.weights, head), scores: layer.scores && part(layer.scores, head),
      title: t("attention.title", {part: t(`part.${one.name}`), layer: layer.number, head: head + 1}),
    })));
    this.all = one.layers.map((layer, place) => ({
      place, head: null, layer: layer.number, weights: meanOfHeads(layer.weights), scores: null,
      title: t("attention.titleAll", {part: t(`part.${one.name}`), layer: layer.number}),
    }));
    if (rolled) {
      const weights = rollout(one.layers.map(layer => layer.weights));
      this.rolled = {place: null, head: null, layer: null, weights, scores: null, title: t("attention.rollout")};
    }
    this.said = make("output", {class: "said"});
    this.large = make("div", {class: "large"});
    this.small = this.smallMultiples();
    this.aboutLine = make("p", {class: "about"});
    this.view = make("div", {class: "part"}, this.aboutLine, this.said,
      make("div", {class: "both"}, this.large, this.small.view));
  }

  about() {
    const {one, t} = this, name = `about.${one.name}`, {kind} = this.explanation;
    const keys = this.lined ? [`${name}.lines.${kind}`, `${name}.lines`] : [`${name}.${kind}`, name];
    return [keys.map(key => t(key, {}, "")).find(Boolean) ?? one.about ?? "", one.note ? ` ${one.note}` : ""];
  }

  smallMultiples() {
    const {t} = this;
    this.options = [...this.heads, ...(this.rolled ? [this.rolled] : []), ...this.all];
    const pictures = this.options.map(option => thumbnail(option.weights));
    const {buttons, show, press} = choices(this.options.map((option, index) => {
      const words = option.layer === null ? t("attention.rolloutShort") : option.head === null ? t("attention.all") : t("attention.head", {head: option.head + 1});
      const mark = option.head === null ? null : make("i", {style: {background: headColour(option.head)}});
      return [make("span", {}, pictures[index].canvas, make("span", {class: "name"}, mark, words)), option.title];
    }), index => this.choose(this.options[index]));
    const rows = this.one.layers.map((layer, place) => make("div", {class: "layer"},
      make("h3", {}, t("attention.layer", {layer: layer.number})),
      buttons.filter((_, index) => this.options[index].place === place)));
    if (this.rolled) rows.unshift(make("div", {class: "layer"}, make("h3", {}, t("attention.wholeModel")), buttons[this.options.indexOf(this.rolled)]));
    return {view: make("div", {class: "heads", role: "group", "aria-label": t("attention.chooseHead")}, rows), pictures, show, press, buttons};
  }

  /** Draw what needs to be on the page first. */
  start() {
    for (const picture of this.small.pictures) picture.draw();
    const {layer, head} = this.chosen;
    const place = this.one.layers.some(one => one.number === layer) ? layer : this.one.layers.at(-1).number;
    const found = layer === 0 && this.rolled ? this.rolled
      : this.options.find(option => option.layer === place && (head === 0 ? option.head === null : option.head === (head ?? 1) - 1));
    const option = found ?? this.options.find(one => one.layer === place);
    this.small.show(this.options.indexOf(option));
    this.draw(option);
  }

  choose(option) {
    Object.assign(this.chosen, {layer: option.layer ?? 0, head: option.head === null ? 0 : option.head + 1});
    this.draw(option);
    this.changed(this.chosen);
  }

  /** Whether lines are drawn, and not a map. */
  get lined() {
    return this.chosen.mode === "lines" && !this.picture;
  }

  draw(option) {
    this.option = option;
    this.aboutLine.replaceChildren(...this.about());
    const width = this.width || this.large.clientWidth || 600;
    const coloured = this.lined && option.head === null && option.place !== null;
    const content = [make("h3", {}, coloured ? this.t("attention.titleColours", {part: this.t(`part.${this.one.name}`), layer: option.layer}) : option.title)];
    this.marks = [];
    if (this.picture) {
      const {picture, rows: names, t} = this;
      const view = picturesView({picture, names, t, selectRow: row => this.select({...this.cell, row}), selectColumn: column => this.select({...this.cell, column})});
      this.marks.push(() => view.update(option.weights, this.cell.row, this.asked ? this.cell.column : null));
      content.push(view.view);
    }
    let map = null, scale = null;
    if (this.lined) {
      content.push(this.lines(option).view);
    } else {
      map = heatMap({
        rows: this.rows, columns: this.columns, width, title: `${option.title}. ${this.t("attention.keys")}`,
        select: cell => this.select(cell), press: this.inspect && option.head !== null ? cell => this.inspect({...cell, option}) : null,
      });
      this.marks.push(() => map.mark(this.asked ? this.cell : null));
      scale = colourScale({least: 0, most: 1, opacity: strength, shown: wholePercent});
      content.push(map.view, scale.view);
    }
    this.large.replaceChildren(...content);
    map?.draw(option.weights);
    scale?.draw();
    this.show();
  }

  lines(option) {
    const heads = option.head === null && option.place !== null
      ? this.heads.filter(({place}) => place === option.place).map(({head, weights}) => ({number: head + 1, weights, colour: headColour(head)}))
      : [{number: 1, weights: option.weights, colour: option.head === null ? headColour(0) : headColour(option.head)}];
    return links({
      queries: this.queries, keys: this.keys, heads, title: `${option.title}. ${this.t("attention.linesKeys")}`,
      select: chosen => this.sayWord(chosen),
    });
  }

  select(cell) {
    Object.assign(this.cell, cell);
    this.asked = true;
    this.show();
  }

  show() {
    for (const mark of this.marks) mark();
    if (!this.asked || this.lined) {
      this.said.textContent = this.t(this.lined ? "attention.askLine" : "attention.ask");
      return;
    }
    const {row, column} = this.cell, {weights, scores} = this.option;
    const score = scores && Number.isFinite(at(scores, row, column)) ? ` · ${this.t("attention.score")} ${at(scores, row, column).toFixed(2)}` : "";
    this.said.replaceChildren(quoted(this.rows[row]), ` ${this.t("attention.attendsTo")} `, quoted(this.columns[column]),
      `: ${percent(at(weights, row, column))}`, score, ...(this.t("attention.attendsAfter") ? [` ${this.t("attention.attendsAfter")}`] : []));
  }

  sayWord(chosen) {
    if (!chosen) return this.show();
    const query = "query" in chosen, {weights} = this.option;
    const row = query ? Array.from(part(weights, chosen.query).data) : this.rows.map((_, index) => at(weights, index, chosen.key));
    const names = query ? this.columns : this.rows;
    const most = row.map((weight, index) => ({weight, index})).sort((one, other) => other.weight - one.weight).slice(0, 3);
    this.said.replaceChildren(quoted(query ? this.rows[chosen.query] : this.columns[chosen.key]),
      ` ${this.t(query ? "attention.mostTo" : "attention.mostFrom")} `,
      ...most.filter(({weight}) => weight > 0).flatMap(({weight, index}, place) => [place ? ", " : "", quoted(names[index]), ` ${percent(weight)}`]));
  }
}

/**
 * Draw the attention of an explanation into an element.
 *
 * t         (key, values, otherwise) → text in the language of the page
 * chosen    {part, layer, head, mode}: what is shown; layer 0 is rollout, head 0 all heads; mode is "map" or "lines"
 * changed   called with it when the reader chooses something else
 * inspect   called with {row, column, option} when a cell is opened
 */
export function drawAttention(root, explanation, {t, chosen = {}, changed = () => {}, inspect = null, tools = () => []}) {
  const parts = partsOf(explanation);
  const state = {mode: "map", ...chosen};
  const stage = make("div", {class: "shown"});
  const modes = ["map", "lines"];
  let current = null;
  const showPart = index => {
    const one = parts[index];
    state.part = one.name;
    const rolled = explanation.kind === "vit" && one.queries === one.keys;
    current = new PartView({explanation, one, chosen: state, changed, inspect, t, rolled});
    stage.replaceChildren(current.view);
    current.start();
    bar.hidden = Boolean(current.picture);
  };
  const kinds = choices(parts.map(({name}) => [t(`part.${name}`), t(`part.${name}`)]), index => {
    showPart(index);
    changed(state);
  }, {class: "choices kinds", "aria-label": t("attention.choosePart")});
  const mode = choices(modes.map(name => [t(`attention.${name}`), t(`attention.${name}`)]), index => {
    state.mode = modes[index];
    current.draw(current.option);
    changed(state);
  }, {class: "choices modes", "aria-label": t("attention.chooseMode")});
  const bar = mode.view;
  root.classList.add("attention");
  root.replaceChildren(make("div", {class: "bar"}, parts.length > 1 ? kinds.view : null, bar, tools(() => current.large)), stage);
  const first = Math.max(0, parts.findIndex(({name}) => name === state.part));
  mode.show(Math.max(0, modes.indexOf(state.mode)));
  kinds.show(first);
  showPart(first);
}
