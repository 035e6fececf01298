// Writing token by token: which comes next and why, how sampling changes the odds, and the branches of a beam.

import {button, make, percent, quoted, shortNumber, slider} from "../dom.js";
import {matrixOf, meanOfHeads, part} from "../matrix.js";
import {BeamView} from "../draw/beam.js";
import {exportTools} from "./tools.js";
import {candidateRow} from "./written.js";

const SHOWN = 10; // candidates
const MOST = 200; // tokens of one text

export class WritingView {
  constructor(app) {
    this.app = app;
    this.sampling = {temperature: 1, top_k: 0, top_p: 1};
    this.beamWidth = 4;
    this.text = make("p", {class: "soFar", dir: "auto"});
    this.bars = make("div", {class: "candidates"});
    this.why = make("div", {class: "why"});
    this.view = make("div", {class: "writing"}, this.stepCard(), this.beamCard());
  }

  stepCard() {
    const {t} = this.app, {sampling} = this;
    const set = (name, range, shown) => slider(t(`writing.${name}`), {...range, value: sampling[name]}, value => {
      sampling[name] = value;
      this.drawBars();
    }, shown);
    this.sliders = [set("temperature", {min: 0.1, max: 3, step: 0.1}, value => value.toFixed(1)), set("top_k", {min: 0, max: 50, step: 1}, value => value ? String(value) : t("writing.all")),
      set("top_p", {min: 0.05, max: 1, step: 0.05}, value => value.toFixed(2))];
    this.said = make("p", {class: "hint"});
    this.next = button(t("writing.next"), () => this.act(() => this.writer.write()), {class: "main"});
    return make("section", {class: "card inner"}, make("h3", {}, t("writing.title")), make("p", {class: "hint"}, t("writing.about")), this.text,
      make("div", {class: "tools"}, this.next, button(t("writing.draw"), () => this.act(() => this.writer.draw({...sampling, random: Math.random})), {class: "quiet"}),
        button(t("writing.finish"), () => this.finish(), {class: "quiet"}), button(t("writing.back"), () => this.act(() => this.writer.back(1)), {class: "quiet"}), button(t("writing.restart"), () => this.refresh(), {class: "quiet"})),
      make("div", {class: "two"}, make("div", {}, make("h4", {}, t("writing.candidates")), this.bars, this.said), make("div", {}, make("h4", {}, t("writing.sampling")), this.sliders.map(({view}) => view), this.why)));
  }

  beamCard() {
    const {t} = this.app;
    const width = slider(t("writing.width"), {min: 1, max: 8, step: 1, value: this.beamWidth}, value => {
      this.beamWidth = value;
      this.refreshBeam().catch(() => {}); // another input came
    });
    this.beam = new BeamView(t, width.view);
    return make("section", {class: "card inner beamcard"}, make("div", {class: "head"}, make("h3", {}, t("writing.beam")), exportTools(t, () => this.beam.drawing, `${this.app.card.name}-beam`)),
      make("p", {class: "hint"}, t("writing.beamAbout")), this.beam.view);
  }

  async refresh() {
    const {app} = this, {t} = app;
    const input = await app.inspected();
    this.writer = null;
    if (input === null) {
      this.text.replaceChildren(make("span", {class: "hint"}, t("plain.nothing")));
      for (const one of [this.bars, this.said, this.why]) one.replaceChildren();
      return this.beam.show({width: 0, steps: []});
    }
    this.prompt = input;
    this.writer = await (await app.model()).startWriter(input, {signal: app.signal});
    this.drawStep();
    await this.refreshBeam();
  }

  /** Do something to the text, one thing at a time. */
  async act(what) {
    if (this.acting || !this.writer) return;
    this.acting = true;
    const {writer} = this;
    try {
      await what();
      if (writer === this.writer) this.drawStep();
    } catch (error) {
      if (error.name !== "AbortError") throw error; // another input came
    } finally {
      this.acting = false;
    }
  }

  finish() {
    return this.act(async () => {
      const {writer} = this;
      while (writer === this.writer && !writer.finished && writer.tokens.length < MOST) {
        await writer.write();
        if (writer === this.writer) this.drawStep();
        await new Promise(resolve => { setTimeout(resolve, 40); });
      }
    });
  }

  drawStep() {
    const {writer, app} = this, {t} = app;
    if (!writer) return;
    const tokens = writer.written().map(({text, probability}) => make("span", {class: "chip", title: percent(probability)},
      make("i", {class: "fill", style: {"--share": probability.toFixed(3)}}), quoted(text)));
    const cursor = writer.finished ? make("span", {class: "chip special"}, t("writing.end")) : make("span", {class: "cursor"});
    this.text.replaceChildren(...(app.verb === "generate" ? [make("bdi", {class: "prompt"}, this.prompt)] : []), ...tokens, cursor);
    this.next.disabled = writer.finished;
    this.drawBars();
    this.drawWhy();
  }

  drawBars() {
    const {writer, app} = this, {t} = app;
    if (!writer) return;
    if (writer.finished) {
      this.said.textContent = t("writing.done");
      return this.bars.replaceChildren();
    }
    const candidates = writer.candidates({count: SHOWN, ...this.sampling});
    this.bars.replaceChildren(...candidates.map(one => candidateRow(one, () => this.act(() => writer.write(one.id)))));
    this.said.textContent = t("writing.entropy", {bits: shortNumber(writer.entropy(this.sampling))});
  }

  /** What the position that writes the next token attends to: the source, or the text so far. */
  async drawWhy() {
    const {app, writer} = this, {t} = app;
    const turn = this.turn = (this.turn ?? 0) + 1;
    const {length} = writer.tokens;
    const explanation = await app.look({target: [...writer.tokens], lens: false, trace: false, candidates: 1}).catch(() => null);
    if (turn !== this.turn || !explanation) return;
    const one = explanation.attention.find(({name}) => name === "cross") ?? explanation.attention.find(({name}) => name === "decoder");
    if (!one?.layers.length) return this.why.replaceChildren();
    const weights = meanOfHeads(matrixOf(one.layers.at(-1).weights)), keys = explanation.sequences[one.keys]?.tokens ?? explanation.sequences.input.tokens;
    const row = part(weights, Math.min(weights.shape[0] - 1, one.name === "cross" ? length : weights.shape[0] - 1)).data, most = Math.max(...row) || 1;
    this.why.replaceChildren(make("h4", {}, t(one.name === "cross" ? "writing.why" : "writing.whyBack")), make("p", {class: "chips", dir: "auto"},
      keys.map(({text}, key) => make("span", {class: "chip heatchip", title: percent(row[key]), style: {"--share": (row[key] / most).toFixed(3)}}, quoted(text)))));
  }

  async refreshBeam() {
    const {app} = this;
    const turn = this.beamTurn = (this.beamTurn ?? 0) + 1;
    const beam = await (await app.model()).startBeam(await app.inspected(), {beam: this.beamWidth, signal: app.signal, ...(app.verb === "generate" ? {length: 12} : {})});
    for (let step = 0; step < MOST && await beam.step(); step++) if (turn !== this.beamTurn || step >= 40) break;
    if (turn !== this.beamTurn) return;
    this.beam.show(beam.tree);
  }

  leave() {
    this.beam.stop();
  }
}
