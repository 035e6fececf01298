// What if: change the model in the middle, and see its output before and after side by side.

import {bring, button, keepFocus, make, quoted, shortLabel, shortNumber, slider, toggle} from "../dom.js";
import {givenTokens, has, isChanged, shuffled, tidy, toggleHead, toggleLayer} from "../change.js";
import {closePopover, showPopover} from "./popover.js";
import {beforeAfter} from "./before_after.js";

const PAUSE = 120; // milliseconds while a slider moves

export class WhatIfView {
  constructor(app) {
    this.app = app;
    this.controls = make("div", {class: "controls card inner"});
    this.results = make("div", {class: "results"});
    // On a narrow screen the outputs are out of sight while something is changed: this line says at once what became of them.
    this.brief = button("", () => bring(this.results), {class: "brief"});
    this.brief.hidden = true;
    new IntersectionObserver(([{isIntersecting}]) => this.brief.classList.toggle("near", isIntersecting)).observe(this.results);
    this.view = make("div", {class: "whatif"}, this.controls, this.results, this.brief);
  }

  /** The verdict, and the beginning of the output, for a narrow screen. */
  tellBriefly(changed, view) {
    const said = view.querySelector(".after .written, .after .candidate.chosen .name")?.textContent ?? "";
    this.brief.hidden = !changed;
    this.brief.replaceChildren(view.querySelector(".verdict").textContent, " ", said ? make("bdi", {class: "token"}, shortLabel(said, 40)) : "", " ↕");
  }

  get change() {
    return this.app.state.values.change ?? {};
  }

  set change(value) {
    this.app.state.set({change: tidy(value)});
  }

  async refresh() {
    const {app} = this;
    this.model = await app.model();
    this.plain = await app.look({target: this.target()});
    if (!this.plain) {
      this.controls.replaceChildren(make("p", {class: "hint"}, app.t("plain.nothing")));
      return this.results.replaceChildren();
    }
    this.fitting();
    keepFocus(this.controls, () => this.drawControls());
    await this.compare();
  }

  /** The output the model is given, if the mask is open and there is one. */
  target() {
    const {target} = this.app.state.values;
    return target?.trim() ? target : undefined;
  }

  get tokens() {
    return givenTokens(this.model, this.plain);
  }

  get source() {
    return this.plain.sequences.source ? "source" : "input";
  }

  /** Drop what no longer fits another input. */
  fitting() {
    const {change, tokens} = this;
    if (change.permute && Object.values(change.permute).some(order => order.length !== tokens.length)) this.app.state.values.change = tidy({...change, permute: null});
    if (change.replace?.some(({position}) => position >= tokens.length)) this.app.state.values.change = tidy({...change, replace: null});
  }

  drawControls() {
    const {t} = this.app, {change, model} = this;
    const group = (id, ...content) => make("fieldset", {class: `group group-${id}`}, make("legend", {}, t(`whatif.${id}`)), make("p", {class: "hint"}, t(`whatif.${id}.about`)), content);
    const attends = this.plain.attention.filter(({layers}) => layers.length);
    const recurrent = this.plain.kind === "recurrent", usual = model.shape?.divisor ?? this.usualDivisor();
    this.reset = button(t("whatif.reset"), () => { this.app.state.set({change: {}, target: ""}); }, {class: "quiet"});
    this.reset.disabled = !isChanged(change);
    this.controls.replaceChildren(...[
      make("div", {class: "head"}, make("h3", {}, t("whatif.title")), this.reset),
      group("heads", recurrent ? model.shape.stacks.map(one => this.layerGrid(one)) : null, attends.map(one => this.headGrid(one))),
      model.tokenizers?.source ? group("swap", this.words()) : null,
      recurrent ? group("order", this.shuffler()) : group("positions", toggle(t("whatif.positions.off"), change.positions === false, off => { this.change = {...this.change, positions: off ? false : null}; }).view,
        this.shuffler()),
      attends.length && usual ? group(model.shape.divided ? "divisor" : "sharpness", this.divisor(usual)) : null,
      recurrent ? null : group("residual", toggle(t("whatif.residual.off"), change.residual === false, off => { this.change = {...this.change, residual: off ? false : null}; }).view),
      ["seq2seq", "gpt"].includes(this.plain.kind) ? group("causal", toggle(t("whatif.causal.open"), change.causal === false, open => { this.change = {...this.change, causal: open ? false : null}; }).view, this.given()) : null,
    ].filter(Boolean));
  }

  shuffler() {
    const {t} = this.app;
    return make("div", {class: "tools"}, button(t("whatif.shuffle"), () => { this.change = {...this.change, permute: {[this.source]: shuffled(this.tokens)}}; }, {class: "quiet"}),
      this.change.permute ? button(t("whatif.unshuffle"), () => { this.change = {...this.change, permute: null}; }, {class: "quiet"}) : null);
  }

  /** The divisor that the model has, read from a trace. */
  usualDivisor() {
    const {trace} = this.plain;
    for (const stack of [trace?.encoder, trace?.decoder]) {
      const found = stack?.layers?.[0]?.self?.divisor ?? stack?.attention?.divisor;
      if (found) return found;
    }
    return null;
  }

  headGrid({name, layers}) {
    const {t} = this.app, {change} = this;
    const stack = name === "encoder" ? "encoder" : "decoder";
    return make("div", {class: "headgrid", role: "group", "aria-label": t(`part.${name}`)}, make("h4", {}, t(`part.${name}`)), layers.map(({number, weights}) => {
      const count = weights.shape?.[0] ?? weights.length, off = has(change, "layers", {stack, layer: number});
      const whole = name === "cross" || name === "pooling" ? make("span", {class: "layername"}, t("attention.layer", {layer: number})) : this.layerSwitch(stack, number, off);
      return make("div", {class: off ? "gridrow off" : "gridrow"}, whole, Array.from({length: count}, (_, index) => {
        const entry = {attention: name, layer: number, head: index + 1};
        const on = !has(change, "heads", entry);
        return button(String(index + 1), () => { this.change = toggleHead(this.change, name, number, index + 1); }, {class: "headswitch", "aria-pressed": on, "aria-label": `${t("attention.title", {part: t(`part.${name}`), layer: number, head: index + 1})}: ${t(on ? "whatif.on" : "whatif.off")}`});
      }));
    }));
  }

  /** The layers of a stack without heads. */
  layerGrid({name, layers}) {
    const {t} = this.app;
    return make("div", {class: "headgrid", role: "group", "aria-label": t(`map.${name}`)}, make("h4", {}, t(`map.${name}`)), Array.from({length: layers}, (_, index) => {
      const off = has(this.change, "layers", {stack: name, layer: index + 1});
      return make("div", {class: off ? "gridrow off" : "gridrow"}, this.layerSwitch(name, index + 1, off));
    }));
  }

  layerSwitch(stack, layer, off) {
    const {t} = this.app;
    return button(t("attention.layer", {layer}), () => { this.change = toggleLayer(this.change, stack, layer); }, {class: "layername", "aria-pressed": !off, title: t("whatif.layerSwitch")});
  }

  words() {
    const {change, tokens} = this, tokenizer = this.model.tokenizers.source;
    const order = change.permute?.[this.source] ?? tokens.map((_, index) => index);
    const swapped = new Map((change.replace ?? []).map(({position, id, text}) => [position, text ?? tokenizer.tokens([id])[0]]));
    return make("div", {class: "chips"}, order.map(place => {
      const token = tokens[place];
      if (token.special) return make("span", {class: "chip special"}, quoted(token.text));
      const chip = button(quoted(swapped.get(place) ?? token.text), () => this.swap(chip, place, tokenizer), {class: swapped.has(place) ? "chip swapped" : "chip", "aria-haspopup": "dialog"});
      return chip;
    }));
  }

  /** Choose another token for a place. */
  swap(chip, position, tokenizer) {
    const {t} = this.app;
    const found = make("div", {class: "candidates"});
    const put = (id, text) => {
      closePopover(true);
      const others = (this.change.replace ?? []).filter(one => one.position !== position);
      this.change = {...this.change, replace: id === null ? others : [...others, {sequence: this.source, position, id, text}]};
    };
    const list = prefix => found.replaceChildren(...(tokenizer.search(prefix, 8) ?? []).map(({id, text}) => button(quoted(text), () => put(id, text), {class: "candidate"})));
    const field = make("input", {type: "text", class: "search", placeholder: t("whatif.search"), "aria-label": t("whatif.search"), on: {input: () => list(field.value)}});
    showPopover(chip, t("whatif.swap"), field, found, button(t("whatif.swap.undo"), () => put(null), {class: "quiet"}));
    list("");
    field.focus();
  }

  divisor(usual) {
    const {t} = this.app, {change} = this;
    const value = typeof change.divisor === "number" ? change.divisor : usual;
    const move = slider(t("whatif.divisor.slider"), {min: -3, max: 3, step: 0.1, value: Math.log2(value / usual)}, power => {
      clearTimeout(this.waiting);
      this.waiting = setTimeout(() => {
        this.sliding = true;
        this.change = {...this.change, divisor: Math.abs(power) < 0.05 ? null : Number((usual * 2 ** power).toFixed(4))};
        this.sliding = false;
      }, PAUSE);
    }, power => shortNumber(usual * 2 ** power));
    const {divided} = this.model.shape;
    return [move.view, make("div", {class: "tools"}, divided ? button(`1 (${t("whatif.divisor.none")})`, () => { this.change = {...this.change, divisor: 1}; }, {class: "quiet"}) : null,
      button(divided ? `√d_k = ${shortNumber(usual)}` : "1", () => { this.change = {...this.change, divisor: null}; }, {class: "quiet"}))];
  }

  /** A text the decoder is given, so that the open mask has a future to look at. */
  given() {
    const {t, state} = this.app;
    const field = make("input", {type: "text", dir: "auto", class: "search", value: state.values.target ?? "", placeholder: t("whatif.target"), "aria-label": t("whatif.target"), on: {change: () => state.set({target: field.value})}});
    const own = button(t("whatif.own"), async () => {
      const free = await this.app.look({});
      state.set({target: free.output});
    }, {class: "quiet"});
    return make("div", {class: "tools"}, field, own);
  }

  async compare() {
    const {app, change} = this, turn = this.turn = (this.turn ?? 0) + 1;
    const {t} = app;
    this.results.classList.add("busy");
    try {
      const interventions = {...change, ...(change.replace ? {replace: change.replace.map(({sequence, position, id}) => ({sequence, position, id}))} : {})};
      const after = isChanged(change) ? await app.look({interventions, target: this.target()}) : null;
      const view = await beforeAfter(app, this.model, this.plain, after, interventions, this.target());
      if (turn !== this.turn) return;
      keepFocus(this.results, () => this.results.replaceChildren(view));
      this.tellBriefly(isChanged(change), view);
    } catch (error) {
      if (turn === this.turn && error.name !== "AbortError") this.results.replaceChildren(make("p", {class: "problem card inner", role: "alert"}, error.message || t("plain.nothing")));
    } finally {
      if (turn === this.turn) this.results.classList.remove("busy");
    }
  }

  changed(names) {
    if (!this.plain) return null;
    if (names.has("target")) return this.refresh();
    if (names.has("change") && this.sliding) this.reset.disabled = !isChanged(this.change); // a slider that is drawn anew is let go of
    else if (names.has("change")) keepFocus(this.controls, () => this.drawControls());
    return ["change", "part", "layer", "head"].some(name => names.has(name)) ? this.compare() : null;
  }
}

