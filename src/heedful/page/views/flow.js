// One sentence goes through the model: choose a layer, and see every step of it with the numbers of this input.

import {bring, button, choices, make} from "../dom.js";
import {attentionAt} from "./numbers.js";
import {outputStage} from "./flow_output.js";
import {attentionStages, embeddingStages, feedStages, layerName, stateStages, sequenceOfStack} from "./stages.js";
import {exportTools} from "./tools.js";

const STEP = 2600; // milliseconds of each card while playing

export class FlowView {
  constructor(app) {
    this.app = app;
    this.map = make("div", {class: "modelmap"});
    this.heads = make("div", {class: "headbar"});
    this.cards = make("div", {class: "stages"});
    this.chooser = make("div", {class: "card inner sticky"}, this.map, this.heads);
    this.view = make("div", {class: "flow"}, this.chooser, this.cards);
  }

  async refresh() {
    const {app} = this, {t, state} = app;
    this.explanation = await app.look({target: state.values.target || undefined});
    this.norm = (await app.model()).shape?.norm ?? "post";
    this.chooser.hidden = !this.explanation;
    if (!this.explanation) return this.cards.replaceChildren(make("p", {class: "hint card inner"}, t("plain.nothing")));
    this.draw();
  }

  /** The places in the model one can look at: [{stack, layer}], layer 0 being the embedding. */
  places() {
    const {trace} = this.explanation, found = [];
    for (const stack of ["encoder", "decoder"]) {
      if (!trace[stack]) continue;
      found.push({stack, layer: 0}, ...(trace[stack].layers ?? []).map(({number}) => ({stack, layer: number})));
    }
    if (trace.pooling) found.push({stack: "pooling", layer: 1});
    found.push({stack: "output", layer: 0});
    return found;
  }

  draw() {
    const {state} = this.app, places = this.places();
    const asked = state.values.stack, layer = state.values.layer ?? 1;
    const best = places.findIndex(place => place.stack === (asked ?? places[0].stack) && (["output", "pooling"].includes(place.stack) || place.layer === Math.min(layer, 99)));
    const number = best >= 0 ? best : Math.min(1, places.length - 1);
    this.place = places[number];
    this.drawMap(places, number);
    this.drawCards();
  }

  drawMap(places, number) {
    const {t, state} = this.app;
    const go = place => state.set({stack: place.stack, layer: place.layer});
    const {kind, attention} = this.explanation;
    const between = kind !== "recurrent" ? "map.between" : attention.some(({layers}) => layers.length) ? "map.between.recurrent" : "map.between.unattending";
    const rows = ["encoder", "decoder"].filter(stack => places.some(place => place.stack === stack));
    this.map.replaceChildren(...rows.map(stack => {
      const inside = places.filter(place => place.stack === stack || (["output", "pooling"].includes(place.stack) && stack === rows.at(-1)));
      return make("div", {class: `maprow ${stack}`, role: "group", "aria-label": t(`map.${stack}`)},
        make("span", {class: "mapname"}, rows.length > 1 ? t(`map.${stack}`) : ""),
        inside.map((place, index) => {
          const name = ["output", "pooling"].includes(place.stack) ? t(`map.${place.stack}`) : layerName(t, this.explanation.kind, place.stack, place.layer);
          return [index ? make("i", {"aria-hidden": "true"}) : null, button(name, () => go(place), {"aria-pressed": places.indexOf(place) === number, class: "block"})];
        }));
    }), rows.length > 1 ? make("p", {class: "hint between"}, t(between)) : "");
  }

  drawHeads(count) {
    const {t, state} = this.app;
    const head = Math.min(Math.max(1, state.values.head ?? 1), Math.max(1, count));
    const {view, show} = choices(Array.from({length: count}, (_, index) => [t("attention.head", {head: index + 1}), t("attention.head", {head: index + 1})]), index => state.set({head: index + 1}), {"aria-label": t("attention.chooseHead")});
    if (count) show(head - 1);
    this.playing = false;
    this.play = button(t("flow.play"), () => this.start(), {class: "quiet"});
    this.heads.replaceChildren(count > 1 ? view : "", this.play, exportTools(t, () => this.cards, `${this.app.card.name}-flow`));
    return head - 1;
  }

  drawCards() {
    const {app, explanation, place} = this, {t} = app, {trace} = explanation;
    let stages;
    if (place.stack === "output") {
      this.drawHeads(0);
      stages = outputStage(app, explanation);
    } else if (place.stack === "pooling") {
      const found = attentionAt(explanation, "pooling", 1);
      stages = attentionStages(t, found, {head: this.drawHeads(found.traced.weights.shape[0]), name: "pooling"});
    } else {
      const stack = trace[place.stack], sequence = sequenceOfStack(explanation, place.stack);
      if (place.layer === 0) {
        this.drawHeads(0);
        stages = embeddingStages(t, stack, sequence);
      } else stages = this.layerStages(stack, sequence.tokens);
    }
    this.cards.replaceChildren(...stages.map(({view}, index) => {
      view.prepend(make("span", {class: "number", "aria-hidden": "true"}, index + 1));
      return view;
    }));
    for (const {draws} of stages) for (const draw of draws) draw();
  }

  layerStages(stack, tokens) {
    const {explanation, place} = this, {t} = this.app;
    const layer = stack.layers[place.layer - 1];
    const {norm} = this;
    const self = attentionAt(explanation, place.stack, place.layer), cross = place.stack === "decoder" ? attentionAt(explanation, "cross", place.layer) : null;
    const head = this.drawHeads((self ?? cross)?.traced.weights.shape[0] ?? 0);
    const stages = [];
    if (!layer.self) {
      if (place.stack === "encoder" || place.layer === 1) return stateStages(t, layer.after, tokens, place.stack === "encoder" ? "recurrent" : "recurrentDecoder");
      return [...attentionStages(t, cross, {head, name: "cross"}), ...stateStages(t, layer.after, tokens, "recurrentMixed")];
    }
    stages.push(...attentionStages(t, self, {head, before: layer.before, after: layer.afterSelf, norm, name: "self"}));
    if (layer.cross) stages.push(...attentionStages(t, cross, {head, before: layer.afterSelf, after: layer.afterCross, norm, name: "cross"}));
    stages.push(...feedStages(t, layer.feed, {before: layer.afterCross ?? layer.afterSelf, after: layer.after, tokens, norm}));
    return stages;
  }

  /** Lead the eye from card to card. */
  start() {
    if (this.playing) return this.stop();
    this.playing = true;
    this.play.textContent = this.app.t("flow.stop");
    const cards = [...this.cards.children];
    const next = index => {
      for (const card of cards) card.classList.remove("lit");
      if (!this.playing || index >= cards.length || !cards[index].isConnected) return this.stop();
      cards[index].classList.add("lit");
      bring(cards[index], "center");
      this.waiting = setTimeout(() => next(index + 1), STEP);
    };
    next(0);
  }

  stop() {
    clearTimeout(this.waiting);
    this.playing = false;
    for (const card of this.cards.children) card.classList.remove("lit");
    if (this.play) this.play.textContent = this.app.t("flow.play");
  }

  changed(names) {
    if (["stack", "layer", "head"].some(name => names.has(name)) && this.explanation) this.draw();
  }

  leave() {
    this.stop();
  }
}
