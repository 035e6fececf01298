// What if: change the model in the middle, and see its output before and after side by side.

import {button, make, quoted, shortNumber, slider, toggle} from "../dom.js";
import {tokensOf} from "../draw/attention.js";
import {has, isChanged, shuffled, tidy, toggleHead, toggleLayer} from "../change.js";
import {closePopover, showPopover} from "./popover.js";
import {beforeAfter} from "./before_after.js";

const PAUSE = 120; // milliseconds while a slider moves

export class WhatIfView {
  constructor(app) {
    this.app = app;
    this.controls = make("div", {class: "controls card inner"});
    this.results = make("div", {class: "results"});
    this.view = make("div", {class: "whatif"}, this.controls, this.results);
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
    this.drawControls();
    await this.compare();
  }

  /** The output the model is given, if the mask is open and there is one. */
  target() {
    const {target} = this.app.state.values;
    return target?.trim() ? target : undefined;
  }

  get source() {
    return this.plain.sequences.source ? "source" : "input";
  }

  /** Drop what no longer fits another input. */
  fitting() {
    const {change} = this, tokens = tokensOf(this.plain, this.source);
    if (change.permute && Object.values(change.permute).some(order => order.length !== tokens.length)) this.app.state.values.change = tidy({...change, permute: null});
    if (change.replace?.some(({position}) => position >= tokens.length)) this.app.state.values.change = tidy({...change, replace: null});
  }

  drawControls() {
    const {t} = this.app, {change, model} = this;
    const group = (id, ...content) => make("fieldset", {class: `group group-${id}`}, make("legend", {}, t(`whatif.${id}`)), make("p", {class: "hint"}, t(`whatif.${id}.about`)), content);
    const attends = this.plain.attention.filter(({layers}) => layers.length);
    const recurrent = this.plain.kind === "recurrent", usual = model.shape?.divisor ?? this.usualDivisor();
    this.reset = button(t("whatif.reset"), () => { this.app.state.set({change: {}, target: ""}); this.refresh(); }, {class: "quiet"});
    this.reset.disabled = !isChanged(change);
    this.controls.replaceChildren(...[
      make("div", {class: "head"}, make("h3", {}, t("whatif.title")), this.reset),
      attends.length ? group("heads", attends.map(one => this.headGrid(one))) : null,
      model.tokenizers?.source ? group("swap", this.words()) : null,
      recurrent ? null : group("positions", toggle(t("whatif.positions.off"), change.positions === false, off => { this.change = {...this.change, positions: off ? false : null}; }).view,
        make("div", {class: "tools"}, button(t("whatif.shuffle"), () => { this.change = {...this.change, permute: {[this.source]: shuffled(tokensOf(this.plain, this.source))}}; }, {class: "quiet"}),
          change.permute ? button(t("whatif.unshuffle"), () => { this.change = {...this.change, permute: null}; }, {class: "quiet"}) : null)),
      attends.length && usual ? group("divisor", this.divisor(usual)) : null,
      recurrent ? null : group("residual", toggle(t("whatif.residual.off"), change.residual === false, off => { this.change = {...this.change, residual: off ? false : null}; }).view),
      ["seq2seq", "gpt"].includes(this.plain.kind) ? group("causal", toggle(t("whatif.causal.open"), change.causal === false, open => { this.change = {...this.change, causal: open ? false : null}; }).view, this.given()) : null,
    ].filter(Boolean));
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
      const whole = name === "cross" || name === "pooling" ? make("span", {class: "layername"}, t("attention.layer", {layer: number}))
        : button(t("attention.layer", {layer: number}), () => { this.change = toggleLayer(this.change, stack, number); }, {class: "layername", "aria-pressed": !off, title: t("whatif.layerSwitch")});
      return make("div", {class: off ? "gridrow off" : "gridrow"}, whole, Array.from({length: count}, (_, index) => {
        const entry = {attention: name, layer: number, head: index + 1};
        const on = !has(change, "heads", entry);
        return button(String(index + 1), () => { this.change = toggleHead(this.change, name, number, index + 1); }, {class: "headswitch", "aria-pressed": on, "aria-label": `${t("attention.title", {part: t(`part.${name}`), layer: number, head: index + 1})}: ${t(on ? "whatif.on" : "whatif.off")}`});
      }));
    }));
  }

  words() {
    const {change} = this, tokenizer = this.model.tokenizers.source;
    const tokens = tokensOf(this.plain, this.source);
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
      this.waiting = setTimeout(() => { this.change = {...this.change, divisor: Math.abs(power) < 0.05 ? null : Number((usual * 2 ** power).toFixed(4))}; }, PAUSE);
    }, power => shortNumber(usual * 2 ** power));
    return [move.view, make("div", {class: "tools"}, button(`1 (${t("whatif.divisor.none")})`, () => { this.change = {...this.change, divisor: 1}; }, {class: "quiet"}),
      button(`√d_k = ${shortNumber(usual)}`, () => { this.change = {...this.change, divisor: null}; }, {class: "quiet"}))];
  }

  /** A text the decoder is given, so that the open mask has a future to look at. */
  given() {
    const {t, state} = this.app;
    const field = make("input", {type: "text", dir: "auto", class: "search", value: state.values.target ?? "", placeholder: t("whatif.target"), "aria-label": t("whatif.target"), on: {change: () => {
      state.set({target: field.value});
      this.refresh();
    }}});
    const own = button(t("whatif.own"), async () => {
      const free = await this.app.look({});
      state.set({target: free.output});
      this.refresh();
    }, {class: "quiet"});
    return make("div", {class: "tools"}, field, this.plain.kind === "gpt" ? null : own);
  }

  async compare() {
    const {app, change} = this, turn = this.turn = (this.turn ?? 0) + 1;
    const {t} = app;
    if (!isChanged(change)) return this.results.replaceChildren(await beforeAfter(app, this.model, this.plain, null, {}, this.target()));
    this.results.classList.add("busy");
    try {
      const interventions = {...change, ...(change.replace ? {replace: change.replace.map(({sequence, position, id}) => ({sequence, position, id}))} : {})};
      const after = await app.look({interventions, target: this.target()});
      const view = await beforeAfter(app, this.model, this.plain, after, interventions, this.target());
      if (turn === this.turn) this.results.replaceChildren(view);
    } catch (error) {
      if (turn === this.turn) this.results.replaceChildren(make("p", {class: "problem card inner", role: "alert"}, error.message || t("plain.nothing")));
    } finally {
      if (turn === this.turn) this.results.classList.remove("busy");
    }
  }

  changed(names) {
    if (!this.plain) return;
    if (names.has("change")) {
      this.drawControls();
      this.compare();
    } else if (names.has("target")) this.refresh();
    else if (["part", "layer", "head"].some(name => names.has(name)) && !this.results.contains(document.activeElement)) this.compare();
  }
}

