// Several models on the same input side by side, and one model at several moments of its training.

import {button, make, percent, slider} from "../dom.js";
import {drawAttention} from "../draw/attention.js";
import {candidateRows} from "./flow_output.js";

const MOST = 4; // models at once
const STEP = 900; // milliseconds of a checkpoint while playing

export class CompareView {
  constructor(app) {
    this.app = app;
    this.training = make("div");
    this.columns = make("div", {class: "columns"});
    this.picker = make("div", {class: "tools"});
    this.view = make("div", {class: "compare"}, this.training, this.picker, this.columns);
  }

  /** Models that take the same kind of input. */
  get fitting() {
    const {host, card} = this.app;
    return host.models.filter(({verbs, job}) => verbs[0] === card.verbs[0] && job === card.job);
  }

  async refresh() {
    await this.drawTraining();
    this.drawPicker();
    await this.drawColumns();
  }

  async drawTraining() {
    const {app} = this, {t, state} = app;
    const {checkpoints = []} = await app.model();
    if (checkpoints.length < 2) return this.training.replaceChildren();
    const last = checkpoints.length - 1, now = Math.min(state.values.checkpoint ?? last, last);
    if (this.scrub && this.scrub.count === checkpoints.length) {
      this.scrub.set(now);
      return;
    }
    const name = index => checkpoints[index].step === null ? t("compare.trained") : t("compare.step", {step: checkpoints[index].step.toLocaleString(app.language)});
    this.scrub = slider(t("compare.training"), {min: 0, max: last, step: 1, value: now}, index => state.set({checkpoint: index}), name);
    this.scrub.count = checkpoints.length;
    const play = button(t("flow.play"), () => {
      clearTimeout(this.playing);
      const next = index => {
        if (index > last || !this.view.isConnected) return;
        state.set({checkpoint: index});
        this.playing = setTimeout(() => next(index + 1), STEP);
      };
      next(0);
    }, {class: "quiet"});
    this.training.replaceChildren(make("section", {class: "card inner training"}, make("h3", {}, t("compare.trainingTitle")), make("p", {class: "hint"}, t("compare.trainingAbout")), make("div", {class: "tools"}, this.scrub.view, play)));
  }

  drawPicker() {
    const {app} = this, {t, state} = app, {fitting} = this;
    if (fitting.length < 2) return this.picker.replaceChildren();
    const chosen = this.chosen();
    this.picker.replaceChildren(make("span", {class: "hint"}, t("compare.choose")), ...fitting.map(({name}) => button(make("bdi", {}, name), () => {
      const next = chosen.includes(name) ? chosen.filter(one => one !== name) : [...chosen, name].slice(-MOST);
      if (next.length) state.set({compare: next});
    }, {class: "quiet toggled", "aria-pressed": chosen.includes(name)})));
  }

  chosen() {
    const names = this.fitting.map(({name}) => name), asked = (this.app.state.values.compare ?? []).filter(name => names.includes(name));
    return asked.length ? asked : [this.app.card.name, ...names.filter(name => name !== this.app.card.name)].slice(0, 2);
  }

  async drawColumns() {
    const {app} = this, {t} = app, turn = this.turn = (this.turn ?? 0) + 1;
    const names = this.chosen();
    const columns = await Promise.all(names.map(async name => {
      const model = await app.model(name), explanation = await app.look({}, name);
      const text = explanation?.kind === "gpt" ? (await model.generate(await app.inspected(), {beam: 1, length: 30})).text : explanation?.output;
      return {name, model, explanation, text};
    }));
    if (turn !== this.turn) return;
    this.columns.style.setProperty("--count", names.length);
    this.columns.classList.toggle("several", names.length > 1);
    const drawings = [];
    this.columns.replaceChildren(...columns.map(({name, model, explanation, text}) => {
      const attention = make("div");
      if (explanation?.attention.some(({layers}) => layers.length)) drawings.push([attention, explanation]);
      else attention.append(make("p", {class: "hint"}, t("attention.none")));
      const sure = explanation && this.confidence(explanation);
      const classes = explanation?.candidates?.[0]?.position === null;
      return make("section", {class: "card inner"}, make("h3", {}, make("bdi", {}, name)), make("p", {class: "hint"}, t(`kind.${model.kind}`), " · ", t("page.parameters", {count: model.parameters.toLocaleString(app.language)})),
        explanation ? [classes ? candidateRows(explanation, 0) : make("p", {class: "written", dir: "auto"}, text || t("plain.empty")), sure ? make("p", {class: "hint"}, t("compare.sure", {share: percent(sure)})) : null] : make("p", {class: "hint"}, t("plain.nothing")), attention);
    }));
    const {part, layer, head, mode} = app.state.values;
    for (const [root, explanation] of drawings) drawAttention(root, explanation, {t, chosen: {part: part ?? "cross", layer, head, mode: mode ?? "map"}});
  }

  /** The geometric mean of the probabilities of the chosen tokens. */
  confidence({candidates}) {
    const found = (candidates ?? []).filter(({position}) => position !== null).flatMap(({chosen, top}) => top.find(({id}) => id === chosen)?.probability ?? []);
    return found.length ? Math.exp(found.reduce((sum, probability) => sum + Math.log(Math.max(probability, 1e-9)), 0) / found.length) : null;
  }

  changed(names) {
    if (!names.has("compare")) return null;
    this.drawPicker();
    return this.drawColumns();
  }

  leave() {
    clearTimeout(this.playing);
  }
}
